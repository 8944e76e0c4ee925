"""Every call from its submission to its end: placed, or waiting, or lost and placed again; told to its sink once.

No network and no timers of its own here. Links bring what workers say, ``apply`` what the fleet says, and ``arm`` asks
for a ``tick`` at a monotonic time; so tests drive it with workers and clocks of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from control_plane.contracts.call import CallSink, RoutedCall
from control_plane.contracts.errors import (
    DropReason,
    InferDeckError,
    InternalError,
    RequestCancelled,
    RequestRefused,
    Unavailable,
    WorkerLost,
    from_reason,
)
from control_plane.contracts.fleet import CancelOutcome, EndpointSet, RequestPhase, WorkerPhase
from control_plane.contracts.worker import CallError, Delta, FinishReason
from control_plane.router import refusals
from control_plane.router.catalogue import Catalogue
from control_plane.router.ledger import Ledger
from control_plane.router.migration import obstacle
from control_plane.router.placement import Placement
from control_plane.router.requests import Request
from control_plane.router.scheduling.profile import Decision, Profile
from control_plane.router.targets import Link, Target, Targets
from control_plane.router.waiting import Waiting

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0
"""Those that wait are looked at this often even if nothing happens: what was known may have become stale."""

_NO_OTHER = "no other worker could take it up in time"

_BUSY = frozenset(reason for reason in DropReason if isinstance(from_reason(reason, ""), Unavailable))
_CALLERS = frozenset(
    reason for reason in DropReason if isinstance(from_reason(reason, ""), RequestRefused | RequestCancelled)
)


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
        queue_limit: int,
        clock: Callable[[], float],
        arm: Callable[[float], None],
        open_link: Callable[[Target], Link],
        changed: Callable[[], None],
    ) -> None:
        self.placement = Placement(profile, ledger, clock)
        self.catalogue = Catalogue(self.placement.targets)
        self._ledger = ledger
        self._retries = retries
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self._arm = arm
        self._open_link = open_link
        self._changed = changed
        self._waiting: Waiting[Request] = Waiting(queue_limit)
        self._targets = self.placement.targets
        self._seq = 0
        self._closed = False

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def targets(self) -> Targets:
        return self._targets

    # --- calls

    def submit(self, call: RoutedCall, sink: CallSink) -> Request:
        """Place the call or let it wait. Raises what the caller has to be told at once."""
        if self._closed:
            raise refusals.closing()
        refusals.check_context(call, self.catalogue.max_context(call.model))
        now = self._clock()
        self._seq += 1
        request = Request(self, call, sink, self._seq, now, self.catalogue.price(call.model))
        self._ledger.open(request)
        self._drain(call.model)
        if not request.phase.active:  # a sink that was told of another call's end has closed everything
            return request
        try:
            if self.placement.place(request).chosen is None:
                if not self._waiting.has_room:
                    raise refusals.queue_full(len(self._waiting))
                self._wait(request, now)
        except InferDeckError as error:
            self._finish(request, RequestPhase.FAILED, error.reason, now)
            raise
        return request

    def left(self, request: Request, reason: str, used: Callable[[int], None] | None = None) -> None:
        """The client is gone: the sink hears nothing more. ``used`` hears what its worker counted."""
        if request.phase.active:
            if used is not None and request.target is not None:
                request.target.last_words[request.number] = used
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
        self._closed = True
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
            if len(self._waiting):
                self._drain(request.model)

    def ending(self, request: Request, delta: Delta, now: float) -> None:
        if delta.error is not None:
            self._call_failed(request, delta.error, now)
            return
        finish = delta.finish
        if finish is not None and finish.reason is FinishReason.ABORT:
            request.aborted = True
        if request.aborted:
            if delta.done is not None:
                self._end(request, refusals.cancelled_at_worker(), now)
                self._drain(request.model)
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
                self._drain(request.model)

    # --- from links

    def link_up(self, target: Target) -> None:
        target.up()
        _log.info("connected to a worker", extra=_about(target))
        self._drain(target.candidate.model)

    def link_down(self, target: Target, cause: str) -> float:
        """The stream broke or could not be made. Returns how long to wait before the next attempt, in seconds."""
        was_connected = target.candidate.connected
        cool_down = target.down(self._clock())
        if was_connected or target.circuit.failures == 1:
            words = "lost the stream to a worker" if was_connected else "cannot connect to a worker"
            _log.warning(words, extra=_about(target) | {"cause": cause, "in_flight": len(target.calls)})
        self._fail_over(target)
        return cool_down

    def sink_broke(self, request: Request) -> None:
        """The gateway's side of a call failed: generating on would be for nobody."""
        if request.phase.active:
            self._withdraw(request, DropReason.INTERNAL_ERROR, self._clock(), RequestPhase.FAILED)

    # --- from the fleet

    def apply(self, update: EndpointSet) -> None:
        self.catalogue.update(update.models)
        changes = self._targets.apply(update, self._clock())
        for target in changes.lost:
            self._unlink(target)
            self._fail_over(target)
        for target in changes.leaving:
            self._leave_if_idle(target)
        for endpoint in update.endpoints:
            target = self._targets.by_worker(endpoint.worker_id)
            if target.link is None and endpoint.phase is WorkerPhase.READY and endpoint.address and not self._closed:
                target.link = self._open_link(target)
        self._ledger.forget_workers(self._targets.worker_ids())
        self._drain_all()

    # --- time

    def tick(self) -> None:
        now = self._clock()
        for request in self._waiting.expired(now):
            if not request.phase.active:
                continue
            if request.begun:
                error: InferDeckError = refusals.worker_lost(request.output_tokens, request.retries, _NO_OTHER)
            else:
                error = self.catalogue.why_not(request.model, now - request.queued_mono)
            self._end(request, error, now)
        self._drain_all()

    # --- placing

    def _place(self, request: Request, now: float) -> Decision | None:
        """None for a call that cannot be sent: it is over."""
        try:
            return self.placement.place(request)
        except InferDeckError as error:
            self._waiting.remove(request)
            self._end(request, error, now)
            return None

    def _place_or_wait(self, request: Request, now: float) -> None:
        if not self._closed and (decision := self._place(request, now)) is not None and decision.chosen is None:
            self._wait(request, now)

    def _wait(self, request: Request, now: float) -> None:
        if not request.deadline:
            own = request.call.queue_timeout_s
            request.deadline = now + (self._queue_timeout_s if own is None else own)
        self._waiting.add(request)
        self._arm_next()

    def _drain_all(self) -> None:
        for model in self._waiting.models():
            self._drain(model)
        self._arm_next()

    def _drain(self, model: str) -> None:
        """Place whoever waits for the model, first come first served. One that no worker is right for, after what it
        has tried or for its length, does not hold up the others."""
        for request in self._waiting.line(model):
            if self._closed or request not in self._waiting:
                continue
            decision = self._place(request, self._clock())
            if decision is None:
                continue
            if decision.chosen is not None:
                self._waiting.remove(request)
            elif not request.tried and "too_long" not in decision.left_out.values():
                return

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

    # --- ending

    def _call_failed(self, request: Request, error: CallError, now: float) -> None:
        target = request.target
        assert target is not None
        self._release(request, now)
        if error.code in _BUSY and not request.delivered:
            target.refused(now)
            request.returned(now)
            self._place_or_wait(request, now)
        elif error.code in _CALLERS:
            self._end(request, refusals.by_the_worker(error), now)
        else:
            extra = _about(target) | {"request_id": request.call.request_id, "code": error.code}
            _log.warning("a call failed at its worker", extra=extra)
            if error.code == DropReason.INTERNAL_ERROR:
                target.failed(now)
                self._retry(request, target, refusals.engine_failed(request.retries + 1), now)
            else:
                target.broke(now)
                self._retry(request, target, refusals.worker_lost(request.output_tokens, request.retries + 1), now)
        self._drain(request.model)

    def _fail_over(self, target: Target) -> None:
        """Everything that ran there goes elsewhere: from its beginning, or from where it was."""
        now = self._clock()
        for request in sorted(target.calls.values(), key=lambda request: request.seq):
            if request.target is not target:
                continue
            self._release(request, now)
            self._retry(request, target, refusals.worker_lost(request.output_tokens, request.retries + 1), now)

    def _retry(self, request: Request, failed: Target, error: InferDeckError, now: float) -> None:
        """Not more often than allowed, and not on an instance that failed it before. After the first token it goes on
        from there, where that can be done, and where it was the worker that failed. It may wait for another one, unless
        all live on and have failed it."""
        request.tried.add(failed.instance_id)
        others = self._targets.serving(request.model)
        hopeless = isinstance(error, InternalError) and all(
            target.instance_id in request.tried and target.candidate.connected for target in others
        )
        stuck = obstacle(request.call, len(request.said)) if request.begun else ""
        if stuck and isinstance(error, WorkerLost):
            error = refusals.worker_lost(request.output_tokens, request.retries + 1, stuck)
        over = stuck or (request.begun and isinstance(error, InternalError))
        if over or request.retries >= self._retries or hopeless:
            self._end(request, error, now)
            return
        request.retries += 1
        _log.info(
            "a call goes on elsewhere" if request.begun else "a call is tried elsewhere",
            extra=_about(failed)
            | {
                "request_id": request.call.request_id,
                "retries": request.retries,
                "output_tokens": request.output_tokens,
            },
        )
        request.deadline = 0.0
        request.returned(now)
        self._place_or_wait(request, now)

    def _withdraw(
        self, request: Request, reason: str, now: float, phase: RequestPhase = RequestPhase.CANCELLED
    ) -> None:
        """Out of the queue or off its worker, and closed; the sink is not told."""
        if not self._waiting.remove(request) and request.target is not None and request.target.link is not None:
            request.target.link.abort(request.number)
        self._release(request, now)
        self._finish(request, phase, reason, now)
        self._drain(request.model)

    def _end(self, request: Request, error: InferDeckError, now: float) -> None:
        """Over, and the sink is told why."""
        cancelled = isinstance(error, RequestCancelled)
        self._release(request, now)
        self._finish(request, RequestPhase.CANCELLED if cancelled else RequestPhase.FAILED, error.reason, now)
        self._tell(request, error)

    def _finish(self, request: Request, phase: RequestPhase, reason: str, now: float) -> None:
        self._ledger.close(request, phase, reason, now)
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

    def _leave_if_idle(self, target: Target) -> None:
        if not target.calls and self._targets.is_leaving(target):
            self._unlink(target)
            self._targets.left(target)

    def _unlink(self, target: Target) -> None:
        target.candidate.connected = False
        if target.link is not None:
            target.link.close()
            target.link = None


def _about(target: Target) -> dict[str, object]:
    return {"worker_id": target.worker_id, "instance_id": target.instance_id}
