"""The names of long prompts' blocks, kept for the next prompt that begins alike.

Naming a block takes a hash, one after the other. A conversation's next turn, and whoever has the same system prompt,
have most of their blocks in common with what was named before: these are looked up, a run of blocks at a time, by one
hash over the run and the name before it. Nothing of a prompt itself is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from control_plane.contracts import block_hash

RUN: Final = 32
"""Blocks of a run. A prompt's last ones, which fill none, are named one by one."""

MOST: Final = 8_192
"""Runs that are kept, the last ones used: 4 million tokens of 16 a block. Each takes 1.7 kB."""


class NamedRuns:
    """Runs of blocks by what they hold and follow. Bounded: what was not used for longest goes first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._runs: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def extend(self, names: list[int], tokens: Sequence[int], block_size: int, salt: str) -> None:
        """As ``block_hash.extend_hashes``."""
        begin, step = len(names) * block_size, RUN * block_size
        whole = (len(tokens) - begin) // step
        if whole:
            data = block_hash.packed(tokens[begin : begin + whole * step])
            size = len(data) // whole
            parent = names[-1] if names else block_hash.root_hash(salt)
            for at in range(0, len(data), size):
                run = self._run(parent, data[at : at + size], block_size)
                names += run
                parent = run[-1]
        if len(names) < len(tokens) // block_size:
            block_hash.extend_hashes(names, tokens, block_size, salt)

    def _run(self, parent: int, data: bytes, block_size: int) -> tuple[int, ...]:
        key = sha256(parent.to_bytes(8, "little") + data).digest()
        runs = self._runs
        run = runs.get(key)
        if run is not None:
            runs.move_to_end(key)
            return run
        run = runs[key] = tuple(block_hash.named(parent, data, block_size))
        if len(runs) > self._most:
            runs.popitem(last=False)
        return run
