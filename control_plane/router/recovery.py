"""What becomes of calls whose attempt failed: elsewhere from their beginning or from where they were, or an error."""

from __future__ import annotations

import logging
from collections.abc import Callable

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
from control_plane.contracts.worker import CallError
from control_plane.router import refusals
from control_plane.router.lobby import Lobby
from control_plane.router.migration import obstacle
from control_plane.router.requests import Request
from control_plane.router.targets import Target, Targets

_log = logging.getLogger(__name__)

_BUSY = frozenset(reason for reason in DropReason if isinstance(from_reason(reason, ""), Unavailable))
_CALLERS = frozenset(
    reason for reason in DropReason if isinstance(from_reason(reason, ""), RequestRefused | RequestCancelled)
)


class Recovery:
    """``release`` takes a request off its endpoint, ``over`` ends it with an error, ``drop`` does so wherever it is."""

    def __init__(
        self,
        *,
        targets: Targets,
        lobby: Lobby,
        retries: int,
        release: Callable[[Request, float], None],
        over: Callable[[Request, InferDeckError, float], None],
        drop: Callable[[Request, InferDeckError, float], None],
    ) -> None:
        self._targets = targets
        self._lobby = lobby
        self._retries = retries
        self._release = release
        self._over = over
        self._drop = drop

    def call_failed(self, request: Request, error: CallError, now: float) -> None:
        """The worker said so."""
        target = request.target
        assert target is not None
        self._release(request, now)
        if error.code in _BUSY and not request.delivered:
            target.refused(now)
            request.returned(now)
            self._lobby.again(request, now)
        elif error.code in _CALLERS:
            self._over(request, refusals.by_the_worker(error), now)
        else:
            extra = about(target) | {"request_id": request.call.request_id, "code": error.code}
            _log.warning("a call failed at its worker", extra=extra)
            if error.code == DropReason.INTERNAL_ERROR:
                target.failed(now)
                self._retry(request, target, refusals.engine_failed(request.retries + 1), now)
            else:
                target.broke(now)
                self._retry(request, target, refusals.worker_lost(request.output_tokens, request.retries + 1), now)
        self._lobby.drain(request.model)

    def fail_over(self, target: Target, now: float) -> None:
        """The endpoint is lost: everything that ran there goes elsewhere, each for itself."""
        for request in sorted(target.calls.values(), key=lambda request: request.seq):
            if request.target is not target:
                continue
            try:
                self._release(request, now)
                self._retry(request, target, refusals.worker_lost(request.output_tokens, request.retries + 1), now)
            except Exception:
                _log.exception("a call could not be taken elsewhere", extra={"request_id": request.call.request_id})
                self._drop(request, refusals.not_taken_elsewhere(), now)

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
            self._over(request, error, now)
            return
        request.retries += 1
        _log.info(
            "a call goes on elsewhere" if request.begun else "a call is tried elsewhere",
            extra=about(failed)
            | {
                "request_id": request.call.request_id,
                "retries": request.retries,
                "output_tokens": request.output_tokens,
            },
        )
        request.deadline = 0.0
        request.returned(now)
        self._lobby.again(request, now)


def about(target: Target) -> dict[str, object]:
    """For logs."""
    return {"worker_id": target.worker_id, "instance_id": target.instance_id}
