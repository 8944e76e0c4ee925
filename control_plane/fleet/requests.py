"""The requests of all gateways, as their routers report them: those that run, and the last that ended."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from control_plane.contracts.fleet import MOST_ENDED, Histogram, Latency, RequestPhase, RequestView
from control_plane.fleet.latency import RollingLatency


class Requests:
    """A report replaces what its gateway reported before: what is not listed as active is not active any more.

    ``on_ended`` hears of requests that have ended; it may not block.
    """

    def __init__(self, on_ended: Callable[[Sequence[RequestView]], None] = lambda ended: None) -> None:
        self._on_ended = on_ended
        self._active: dict[str, dict[str, RequestView]] = {}
        self._ended: deque[RequestView] = deque(maxlen=MOST_ENDED)
        self._latency: dict[str, RollingLatency] = {}

    def report(self, gateway_id: str, active: Iterable[RequestView], ended: Iterable[RequestView]) -> set[str]:
        """Take over one gateway's report; the workers that made progress since its last one."""
        before = self._active.get(gateway_id, {})
        now = {view.id: view for view in active}
        progressed: set[str] = set()
        for view in now.values():
            last = before.get(view.id)
            tokens = last.output_tokens if last is not None and last.worker_id == view.worker_id else 0
            if view.worker_id and view.output_tokens > tokens:
                progressed.add(view.worker_id)
        for view in ended:
            last = before.get(view.id)
            if view.worker_id and view.output_tokens > (last.output_tokens if last is not None else 0):
                progressed.add(view.worker_id)
            if view.gateway_id == gateway_id or view.phase is RequestPhase.FINISHED:
                self._over(view)
            if not self._told(view):
                self._end([view])
        self._active[gateway_id] = now
        return progressed

    def measured(self, worker_id: str, now: float, ttft: Histogram | None, itl: Histogram | None) -> None:
        self._latency.setdefault(worker_id, RollingLatency()).add(now, ttft, itl)

    def gateway_lost(self, gateway_id: str) -> int:
        """A gateway is gone, and its requests with it; how many those were."""
        lost = self._active.pop(gateway_id, {})
        self._end([replace(view, phase=RequestPhase.FAILED, reason="gateway_lost") for view in lost.values()])
        return len(lost)

    def router_lost(self, router_id: str) -> None:
        """A router that was a process of its own is gone: the gateways take its requests to another one, and say of
        those that end with it."""
        self._active.pop(router_id, None)

    def _over(self, ended: RequestView) -> None:
        """Nobody has it any more, whatever a router that fell silent said of it last."""
        for views in self._active.values():
            if (view := views.get(ended.id)) is not None and view.gateway_id == ended.gateway_id:
                del views[ended.id]

    def _told(self, ended: RequestView) -> bool:
        """Whether it is a cancel that was told already: a gateway ends what a silent router has, which comes back."""
        what = (ended.phase, ended.id, ended.gateway_id, ended.arrival_unix)
        return ended.phase is RequestPhase.CANCELLED and any(
            what == (view.phase, view.id, view.gateway_id, view.arrival_unix) for view in self._ended
        )

    def _end(self, requests: Sequence[RequestView]) -> None:
        self._ended.extend(requests)
        self._on_ended(requests)

    def worker_forgotten(self, worker_id: str) -> None:
        self._latency.pop(worker_id, None)

    def any_active(self) -> bool:
        return any(self._active.values())

    def active(self) -> tuple[RequestView, ...]:
        """The oldest first."""
        every = (view for views in self._active.values() for view in views.values())
        return tuple(sorted(every, key=lambda view: view.arrival_unix))

    def ended(self) -> tuple[RequestView, ...]:
        """In the order in which they ended."""
        return tuple(self._ended)

    def find(self, request_id: str) -> RequestView | None:
        """A request that runs, or that ended lately."""
        for views in self._active.values():
            if request_id in views:
                return views[request_id]
        return next((view for view in reversed(self._ended) if view.id == request_id), None)

    def on(self, worker_id: str) -> tuple[RequestView, ...]:
        """The requests that a worker has now."""
        return tuple(view for view in self.active() if view.worker_id == worker_id)

    def in_flight(self) -> Counter[str]:
        """Requests by worker."""
        return Counter(view.worker_id for views in self._active.values() for view in views.values() if view.worker_id)

    def latency(self, worker_id: str, now: float) -> Latency | None:
        rolling = self._latency.get(worker_id)
        return rolling.latency(now) if rolling is not None else None
