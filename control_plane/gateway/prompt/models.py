"""The prompts of all models: files from a worker, once for each tokenizer, shared by every call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from control_plane.contracts.call import Router
from control_plane.contracts.errors import InferDeckError, InternalError, Unavailable
from control_plane.gateway.prompt.model_prompt import ModelPrompt

log = logging.getLogger(__name__)

FRESH_S = 30.0
"""Age at which a model's tokenizer is asked for again, in the background; a pool may have been given another model."""

_RETRY_S = 0.25
_WARM_S = 1.0
_COLD_S = 0.1
_PATIENCE_S = 5.0
"""A gateway does not wait longer for a model's tokenizer to be ready for the others."""

Answer = Callable[[ModelPrompt | InferDeckError], None]


class Waiter:
    """A call that waits for its model's tokenizer until ``deadline`` (monotonic seconds)."""

    __slots__ = ("answer", "deadline")

    def __init__(self, answer: Answer, deadline: float) -> None:
        self.answer = answer
        self.deadline = deadline


class ModelPrompts:
    """Everything runs on the event loop, save the reading of files."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._by_model: dict[str, ModelPrompt] = {}
        self._asked_at: dict[str, float] = {}
        self._waiters: dict[str, list[Waiter]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tried: set[str] = set()
        self._begun_at: dict[str, float] = {}
        self._warming: set[str] = set()
        self._warm = False

    @property
    def warm(self) -> bool:
        """Whether the tokenizer of each model that had workers at first was read, or could not be, or takes too long.

        Reading one holds the interpreter for a fifth of a second or more, in whatever thread: until then a call's first
        token would wait for it. A model that comes later makes nothing cold again.
        """
        if not self._warm:
            served = [model.name for model in self._router.models() if model.ready_workers]
            self._warm = bool(served) and all(map(self._is_over, served))
        return self._warm

    def _is_over(self, model: str) -> bool:
        now = time.monotonic()
        return model in self._tried or now - self._begun_at.get(model, now) > _PATIENCE_S

    @property
    def waiting(self) -> int:
        """Calls held because their model's tokenizer is not known yet."""
        return sum(map(len, self._waiters.values()))

    def get(self, model: str) -> ModelPrompt | None:
        """What is known now; one that is not fresh is asked for again beside that."""
        known = self._by_model.get(model)
        if known is not None and time.monotonic() - self._asked_at[model] > FRESH_S:
            self._asked_at[model] = time.monotonic()
            self._load(model)
        return known

    def wait(self, model: str, waiter: Waiter) -> None:
        """Answer the waiter when a worker has given the files, or with the reason when none does in time."""
        self._waiters.setdefault(model, []).append(waiter)
        self._load(model)

    def leave(self, model: str, waiter: Waiter) -> None:
        """The waiter's call has ended; the last one to leave ends the search."""
        waiters = self._waiters.get(model)
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[model]
                if model not in self._by_model and model not in self._warming:
                    task = self._tasks.pop(model, None)
                    if task is not None:
                        task.cancel()

    async def keep_warm(self) -> None:
        """Load the tokenizers of models that have workers before anyone asks; until cancelled."""
        while True:
            now = time.monotonic()
            for model in self._router.models():
                tried_at = self._asked_at.get(model.name, -FRESH_S)
                if model.ready_workers and model.name not in self._by_model and now - tried_at >= FRESH_S:
                    self._warming.add(model.name)
                    self._load(model.name)
            await asyncio.sleep(_WARM_S if self.warm else _COLD_S)

    def give_up(self, error: InferDeckError) -> None:
        """Nobody waits any longer; those who do are told this."""
        for model in tuple(self._waiters):
            self._answer(model, error)

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _load(self, model: str) -> None:
        if model not in self._tasks:
            self._begun_at.setdefault(model, time.monotonic())
            self._tasks[model] = asyncio.get_running_loop().create_task(self._search(model))

    async def _search(self, model: str) -> None:
        try:
            while True:
                try:
                    found = await self._fetch(model)
                except Unavailable as error:
                    self._tried.add(model)
                    if not self._give_up(model, error):
                        await asyncio.sleep(_RETRY_S)
                        continue
                except InferDeckError as error:
                    self._asked_at[model] = time.monotonic()
                    self._answer(model, error)
                except Exception as error:
                    self._asked_at[model] = time.monotonic()
                    log.error("the tokenizer of %s cannot be used", model, exc_info=error)
                    self._answer(model, InternalError("This model's tokenizer cannot be used."))
                else:
                    self._by_model[model] = found
                    self._asked_at[model] = time.monotonic()
                    self._answer(model, found)
                self._tried.add(model)
                return
        finally:
            self._warming.discard(model)
            if self._tasks.get(model) is asyncio.current_task():
                del self._tasks[model]

    async def _fetch(self, model: str) -> ModelPrompt:
        bundle = await self._router.tokenizer_files(model)
        for known in self._by_model.values():
            if known.hash == bundle.hash and known.max_context == bundle.max_context:
                return known
        return await asyncio.to_thread(ModelPrompt, bundle)

    def _give_up(self, model: str, error: Unavailable) -> bool:
        """Fail the waiters whose time is up; True when none is left."""
        now = time.monotonic()
        waiters = self._waiters.pop(model, [])
        patient = [waiter for waiter in waiters if waiter.deadline > now]
        if patient:
            self._waiters[model] = patient
        for waiter in waiters:
            if waiter.deadline <= now:
                waiter.answer(error)
        return not patient

    def _answer(self, model: str, answer: ModelPrompt | InferDeckError) -> None:
        for waiter in self._waiters.pop(model, []):
            waiter.answer(answer)
