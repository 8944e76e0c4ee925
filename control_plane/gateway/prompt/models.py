"""The prompts of all models: files from a worker, once for each tokenizer, shared by every call."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable

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


class _Search:
    """One model's tokenizer: what is known of it, and who waits for it. ``asked_mono``: when a worker was last heard
    about it, ``begun_mono``: first asked. ``tried``: somebody has answered; ``kept``: it goes on without anyone who
    waits."""

    __slots__ = ("asked_mono", "begun_mono", "kept", "prompt", "task", "tried", "waiters")

    def __init__(self) -> None:
        self.prompt: ModelPrompt | None = None
        self.waiters: list[Waiter] = []
        self.task: asyncio.Task[None] | None = None
        self.asked_mono = -math.inf
        self.begun_mono = math.inf
        self.tried = self.kept = False

    def answer(self, answer: ModelPrompt | InferDeckError) -> None:
        waiters, self.waiters = self.waiters, []
        _tell(waiters, answer)

    def give_up(self, error: Unavailable) -> bool:
        """Fail the waiters whose time is up; True when none is left."""
        now = time.monotonic()
        over = [waiter for waiter in self.waiters if waiter.deadline <= now]
        self.waiters = [waiter for waiter in self.waiters if waiter.deadline > now]
        _tell(over, error)
        return not self.waiters

    def end(self) -> None:
        self.kept = False
        if self.task is not None:
            self.task.cancel()
            self.task = None


def _tell(waiters: Iterable[Waiter], answer: ModelPrompt | InferDeckError) -> None:
    """Each for itself: one call that trips over its answer keeps neither the others nor the search from theirs."""
    for waiter in waiters:
        try:
            waiter.answer(answer)
        except Exception:
            log.exception("a call could not be told of its model's tokenizer")


class ModelPrompts:
    """Everything runs on the event loop, save the reading of files."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._searches: dict[str, _Search] = {}
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
        search = self._searches.get(model)
        return search is not None and (search.tried or time.monotonic() - search.begun_mono > _PATIENCE_S)

    @property
    def waiting(self) -> int:
        """Calls held because their model's tokenizer is not known yet."""
        return sum(len(search.waiters) for search in self._searches.values())

    def get(self, model: str) -> ModelPrompt | None:
        """What is known now; one that is not fresh is asked for again beside that."""
        search = self._searches.get(model)
        if search is None:
            return None
        if search.prompt is not None and time.monotonic() - search.asked_mono > FRESH_S:
            search.asked_mono = time.monotonic()
            self._begin(model, search)
        return search.prompt

    def wait(self, model: str, waiter: Waiter) -> None:
        """Answer the waiter when a worker has given the files, or with the reason when none does in time."""
        search = self._searches.setdefault(model, _Search())
        search.waiters.append(waiter)
        self._begin(model, search)

    def leave(self, model: str, waiter: Waiter) -> None:
        """The waiter's call has ended; the last one to leave ends the search."""
        search = self._searches.get(model)
        if search is not None and waiter in search.waiters:
            search.waiters.remove(waiter)
            if not search.waiters and search.prompt is None and not search.kept:
                search.end()
                self._forget(model, search)

    async def keep_warm(self) -> None:
        """Load the tokenizers of models that have workers before anyone asks; until cancelled."""
        while True:
            now = time.monotonic()
            for model in self._router.models():
                if model.ready_workers:
                    search = self._searches.setdefault(model.name, _Search())
                    if search.prompt is None and now - search.asked_mono >= FRESH_S:
                        search.kept = True
                        self._begin(model.name, search)
            await asyncio.sleep(_WARM_S if self.warm else _COLD_S)

    def give_up(self, error: InferDeckError) -> None:
        """Nobody waits any longer; those who do are told this."""
        for search in tuple(self._searches.values()):
            search.answer(error)

    def stop(self) -> None:
        for search in self._searches.values():
            search.end()

    def _begin(self, model: str, search: _Search) -> None:
        if search.task is None:
            search.begun_mono = min(search.begun_mono, time.monotonic())
            search.task = asyncio.get_running_loop().create_task(self._seek(model, search))

    async def _seek(self, model: str, search: _Search) -> None:
        while isinstance(answer := await self._fetch(model), Unavailable):
            search.tried = True
            if search.give_up(answer):
                break
            await asyncio.sleep(_RETRY_S)
        else:
            search.asked_mono = time.monotonic()
        # Over before anyone is answered: who hears of a failure may wait once more.
        search.task, search.kept, search.tried = None, False, True
        if isinstance(answer, ModelPrompt):
            search.prompt = answer
        search.answer(answer)
        self._forget(model, search)

    async def _fetch(self, model: str) -> ModelPrompt | InferDeckError:
        try:
            bundle = await self._router.tokenizer_files(model)
            for known in [search.prompt for search in self._searches.values()]:
                if known is not None and known.hash == bundle.hash and known.max_context == bundle.max_context:
                    return known
            return await asyncio.to_thread(ModelPrompt, bundle)
        except InferDeckError as error:
            return error
        except Exception as error:
            log.error("the tokenizer of %s cannot be used", model, exc_info=error)
            return InternalError("This model's tokenizer cannot be used.")

    def _forget(self, model: str, search: _Search) -> None:
        """Names that a caller made up are not kept."""
        idle = search.prompt is None and search.task is None and not search.waiters
        if idle and all(served.name != model for served in self._router.models()):
            self._searches.pop(model, None)
