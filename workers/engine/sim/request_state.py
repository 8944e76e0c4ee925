"""What the simulated scheduler knows of a request while it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workers.engine.sim.native import i64, mypyc_attr
from workers.engine.sim.prefix import extend_keys
from workers.engine.sim.request import SimRequest

ExtendKeys = Callable[[list[int], list[int], int, str], None]

_NEVER: Final = 1 << 60


@mypyc_attr(acyclic=True)
class RequestState:
    """Mutable, and the scheduler's alone.

    ``tokens`` are prompt and output; the KV of the first ``computed`` of them is, or is being, written to ``blocks``.
    The request has ended when it has ``limit`` tokens, which is at most max_model_len: so there is always room for
    the tokens that a step may compute. ``coming`` counts the tokens that steps in flight will give it, ``stale`` those
    that were on the way when it was preempted, and come all the same. ``cached_blocks`` counts the blocks at the start
    of the table that can be found by their content, ``cached_tokens`` what its first admission found. ``capacity`` and
    ``cache_at`` are the numbers of computed tokens past which a block must be added, and at which one is full and not
    yet in the cache.
    """

    def __init__(self, request: SimRequest, max_model_len: int, extend: ExtendKeys | None = None) -> None:
        self.request_id = request.request_id
        self.priority = request.priority
        self.order = (request.priority, request.arrival, request.request_id)
        self.salt = request.cache_salt
        self.extend = extend
        self.tokens = list(request.prompt_token_ids)
        self.prompt_tokens: i64 = len(self.tokens)
        self.limit: i64 = min(max_model_len, len(self.tokens) + request.max_tokens)
        self.computed: i64 = 0
        self.coming: i64 = 0
        self.stale: i64 = 0
        self.blocks: list[int] = []
        self.keys: list[int] = []
        self.cached_blocks: i64 = 0
        self.cached_tokens: i64 = 0
        self.capacity: i64 = 0
        self.cache_at: i64 = _NEVER
        self.waiting = True
        self.preempted = False
        self.prefilling = False

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    def block_keys(self, block_size: int) -> list[int]:
        """One key for each block that its tokens fill."""
        if len(self.keys) < len(self.tokens) // block_size:
            if self.extend is None:
                extend_keys(self.keys, self.tokens, block_size, self.salt)
            else:
                self.extend(self.keys, self.tokens, block_size, self.salt)
        return self.keys
