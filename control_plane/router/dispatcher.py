"""Every call from its submission to its end: placed, or waiting, or lost and placed again; told to its sink once.

No network and no timers of its own here. Links bring what workers say, ``apply`` what the fleet says, and ``arm`` asks
for a ``tick`` at a monotonic time; so tests drive it with workers and clocks of their own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.call import CallSink, RoutedCall
from control_plane.contracts.errors import DropReason, InferDeckError, RequestCancelled
from control_plane.contracts.fleet import CancelOutcome, EndpointSet, RequestPhase, WorkerPhase
from control_plane.contracts.pressure import Pressure
from control_plane.contracts.worker import Delta, FinishReason
from control_plane.router import refusals
from control_plane.router.catalogue import Catalogue
from control_plane.router.ledger import Ledger
from control_plane.router.lobby import Lobby
from control_plane.router.placement import Placement
from control_plane.router.recovery import Recovery, about
from control_plane.router.requests import Request
from control_plane.router.scheduling.profile import Profile
from control_plane.router.targets import Link, Target, Targets
from control_plane.router.timed_request import TimedRequest

_log = logging.getLogger(__name__)


class Dispatcher:
    """``open_link`` makes the stream to a target, ``changed`` is called when a request has ended.

    A sink that is told of an end may cancel or submit other calls at once.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        profile: Profile,
        retries: int,
        queue_timeout_s: float,
        clock: Callable[[], float],
        arm: Callable[[float], None],
        open_link: Callable[[Target], Link],
        changed: Callable[[], None],
    ) -> None:
        self.placement = Placement(profile, ledger, clock)
        self.catalogue = Catalogue(self.placement.targets)
        self.rejections: Counter[tuple[str, str, str]] = Counter()
        self._ledger = ledger
        self._clock = clock
        self._open_link = open_link
        self._changed = changed
        self._targets = self.placement.targets
        self._lobby = Lobby(
            self.placement,
            queue_timeout_s=queue_timeout_s,
            clock=clock,
            arm=arm,
            over=self._end,
            why_not=self.catalogue.why_not,
        )
        self._recovery = Recovery(
            targets=self._targets,
            lobby=self._lobby,
            retries=retries,
            release=self._release,
            over=self._end,
            drop=self._drop,
        )
        self._seq = 0

    @property
    def queued(self) -> int:
        return len(self._lobby)

    @property
    def targets(self) -> Targets:
        return self._targets

    def admit_by(self, rules: AdmissionRules) -> None:
        """From now on. Calls that wait already may go on waiting."""
        if rules != self._lobby.rules:
            self._lobby.rules = rules
            self._lobby.drain_all()

    def pressures(self) -> tuple[Pressure, ...]:
        """Of each model that is configured."""
        return self._lobby.pressures(view.name for view in self.catalogue.all())

    # --- calls

    def submit(self, call: RoutedCall, sink: CallSink) -> Request:
        """Place the call or let it wait. Raises what the caller has to be told at once."""
        if self._lobby.closed:
            raise refusals.closing()
        self.catalogue.check_fits(call)
        now = self._clock()
        self._seq += 1
        make = TimedRequest if call.hops else Request
        request = make(self, call, sink, self._seq, now, self.catalogue.price(call.model))
        self._ledger.open(request)
        try:
            self._lobby.enter(request, now)
        except InferDeckError as error:
            self._finish(request, RequestPhase.FAILED, error.reason, now)
            raise
        except Exception:
            # Its caller hears of it, and whoever asks what runs here is not to find it for good.
            self._take_out(request, DropReason.INTERNAL_ERROR, now, RequestPhase.FAILED)
            raise
        return request

    def left(self, request: Request, reason: str, used: Callable[[int], None] | None = None) -> None:
        """The client is gone: the sink hears nothing more. ``used`` hears what its worker counted, or at once what was
        told so far where no worker has it."""
        if request.phase.active:
            if used is not None:
                if request.target is not None:
                    self._await_last_words(request.target, request.number, used)
                else:
                    used(request.output_tokens)
            self._withdraw(request, reason or DropReason.REQUEST_CANCELLED, self._clock())

    def cancel(self, request_id: str) -> CancelOutcome:
        """An operator ends a request: its sink is told."""
        request = self._ledger.find(request_id)
        if request is None:
            ended = self._ledger.has_ended(request_id)
            return CancelOutcome(request_id, found=ended, already_ended=ended)
        self._withdraw(request, DropReason.REQUEST_CANCELLED, self._clock())
        self._tell(request, refusals.cancelled_by_operator())
        return CancelOutcome(request_id, found=True)

    def close(self) -> None:
        """End everything: each sink is told, each link closed."""
        self._lobby.closed = True
        for request in tuple(self._ledger.active):
            if not request.phase.active:
                continue
            self._withdraw(request, DropReason.DRAINING, self._clock(), RequestPhase.FAILED)
            self._tell(request, refusals.closing())
        for target in self._targets.all():
            self._unlink(target)

    # --- from requests (Owner)

    def first_token(self, request: Request) -> None:
        if request.target is not None:
            request.target.succeeded(request.number)
            self._lobby.drain(request.model)

    def ending(self, request: Request, delta: Delta, now: float) -> None:
        if delta.error is not None:
            self._recovery.call_failed(request, delta.error, now)
            return
        finish = delta.finish
        if finish is not None and finish.reason is FinishReason.ABORT:
            request.aborted = True
        if request.aborted:
            if delta.done is not None:
                self._end(request, refusals.cancelled_at_worker(), now)
                self._lobby.drain(request.model)
            return
        request.progress(delta, now)
        if not request.delivered:
            request.arrived()
        if finish is not None and request.finish != "length":
            request.finish = finish.reason.name.lower()
        if delta.done is not None:
            request.done = delta.done
            self.first_token(request)
            self._release(request, now)
            self.placement.learn(request, delta.done)
            self._finish(request, RequestPhase.FINISHED, request.finish, now)
        try:
            request.sink.delta(delta)
        finally:
            if delta.done is not None:
                self._lobby.drain(request.model)

    # --- from links

    def link_up(self, target: Target) -> None:
        target.up()
        _log.info("connected to a worker", extra=about(target))
        self._lobby.drain(target.candidate.model)

    def link_down(self, target: Target, cause: str) -> float:
        """The stream broke or could not be made. Returns how long to wait before the next attempt, in seconds."""
        was_connected = target.candidate.connected
        cool_down = target.down(self._clock())
        if was_connected or target.circuit.failures == 1:
            words = "lost the stream to a worker" if was_connected else "cannot connect to a worker"
            _log.warning(words, extra=about(target) | {"cause": cause, "in_flight": len(target.calls)})
        self._recovery.fail_over(target, self._clock())
        self._leave_if_idle(target)
        return cool_down

    def sink_broke(self, request: Request) -> None:
        """The gateway's side of a call failed: generating on would be for nobody."""
        if request.phase.active:
            self._withdraw(request, DropReason.INTERNAL_ERROR, self._clock(), RequestPhase.FAILED)

    def unreadable(self, request: Request) -> None:
        """Its worker says something of it that says nothing to this version."""
        self._drop(request, refusals.unreadable(), self._clock())
        self._lobby.drain(request.model)

    # --- from the fleet

    def apply(self, update: EndpointSet) -> None:
        self.catalogue.update(update.models)
        changes = self._targets.apply(update, self._clock())
        for target in changes.lost:
            self._unlink(target)
            self._recovery.fail_over(target, self._clock())
        for target in changes.leaving:
            self._leave_if_idle(target)
        for endpoint in update.endpoints:
            target = self._targets.by_worker(endpoint.worker_id)
            if (
                target.link is None
                and endpoint.phase is WorkerPhase.READY
                and endpoint.address
                and not self._lobby.closed
            ):
                target.link = self._open_link(target)
        self._ledger.forget_workers(self._targets.worker_ids())
        self._lobby.drain_all()

    # --- time

    def tick(self) -> None:
        self._lobby.tick()

    # --- ending

    def _withdraw(
        self, request: Request, reason: str, now: float, phase: RequestPhase = RequestPhase.CANCELLED
    ) -> None:
        """Out of the queue or off its worker, and closed; the sink is not told."""
        self._take_out(request, reason, now, phase)
        self._lobby.drain(request.model)

    def _take_out(self, request: Request, reason: str, now: float, phase: RequestPhase) -> None:
        """What it held is nobody's yet."""
        if not self._lobby.leave(request) and request.target is not None and request.target.link is not None:
            request.target.link.abort(request.number)
        self._release(request, now)
        self._finish(request, phase, reason, now)

    def _drop(self, request: Request, error: InferDeckError, now: float) -> None:
        """Over, and the sink is told why, of a request that may be anywhere: what was done with it failed half way."""
        if request.phase.active:
            try:
                self._take_out(request, error.reason, now, RequestPhase.FAILED)
            except Exception:
                _log.exception("a call could not be ended", extra={"request_id": request.call.request_id})
            self._tell(request, error)

    def _end(self, request: Request, error: InferDeckError, now: float) -> None:
        """Over, and the sink is told why."""
        cancelled = isinstance(error, RequestCancelled)
        self._release(request, now)
        self._finish(request, RequestPhase.CANCELLED if cancelled else RequestPhase.FAILED, error.reason, now)
        self._tell(request, error)

    def _finish(self, request: Request, phase: RequestPhase, reason: str, now: float) -> None:
        self._ledger.close(request, phase, reason, now)
        self._lobby.ended(request)
        if phase is RequestPhase.FAILED:
            self.rejections[request.model, reason, request.service.tier] += 1
        self._changed()

    def _release(self, request: Request, now: float) -> None:
        """The endpoint does not hold it any more. The one place where in-flight counts go down."""
        target = request.target
        if target is not None:
            target.detach(request, now)
            request.target = None
            self._leave_if_idle(target)

    def _tell(self, request: Request, error: InferDeckError) -> None:
        try:
            request.sink.failed(error)
        except Exception:
            _log.exception("a sink failed", extra={"request_id": request.call.request_id})

    # --- targets

    def _await_last_words(self, target: Target, number: int, used: Callable[[int], None]) -> None:
        """``used`` hears what the worker counted of the attempt with this number, which is about to be aborted."""

        def told(output_tokens: int | None) -> None:
            self._leave_if_idle(target)
            if output_tokens is not None:
                used(output_tokens)

        target.last_words[number] = told

    def _leave_if_idle(self, target: Target) -> None:
        if not target.calls and not target.last_words and self._targets.is_leaving(target):
            self._unlink(target)
            self._targets.left(target)

    def _unlink(self, target: Target) -> None:
        target.candidate.connected = False
        target.last_words.clear()
        if target.link is not None:
            target.link.close()
            target.link = None
