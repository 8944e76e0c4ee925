"""One call's life in the router: where it is, what it has produced, when."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from control_plane.contracts.admission import Service
from control_plane.contracts.call import CallSink, PlacedSink, RoutedCall
from control_plane.contracts.fleet import RequestPhase, RequestView, Stage
from control_plane.contracts.histogram import LatencyHistogram
from control_plane.contracts.hold import Hold
from control_plane.contracts.worker import Delta, Done
from control_plane.router.meter import Meter
from control_plane.router.prompt_blocks import PromptBlocks

if TYPE_CHECKING:
    from control_plane.router.prefix_index import Shelf
    from control_plane.router.targets import Target

MOST_HOLDS: Final = 32
"""The last waits of a call are told, not each refusal of a worker that is busy for minutes."""


class Owner(Protocol):
    """Who decides over requests; told what happens to them, on the event loop's thread."""

    def first_token(self, request: Request) -> None: ...

    def ending(self, request: Request, delta: Delta, now: float) -> None:
        """A delta with ``finish``, ``done`` or ``error``: rare, and everything about the end hangs on it."""
        ...

    def left(self, request: Request, reason: str, used: Callable[[int], None] | None) -> None: ...


class Request:
    """Also the ``CallHandle`` that the gateway holds. Times are monotonic seconds, 0.0: not yet.

    ``number`` names the present attempt on its worker's stream, 0 while there is none. ``seq`` is the order of arrival.
    ``worker_s`` is its share of the time of workers that it has left, ``share_mark`` where its share of the present one
    began, ``price`` what a worker costs an hour. ``attempts`` is how often it was sent to a worker. ``charge`` is what
    the endpoint was charged for it, in tokens, ``cost`` what it is expected to hold while it waits, ``sent`` what it
    held when its present attempt began.
    ``delivered``: the present attempt has reached the sink; ``begun``: any has. ``said`` are the tokens of the answer
    so far, of a call with one choice.

    ``blocks`` names the prompt's KV blocks. Of the last attempt: ``prompt_tokens`` that were sent, ``block_names`` of
    them, ``predicted_tokens`` of them that were believed to be cached at the endpoint (None: nothing was), and what it
    has ``promised`` to its ``shelf`` in the prefix index, whose blocks have ``block_size`` tokens.
    """

    __slots__ = (
        "_gaps",
        "_last",
        "_lasts",
        "_owner",
        "_placed",
        "aborted",
        "attempts",
        "begun",
        "block_names",
        "block_size",
        "blocks",
        "call",
        "charge",
        "choices",
        "cost",
        "deadline",
        "delivered",
        "dispatched_mono",
        "done",
        "end_mono",
        "finish",
        "first_mono",
        "holds",
        "meter",
        "number",
        "output_tokens",
        "phase",
        "predicted_tokens",
        "price",
        "promised",
        "prompt_tokens",
        "queued_mono",
        "reason",
        "retries",
        "said",
        "sent",
        "seq",
        "share_mark",
        "shelf",
        "sink",
        "spans",
        "target",
        "tried",
        "worker_id",
        "worker_s",
    )

    def __init__(
        self, owner: Owner, call: RoutedCall, sink: CallSink, seq: int, now: float, price: float = 0.0
    ) -> None:
        self._owner = owner
        self.call = call
        self.sink = sink
        self.seq = seq
        self.choices = max(1, call.sampling.n)
        self.phase = RequestPhase.QUEUED
        self.reason = ""
        self.worker_id = ""
        self.target: Target | None = None
        self.number = 0
        self.charge = self.cost = 0.0
        self.sent = 0
        self.attempts = 0
        self.retries = call.attempts
        self.price = price
        self.worker_s = self.share_mark = 0.0
        self.tried: set[str] = set()
        self.queued_mono = now
        self.deadline = 0.0
        self.dispatched_mono = 0.0
        self.first_mono = call.arrival_mono + call.ttft_s if call.ttft_s else 0.0
        self.end_mono = 0.0
        self.output_tokens = call.resumed
        self.delivered = False
        self.begun = call.resumed > 0
        self.said: list[int] = []
        self.aborted = False
        self.finish = ""
        self.done: Done | None = None
        self.meter: Meter | None = None
        self.spans: list[Stage] = list(call.stages)
        self.holds: deque[Hold] = deque(maxlen=MOST_HOLDS)
        self.blocks = PromptBlocks(call.cache_salt)
        self.block_names: Sequence[int] = ()
        self.block_size = 0
        self.prompt_tokens = 0
        self.predicted_tokens: int | None = None
        self.promised: Sequence[int] = ()
        self.shelf: Shelf | None = None
        self._last = 0.0
        self._lasts: dict[int, float] | None = {} if self.choices > 1 else None
        self._placed = sink.placed if isinstance(sink, PlacedSink) else None
        self._gaps: dict[int, int] = {}

    @property
    def model(self) -> str:
        return self.call.model

    @property
    def priority(self) -> int:
        return self.call.priority

    @property
    def service(self) -> Service:
        return self.call.service

    @property
    def flow(self) -> str:
        return self.call.flow

    @property
    def admitted(self) -> bool:
        """Whether it has been at a worker."""
        return self.attempts > 0

    @property
    def held(self) -> int:
        """Tokens of its prompt, and of its answer so far."""
        return len(self.call.prompt_token_ids) + self.output_tokens

    def cancel(self, reason: str, used: Callable[[int], None] | None = None) -> None:
        self._owner.left(self, reason, used)

    def held_back(self, hold: Hold) -> None:
        """It waits from now on."""
        self.holds.append(hold)

    def dispatched(self, number: int, target: Target, meter: Meter, chosen_mono: float, now: float) -> None:
        """It goes to ``target`` now; choosing it began at ``chosen_mono``."""
        arrival = self.call.arrival_mono
        self.spans.append(Stage("queue", self.queued_mono - arrival, chosen_mono - self.queued_mono))
        self.spans.append(Stage("route", chosen_mono - arrival, now - chosen_mono))
        self._held_until(chosen_mono)
        self.number = number
        self.attempts += 1
        self.target = target
        self.sent = self.held
        self.worker_id = target.worker_id
        self.meter = meter
        self.dispatched_mono = now
        self.phase = RequestPhase.DISPATCHED
        if self._placed is not None:
            self._placed(self.worker_id, self.retries)

    def returned(self, now: float) -> None:
        """Its attempt came to nothing, and it looks for an endpoint again."""
        attempt = [self.spans.pop(), *(self._untold(now) if self.delivered else ())]
        self.spans += [replace(stage, worker_id=self.worker_id) for stage in attempt]
        self.delivered = False
        self.number = 0
        self.worker_id = ""
        self.predicted_tokens = None
        self.meter = None
        self.queued_mono = now
        self.phase = RequestPhase.QUEUED
        self.output_tokens = self.call.resumed + len(self.said)
        if self._placed is not None:
            self._placed("", self.retries)

    def token(self, delta: Delta, now: float) -> None:
        """Once per token: count it, time it, pass it on. The delta is one token of choice 0 and nothing else."""
        self.output_tokens += 1
        self.said += delta.token_ids
        last, meter = self._last, self.meter
        if last and self._lasts is None and meter is not None:
            self._last = now
            bucket, gaps = meter.add_gap(now - last), self._gaps
            gaps[bucket] = gaps.get(bucket, 0) + 1
        else:
            self._time(0, now)
        if not self.delivered:
            self.arrived()
        self.sink.delta(delta)

    def take(self, delta: Delta, now: float) -> None:
        """Any other delta."""
        if delta.finish is not None or delta.done is not None or delta.error is not None:
            self._owner.ending(self, delta, now)
            return
        self.progress(delta, now)
        if not self.delivered:
            self.arrived()
        self.sink.delta(delta)

    def arrived(self) -> None:
        """The present attempt has something to say. Where an earlier one had as well, this one has taken it up."""
        self.delivered = True
        if self.begun and self.call.stream:
            self.phase = RequestPhase.DECODING
            self._owner.first_token(self)
        self.begun = True

    def progress(self, delta: Delta, now: float) -> None:
        count = len(delta.token_ids)
        if count:
            self.output_tokens += count
            self.said += delta.token_ids
            self._time(delta.choice, now)

    def _time(self, choice: int, now: float) -> None:
        """A choice got tokens. Only a stream's are told as they come."""
        if not self.call.stream:
            return
        lasts = self._lasts
        last = self._last if lasts is None else lasts.get(choice, 0.0)
        if lasts is None:
            self._last = now
        else:
            lasts[choice] = now
        if not last:
            if not self.first_mono:
                self._first(now)
        elif self.meter is not None:
            bucket = self.meter.add_gap(now - last)
            self._gaps[bucket] = self._gaps.get(bucket, 0) + 1

    def _first(self, now: float) -> None:
        self.first_mono = now
        self.phase = RequestPhase.DECODING
        if self.meter is not None:
            self.meter.add_ttft(now - self.call.arrival_mono)
        self._owner.first_token(self)

    def ended(self, phase: RequestPhase, reason: str, now: float) -> None:
        self.spans += self._goes_on(now)
        self.phase = phase
        self.reason = reason
        self.end_mono = now
        self.number = 0
        self._held_until(now)
        if self.done is None:
            return
        stages = self.done.stages
        start = self.dispatched_mono - self.call.arrival_mono
        for name, seconds in (
            ("worker_queue", stages.queued_s),
            ("prefill", stages.prefill_s),
            ("decode", stages.decode_s),
        ):
            self.spans.append(Stage(name, start, seconds))
            start += seconds
        self.output_tokens = self.done.output_tokens
        if not self.first_mono and self.output_tokens:
            self.first_mono = self.dispatched_mono + stages.queued_s + stages.prefill_s
            if self.meter is not None:
                self.meter.add_ttft(self.first_mono - self.call.arrival_mono)

    def view(self, router_id: str, now: float) -> RequestView:
        """As operators see it; ``now`` is monotonic and counts for a request that goes on. A call that names no gateway
        is of the one that the router is inside of.

        The time to first token of a plain call is the worker's own account of it, known at the end; the gaps of a
        plain call are not known.
        """
        call, arrival = self.call, self.call.arrival_mono
        worker_s = self.worker_s
        if self.target is not None:
            worker_s += self.choices * (self.target.share.each(now) - self.share_mark)
        return RequestView(
            id=call.request_id,
            gateway_id=call.gateway_id or router_id,
            model=call.model,
            phase=self.phase,
            worker_id=self.worker_id,
            key_id=call.key_id,
            reason=self.reason,
            stream=call.stream,
            arrival_unix=call.arrival_unix,
            prompt_tokens=len(call.prompt_token_ids) - call.resumed,
            cached_tokens=self.done.cached_tokens if self.done else 0,
            output_tokens=self.output_tokens,
            max_tokens=call.sampling.max_tokens * self.choices,
            ttft_s=self.first_mono - arrival if self.first_mono else 0.0,
            itl_p50_s=LatencyHistogram(self._gaps).quantile(0.5) if self._gaps else 0.0,
            duration_s=(self.end_mono or now) - arrival,
            retries=self.retries,
            stages=(*self.spans, *self._goes_on(now), *self._untold(self.end_mono)),
            api=call.api,
            traceparent=call.traceparent,
            predicted_cached_tokens=self.predicted_tokens,
            router_id=router_id if call.gateway_id else "",
            choice=call.choice,
            worker_s=worker_s,
            cost=worker_s / 3600 * self.price,
            tier=call.service.tier,
            preemptions=self.done.stages.preemptions if self.done else 0,
            holds=self._told_holds(now),
        )

    def _held_until(self, now: float) -> None:
        """It waits no more."""
        if self.holds and not self.holds[-1].over:
            last = self.holds[-1]
            self.holds[-1] = replace(last, waited_s=now - self.call.arrival_mono - last.start_s, over=True)

    def _told_holds(self, now: float) -> tuple[Hold, ...]:
        if not self.holds or self.holds[-1].over:
            return tuple(self.holds)
        *before, last = self.holds
        return (*before, replace(last, waited_s=now - self.call.arrival_mono - last.start_s))

    def _goes_on(self, now: float) -> list[Stage]:
        """How long it waits for a worker by now, where it does."""
        if self.phase is not RequestPhase.QUEUED:
            return []
        return [Stage("queue", self.queued_mono - self.call.arrival_mono, now - self.queued_mono)]

    def _untold(self, end: float) -> list[Stage]:
        """The time at the worker as the router saw it: only an end that is whole brings the worker's own account.

        How much of it the call waited there and how much was prefill, or of a plain call decode, is not known here: it
        is time until the ``first_token``, or ``at_worker`` where none was told. ``end`` is 0 while it goes on.
        """
        if self.done is not None or not self.dispatched_mono or not self.worker_id:
            return []
        arrival, first = self.call.arrival_mono, self.first_mono
        if first < self.dispatched_mono:
            first = 0.0  # that was at another worker
        sent = self.dispatched_mono
        if not first:
            return [Stage("at_worker", sent - arrival, end - sent)] if end else []
        stages = [Stage("first_token", sent - arrival, first - sent)]
        if end:
            stages.append(Stage("decode", first - arrival, end - first))
        return stages
