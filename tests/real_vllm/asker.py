"""Calls straight into an engine, and what came of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Tokenizer

from control_plane.contracts.worker import Delta, Generate, ModelInfo, Sampling
from tests.worker_client import Reply
from workers.engine.base import Engine, EngineLoad

TIMEOUT_S = 180.0


class Asker:
    """An engine that has started; ``steps`` are its sink calls."""

    def __init__(self, engine: Engine, model: ModelInfo) -> None:
        self.engine = engine
        self.model = model
        files = {file.name: file.data for file in engine.tokenizer_files()}
        self.tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
        self._numbers = itertools.count(1)
        self._replies: dict[int, Reply] = {}
        self.steps: list[list[Delta]] = []

    def sink(self, deltas: Sequence[Delta]) -> None:
        self.steps.append(list(deltas))
        for delta in deltas:
            self._replies[delta.call].take(delta)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def submit(self, prompt: str | list[int], **fields: Any) -> tuple[int, Reply]:
        """Greedy, 16 tokens, unless told otherwise. Fields of Generate and of Sampling by name."""
        own = {name: fields.pop(name) for name in ("priority", "cache_salt", "stream") if name in fields}
        number = next(self._numbers)
        reply = self._replies[number] = Reply()
        ids = self.encode(prompt) if isinstance(prompt, str) else prompt
        sampling = Sampling(**{"max_tokens": 16, "temperature": 0.0, **fields})
        call = Generate(number, f"real-{number}", ids, sampling, arrival_unix=time.time(), **own)
        self.engine.submit(call, self.sink)
        return number, reply

    async def ask(self, prompt: str | list[int], **fields: Any) -> Reply:
        return await self.submit(prompt, **fields)[1].end(TIMEOUT_S)

    async def until(self, accept: Callable[[EngineLoad], bool]) -> EngineLoad:
        async with asyncio.timeout(TIMEOUT_S):
            while not accept(load := self.engine.load()):  # noqa: ASYNC110 - counters have no event
                await asyncio.sleep(0.01)
        return load

    async def until_idle(self) -> EngineLoad:
        return await self.until(lambda load: load.running == load.waiting == load.used_blocks == 0)
