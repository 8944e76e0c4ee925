"""Where calls come in: sent at once, told to wait, or refused; and those that wait, until it is their turn.

No network and no timers of its own: ``tick`` is asked for by ``arm``, at a monotonic time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from control_plane.contracts.admission import AdmissionRules, Band, Service
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.hold import Hold, HoldReason
from control_plane.contracts.pressure import Pressure
from control_plane.router import refusals
from control_plane.router.admission import Verdict, decide, may_go
from control_plane.router.placement import Placement
from control_plane.router.requests import Request
from control_plane.router.saturation import Gauge
from control_plane.router.scheduling.profile import Decision
from control_plane.router.waiting import Waiting

LOOK_AGAIN_S = 1.0
"""Those that wait are looked at this often even if nothing happens: what was known may have become stale."""

_WAITS = {Band.BUSY: HoldReason.BUSY, Band.REJECT: HoldReason.FULL}

_NO_OTHER = "no other worker could take it up in time"


class Lobby:
    """``over`` ends a request with an error, ``why_not`` says what to tell one who waited for a model for so many
    seconds in vain. ``rules`` may be exchanged. Once ``closed``, nothing is sent any more."""

    def __init__(
        self,
        placement: Placement,
        *,
        queue_timeout_s: float,
        clock: Callable[[], float],
        arm: Callable[[float], None],
        over: Callable[[Request, InferDeckError, float], None],
        why_not: Callable[[str, float], InferDeckError],
    ) -> None:
        self.rules = AdmissionRules()
        self.closed = False
        self._placement = placement
        self._targets = placement.targets
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self._arm = arm
        self._over = over
        self._why_not = why_not
        self._gauge = Gauge()
        self._waiting: Waiting[Request] = Waiting()

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, request: Request, now: float) -> None:
        """A call that has just come. Raises what its caller has to be told at once."""
        self.drain(request.model)
        if not request.phase.active:  # a sink that was told of another call's end has closed everything
            return
        band = self._band(request.model, now)
        verdict = decide(request.service, band)
        if verdict is Verdict.THROTTLE:
            raise refusals.throttled(request.model, request.service.tier)
        if verdict is Verdict.REFUSE:
            raise refusals.all_full(request.model)
        if verdict is Verdict.DISPATCH and self._send(request).chosen is not None:
            return
        self._make_room(request, now)
        if request.phase.active:
            self._wait(request, now, _why(verdict, band))

    def again(self, request: Request, now: float) -> None:
        """A call that was sent before goes elsewhere, or waits for that."""
        if not self.closed and (decision := self._try(request, now)) is not None and decision.chosen is None:
            self._wait(request, now, HoldReason.RETURNED)

    def leave(self, request: Request) -> bool:
        """It waits no more. Whether it did."""
        return self._waiting.remove(request)

    def ended(self, request: Request) -> None:
        """It is over, whatever became of it."""
        if request.admitted:
            self._waiting.ended(request, request.held)

    def drain(self, model: str) -> None:
        """Send whoever waits for the model and may go, the first first. One that no worker is right for, after what it
        has tried or for its length, does not hold up the others."""
        skip: set[int] = set()
        while not self.closed and len(self._waiting):
            now = self._clock()
            band = self._band(model, now)
            if band is None:
                return

            def goes(service: Service, owed: bool, band: Band | None = band) -> bool:
                return may_go(service, band, owed=owed)

            request = self._waiting.first(model, goes, skip)
            if request is None:
                return
            decision = self._try(request, now)
            if decision is not None and decision.chosen is None:
                if not request.tried and all(reason != "too_long" for reason, _ in decision.rejected):
                    return
                skip.add(request.seq)

    def drain_all(self) -> None:
        try:
            for model in self._waiting.models():
                self.drain(model)
        finally:
            # Without the next tick those that wait would, for good.
            self._arm_next()

    def tick(self) -> None:
        now = self._clock()
        for request in self._waiting.expired(now):
            if not request.phase.active:
                continue
            if request.begun:
                error: InferDeckError = refusals.worker_lost(request.output_tokens, request.retries, _NO_OTHER)
            else:
                error = self._why_not(request.model, now - request.queued_mono)
            self._over(request, error, now)
        self.drain_all()

    def pressures(self, models: Iterable[str]) -> tuple[Pressure, ...]:
        """How full each model's endpoints are, and who waits for them."""
        now, waiting = self._clock(), self._waiting.by_tier()
        told = []
        for model in models:
            band, reading = self._band(model, now), self._gauge.last(model)
            queued = {tier: count for (name, tier), count in waiting.items() if name == model}
            if band is None or reading is None:
                told.append(Pressure(model, queued=queued))
            else:
                age = reading.sample_age_s
                told.append(Pressure(model, band, reading.saturation, reading.usable, reading.stale, age, queued))
        return tuple(told)

    # --- inside

    def _band(self, model: str, now: float) -> Band | None:
        return self._gauge.look(model, self._targets.candidates(model), self.rules, now)

    def _send(self, request: Request) -> Decision:
        """Raises InferDeckError for a call that cannot be sent."""
        decision = self._placement.place(request)
        if decision.chosen is not None:
            self._waiting.sent(request, request.charge)
        return decision

    def _try(self, request: Request, now: float) -> Decision | None:
        """None for a call that cannot be sent: it is over."""
        try:
            return self._send(request)
        except InferDeckError as error:
            self._waiting.remove(request)
            self._over(request, error, now)
            return None

    def _make_room(self, request: Request, now: float) -> None:
        """Raises Unavailable where no more may wait."""
        tier, rules = request.service.tier, self.rules
        if (waiting := self._waiting.of_tier(tier)) >= rules.tier_limit:
            raise refusals.tier_queue_full(tier, waiting) if waiting < len(self) else refusals.queue_full(waiting)
        while request.phase.active and not self._waiting.has_room(rules):
            least = self._waiting.less_important(request)
            if least is None:
                raise refusals.queue_full(len(self))
            self._waiting.remove(least)
            self._over(least, refusals.evicted(), now)

    def _wait(self, request: Request, now: float, reason: HoldReason) -> None:
        if not request.deadline:
            own = request.call.queue_timeout_s
            request.deadline = now + (self._queue_timeout_s if own is None else own)
        request.cost = self._placement.expected(request)
        self._waiting.add(request)
        self._hold(request, reason, now)
        self._arm_next()

    def _hold(self, request: Request, reason: HoldReason, now: float) -> None:
        """Keep why it waits, for those who ask."""
        band, reading = self._band(request.model, now), self._gauge.last(request.model)
        position, queued = self._waiting.place_of(request)
        request.held_back(
            Hold(
                reason.value,
                now - request.call.arrival_mono,
                tier=request.service.tier,
                band=band or "",
                saturation=reading.saturation if reading is not None else None,
                position=position,
                queued=queued,
            )
        )

    def _arm_next(self) -> None:
        """Ask for a tick at the next moment when time alone changes something for those that wait."""
        at = self._waiting.next_deadline()
        if at is None:
            return
        now = self._clock()
        at = min(at, now + LOOK_AGAIN_S)
        for model in self._waiting.models():
            for candidate in self._targets.candidates(model):
                if candidate.connected and now < candidate.refusing_until < at:
                    at = candidate.refusing_until
        self._arm(at)


def _why(verdict: Verdict, band: Band | None) -> HoldReason:
    """Why a call that has just come waits."""
    if band is None:
        return HoldReason.NO_WORKER
    return _WAITS[band] if verdict is Verdict.WAIT else HoldReason.NO_ROOM
