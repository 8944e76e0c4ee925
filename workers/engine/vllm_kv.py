"""The worker's end of vLLM's KV events: reads what the engine core tells of its prefix cache.

``vllm_kv_events`` is the other end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from control_plane.contracts.kv_events import KvBatch, KvSnapshot
from workers.engine.kv_translation import CLEARED, KvTranslation
from workers.engine.step_payload import decode

OnKvEvents = Callable[[Sequence[KvBatch]], None]

_log = logging.getLogger(__name__)


class CacheEvents:
    """``on_kv_events`` is called with every batch, and with none when ``unavailable`` has changed, in the event loop's
    thread."""

    def __init__(self, on_kv_events: OnKvEvents) -> None:
        self.unavailable = ""
        self.translation = KvTranslation()
        self._on_kv_events = on_kv_events
        self._told = 0
        self._unnamed = False

    def snapshot(self) -> KvSnapshot:
        return self.translation.snapshot()

    def forget(self) -> None:
        """Nothing is cached any more."""
        if not self.unavailable and (batch := self.translation.batch([(CLEARED,)], 0)) is not None:
            self._on_kv_events((batch,))

    def receive(self, payloads: Sequence[bytes]) -> None:
        """What came with the statistics of one step. After a payload that is missing or cannot be read, nothing is
        known of the cache any more: vLLM tells of a block once."""
        if self.unavailable:
            return
        batches: list[KvBatch] = []
        try:
            for data in payloads:
                batches += self._read(data)
        except Exception as error:
            _log.exception("KV events cannot be read")
            self.unavailable = f"an event could not be read: {type(error).__name__}: {error}"
        if self.translation.unnamed and not self._unnamed:
            self._unnamed = True
            _log.warning("some KV blocks are not told: not of tokens alone, or after such a block")
        if batches or self.unavailable:
            self._on_kv_events(batches)

    def _read(self, data: bytes) -> tuple[KvBatch, ...]:
        told = decode(data)
        if isinstance(told, str):
            _log.warning("no KV events", extra={"cause": told})
            self.unavailable = told
            return ()
        seq, block_size, events = told
        if seq != self._told + 1:
            raise ValueError(f"payload {seq} came after {self._told}")
        self._told = seq
        batch = self.translation.batch(events, block_size)
        return () if batch is None else (batch,)
