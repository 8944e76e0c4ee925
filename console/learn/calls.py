"""The calls that a lesson makes, by its seed, and what their clients saw."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from console.home import Unreachable
from console.http import Connections, Endpoint
from console.learn.conversations import Conversations
from console.learn.keyring import Keyring
from console.learn.wire import WireAnswer
from control_plane.contracts.errors import InferDeckError, InternalError
from control_plane.contracts.fleet import RequestView
from lessons.actions import Calls, Shape
from lessons.hops import TokenHops
from lessons.observation import CallSeen

PATHS = {"chat": "/chat/completions", "completions": "/completions", "models": "/models"}

IDS = range(300, 400)
"""Token ids that every vocabulary of ours has, as plain text."""


@dataclass(slots=True)
class Made:
    """One call. ``began_unix`` is the wall clock when the stopwatch of ``answer`` began. ``task`` runs it; cancelled,
    it is a client that leaves."""

    request_id: str
    shape: Shape
    path: str
    body: dict[str, Any] | None
    answer: WireAnswer
    began_unix: float = 0.0
    left: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.task is not None and self.task.done()

    @property
    def told_of(self) -> bool:
        """Whether routers tell of it: not of what the gateway answers by itself."""
        return self.body is not None and self.answer.status in (0, 200)

    @property
    def heard(self) -> str:
        """The text that came."""
        return "".join(self.answer.text)

    def seen(self, view: RequestView | None, hops: tuple[TokenHops, ...] | None = None) -> CallSeen:
        """``view``: what the platform says of it, where it does; ``hops`` of its tokens, where they are known."""
        answer = self.answer
        error = "" if self.left or answer.ok else answer.error_code or "incomplete"
        return CallSeen(
            name=self.shape.name,
            ok=answer.ok and not self.left,
            error=error,
            left=self.left,
            ttft_s=answer.ttft_s,
            gaps_s=tuple(answer.gaps_s),
            duration_s=(answer.ended or time.monotonic()) - answer.started,
            prompt_tokens=answer.prompt_tokens or 0,
            cached_tokens=answer.cached_tokens or 0,
            output_tokens=answer.output_tokens,
            worker_id=view.worker_id if view is not None else "",
            retries=view.retries if view is not None else 0,
            request_id=self.request_id,
            status=answer.status,
            headers=answer.headers,
            events=answer.events,
            finish=answer.finish_reason,
            stages_s={stage.name: stage.duration_s for stage in view.stages} if view is not None else {},
            hops=hops or (),
            conversation=self.shape.conversation,
            asked=self.shape.text if self.shape.conversation else "",
            heard=self.heard if self.shape.conversation else "",
        )


class Caller:
    """Makes calls of one model. ``seed`` and how many calls went before decide what a prompt says, so that no two
    prompts are alike but for the prefixes that are meant to be. Those are so from one mark to the next: an experiment
    that runs again finds no more in caches and conversations than it did. ``latest`` has the last call of each name,
    ``talks`` those of each conversation; ``model`` is who answers."""

    def __init__(self, endpoint: Endpoint, keys: Keyring, model: str, seed: str) -> None:
        self.latest: dict[str, Made] = {}
        self.talks: dict[str, list[Made]] = {}
        self.conversations = Conversations(keys)
        self._keys = keys
        self._connections = Connections(endpoint)
        self.model = model
        self._seed = seed
        self._number = 0
        self._era = 0
        self._by_name: Counter[str] = Counter()
        self._runs: dict[str, tuple[int, int]] = {}
        self._calls: list[Made] = []
        self._loops: set[asyncio.Task[None]] = set()
        self._trouble: InferDeckError | None = None

    @property
    def running(self) -> list[Made]:
        return [made for made in self._calls if not made.over]

    @property
    def ended(self) -> list[Made]:
        return [made for made in self._calls if made.over]

    def move(self, endpoint: Endpoint) -> None:
        """Later calls go there."""
        if endpoint != self._connections.endpoint:
            self._connections.close()
            self._connections = Connections(endpoint)

    def mark(self) -> None:
        """Calls that have ended are forgotten; those to come are of another experiment, or of its next run."""
        self._calls = self.running
        self._era += 1

    def start(self, calls: Calls) -> asyncio.Task[None]:
        """A task that ends when the last of the calls has ended."""
        loop = asyncio.create_task(self._make(calls))
        self._loops.add(loop)
        loop.add_done_callback(self._loops.discard)
        return loop

    def check(self) -> None:
        """Raises, once, what kept calls from being made: nothing that their server did."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    async def all_over(self) -> None:
        """Return when every call has ended, and no other is to come."""
        while tasks := [*self._loops, *(made.task for made in self.running if made.task is not None)]:
            await asyncio.wait(tasks)

    async def leave(self) -> None:
        """Close every stream, and start no other call."""
        tasks = [*self._loops, *(made.task for made in self.running if made.task is not None)]
        for made in self.running:
            made.left = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        await self.leave()
        self._connections.close()

    async def _make(self, calls: Calls) -> None:
        try:
            await self.conversations.make(self._connections.endpoint, calls.calls, self._era)
            await (self._open(calls) if calls.rate else self._closed(calls))
        except Exception as error:
            self._failed(" and ".join(dict.fromkeys(shape.name for shape in calls.calls)), error)

    def _failed(self, name: str, error: Exception) -> None:
        if self._trouble is None:
            what = error.message if isinstance(error, InferDeckError) else f"{type(error).__name__}: {error}"
            self._trouble = InternalError(f"the call {name!r} could not be made: {what}")
            self._trouble.__cause__ = error

    async def _closed(self, calls: Calls) -> None:
        left = iter(range(calls.count))

        async def caller() -> None:
            for number in left:
                await _over(self._begin(calls.calls[number % len(calls.calls)]))

        await asyncio.gather(*(caller() for _ in range(min(calls.at_once, calls.count))))

    async def _open(self, calls: Calls) -> None:
        began = time.monotonic()
        made = []
        for number in range(calls.count):
            await asyncio.sleep(max(0.0, began + number / calls.rate - time.monotonic()))
            made.append(self._begin(calls.calls[number % len(calls.calls)]))
        for each in made:
            await _over(each)

    def _begin(self, shape: Shape) -> Made:
        self._number += 1
        left = asyncio.Event()
        pieces = 0

        def on_text(_: str, __: float) -> None:
            nonlocal pieces
            pieces += 1
            if shape.leave_after and pieces >= shape.leave_after:
                left.set()

        request_id = f"{self._seed}-{self._number}-{shape.name}"
        answer = WireAnswer(on_text)
        began_unix = time.time() - (time.monotonic() - answer.started)
        made = Made(request_id, shape, PATHS[shape.api], self._body(shape), answer, began_unix)
        made.task = asyncio.create_task(self._run(made, left))
        self._calls.append(made)
        self.latest[shape.name] = made
        if shape.conversation:
            self.talks.setdefault(shape.conversation, []).append(made)
        return made

    async def _run(self, made: Made, left: asyncio.Event) -> None:
        call = asyncio.create_task(self._call(made))
        leaving = asyncio.create_task(left.wait())
        try:
            await asyncio.wait((call, leaving), return_when=asyncio.FIRST_COMPLETED)
            made.left |= not call.done()
        finally:
            for task in (call, leaving):
                task.cancel()
            ended, _ = await asyncio.gather(call, leaving, return_exceptions=True)
            if isinstance(ended, Exception):
                self._failed(made.shape.name, ended)

    async def _call(self, made: Made) -> None:
        key = self._keys.secret(made.shape)
        try:
            await made.answer.run(self._connections, made.path, key, made.body, made.request_id)
        except Unreachable as error:
            made.answer.error_code, made.answer.error_message = "unreachable", error.message

    def _body(self, shape: Shape) -> dict[str, Any] | None:
        if shape.api == "models":
            return None
        body: dict[str, Any] = {"model": shape.model or self.model}
        if shape.api == "chat":
            body["messages"] = [{"role": "user", "content": shape.text}]
            if shape.conversation:
                body["conversation"] = self.conversations.id_of(shape.conversation)
        else:
            body["prompt"] = shape.text or self._prompt(shape)
        body |= {"max_tokens": shape.output_tokens, "stream": shape.stream}
        if shape.stream:
            body["stream_options"] = {"include_usage": True} | ({"include_hops": True} if shape.hops else {})
        if shape.text:
            body["temperature"] = 0
        if shape.min_tokens:
            body["min_tokens"] = shape.min_tokens
        return body | ({"ignore_eos": True} if shape.ignore_eos else {})

    def _prompt(self, shape: Shape) -> list[int]:
        own = Random(f"{self._seed}/{self._number}")
        run = self._run_of(shape.name)
        beginning = self._by_name[shape.name] % shape.prefixes
        self._by_name[shape.name] += 1
        if shape.prefix_of:
            _, run = self._runs.get(shape.prefix_of, (0, 0))
        shared = Random(f"{self._seed}/{shape.prefix_of or shape.name}/{run}/{beginning}")
        prompt = shared.choices(IDS, k=shape.prefix_tokens) if shape.prefix_tokens else []
        return prompt + own.choices(IDS, k=shape.prompt_tokens - len(prompt))

    def _run_of(self, name: str) -> int:
        """How many experiments, or runs of one, had calls of this name before."""
        era, run = self._runs.get(name, (self._era, 0))
        if era != self._era:
            run += 1
            self._by_name[name] = 0
        self._runs[name] = (self._era, run)
        return run


async def _over(made: Made) -> None:
    assert made.task is not None
    await asyncio.wait((made.task,))
