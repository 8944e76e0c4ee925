"""What vLLM's prefix cache holds, told from inside the engine core's process.

vLLM notes in its block pool what it stores and evicts, and hands that to a publisher at the end of each step. Ours
makes a payload of it, which leaves the process with the step's statistics, like the step trace: no socket, no thread,
and in order with the tokens. ``vllm_kv`` reads it on the other side.

vLLM says that a block is removed also where another one has the same content and can still be hit: two requests that
computed it at once. The pool is made to say it of the last one only, so that what is told is what can be hit.

These are private interfaces of vLLM, listed in ``_USED``. Nothing here raises into vLLM's loop: an exception there ends
the engine for everyone.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from workers.engine.kv_translation import CLEARED, REMOVED, STORED
from workers.engine.step_payload import encode
from workers.engine.vllm_trace import lacking, unknown

KV_PAYLOAD: Final = "inferdeck_kv"
"""The key in ``SchedulerStats.ec_connector_stats`` under which a list of payloads travels: each a sequence number, the
block size and events, or a notice: the reason why there are none any more."""

_UNSENT = 1024
_log = logging.getLogger(__name__)

_USED = (
    ("vllm.v1.core.sched.scheduler", "Scheduler", "update_from_output", ("scheduler_output",)),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "get_kv_event_publisher_config", ()),
    ("vllm.v1.core.block_pool", "BlockPool", "cache_full_blocks", ("request", "blocks", "block_size")),
    ("vllm.v1.core.block_pool", "BlockPool", "_emit_block_removed_events", ("block_hashes",)),
    ("vllm.v1.core.block_pool", "BlockPool", "emit_cached_block_events", ()),
    ("vllm.v1.core.block_pool", "BlockPool", "take_events", ()),
    ("vllm.v1.core.block_pool", "BlockHashToBlockMap", "get_one_block", ("key",)),
    ("vllm.distributed.kv_events", "EventPublisher", "publish", ()),
)


class _ToldPool:
    """Over ``BlockPool``."""

    cached_block_hash_to_block: Any

    def _emit_block_removed_events(self, block_hashes: Any) -> None:
        cache = self.cached_block_hash_to_block
        gone = [name for name in block_hashes if cache.get_one_block(name) is None]
        super()._emit_block_removed_events(gone)  # type: ignore[misc]

    def emit_cached_block_events(self, *args: Any, **kwargs: Any) -> None:
        """What is hit again was told when it was stored."""


class Publisher:
    """In the place of vLLM's own. ``problem`` says why nothing is published, or not any more."""

    def __init__(self, scheduler: Any) -> None:
        self.problem = ""
        self._seq = 0
        self._block_size = 0
        self._unsent: list[bytes] = []
        try:
            self.problem = _unsupported(scheduler)
            if not self.problem:
                self._block_size = scheduler.block_size
                pool = scheduler.kv_cache_manager.block_pool
                pool.__class__ = type("ToldPool", (_ToldPool, type(pool)), {})
        except Exception as error:
            self.problem = f"vLLM's block pool is not as it is known here: {type(error).__name__}: {error}"
        if self.problem:
            self._give_up(self.problem)

    def publish(self, batch: Any) -> None:
        """vLLM's ``KVEventBatch`` of one step."""
        if self.problem:
            return
        try:
            events = [told for event in batch.events if (told := _told(event)) is not None]
            self._seq += 1
            self._unsent.append(encode((self._seq, self._block_size, events)))
            if len(self._unsent) > _UNSENT:
                self._give_up("vLLM sends no statistics, and KV events travel with them")
        except Exception as error:
            self._give_up(f"an event could not be told: {type(error).__name__}: {error}")

    def send(self, outputs: dict[int, Any]) -> None:
        """With what leaves the process now."""
        if not self._unsent:
            return
        try:
            for output in outputs.values():
                if (stats := output.scheduler_stats) is not None:
                    stats.ec_connector_stats = {**(stats.ec_connector_stats or {}), KV_PAYLOAD: self._unsent}
                    self._unsent = []
                    return
        except Exception as error:
            self._give_up(f"events could not be sent: {type(error).__name__}: {error}")

    def shutdown(self) -> None:
        pass

    def get_publisher_config(self) -> None:
        """Nobody is to connect to it."""

    def _give_up(self, problem: str) -> None:
        _log.warning("no KV events", extra={"cause": problem})
        self.problem = problem
        self._unsent = [encode(problem)]


class KvEvents:
    """Mixin of vLLM's schedulers: goes before them, and before the step trace, in the list of bases."""

    _kv_publisher: Publisher | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = getattr(self, "kv_events_config", None)
        if config is not None and getattr(config, "enable_kv_cache_events", False):
            self._kv_publisher = self.kv_event_publisher = Publisher(self)

    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().update_from_output(*args, **kwargs)  # type: ignore[misc]
        if self._kv_publisher is not None:
            self._kv_publisher.send(outputs)
        return outputs


def _unsupported(scheduler: Any) -> str:
    import vllm

    if not scheduler.kv_cache_manager.block_pool.enable_caching:
        return "the engine has no prefix cache"
    return unknown(scheduler) or lacking(vllm.__version__, _USED)


def _told(event: Any) -> tuple[Any, ...] | None:
    """The event in the fields of ``kv_translation``; None for one of another cache than the engine's own."""
    name = type(event).__name__
    if name == "AllBlocksCleared":
        return (CLEARED,)
    if getattr(event, "medium", None) not in (None, "GPU"):
        return None
    if name == "BlockRemoved":
        return (REMOVED, event.block_hashes)
    if name != "BlockStored":
        raise ValueError(f"vLLM tells of {name}")
    salt = ""
    for index, keys in enumerate(event.extra_keys or ()):
        if keys is None:
            continue
        if index or event.parent_block_hash is not None or len(keys) != 1 or not isinstance(keys[0], str):
            return _foreign(event)
        salt = keys[0]
    if event.lora_name is not None or event.lora_id is not None:
        return _foreign(event)
    return (STORED, event.block_hashes, event.parent_block_hash, event.token_ids, salt)


def _foreign(event: Any) -> tuple[Any, ...]:
    """Blocks whose content is not only tokens: without any, they get no name, nor do those after them."""
    return (STORED, event.block_hashes, event.parent_block_hash, (), "")
