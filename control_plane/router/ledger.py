"""Every request of this router: those that go on, those that ended since the last report, and what was measured."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from control_plane.contracts.errors import Conflict
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.kv_belief import KvBelief
from control_plane.router.meter import Meter
from control_plane.router.requests import Request

UNREPORTED_LIMIT = 2_000
REMEMBERED_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Account:
    """What one report says. ``active`` is complete; ``ended``, ``meters`` (by worker id), ``kv_beliefs`` are news."""

    active: tuple[RequestView, ...] = ()
    ended: tuple[RequestView, ...] = ()
    meters: dict[str, Meter] = field(default_factory=dict)
    kv_beliefs: tuple[KvBelief, ...] = ()


class Ledger:
    """While nobody takes reports, the oldest of more than ``UNREPORTED_LIMIT`` ended requests are forgotten."""

    def __init__(self, router_id: str) -> None:
        self._router_id = router_id
        self._active: dict[str, Request] = {}
        self._ended: deque[RequestView] = deque(maxlen=UNREPORTED_LIMIT)
        self._remembered: OrderedDict[str, None] = OrderedDict()
        self._meters: dict[str, Meter] = {}

    def __len__(self) -> int:
        return len(self._active)

    @property
    def active(self) -> Iterable[Request]:
        return self._active.values()

    def open(self, request: Request) -> None:
        """Raises Conflict for an id that is in use."""
        if request.call.request_id in self._active:
            raise Conflict(f"request id {request.call.request_id} is in use")
        self._active[request.call.request_id] = request

    def close(self, request: Request, phase: RequestPhase, reason: str, now: float) -> None:
        """The one way out for every request."""
        del self._active[request.call.request_id]
        request.ended(phase, reason, now)
        self._ended.append(request.view(self._router_id, now))
        self._remembered[request.call.request_id] = None
        if len(self._remembered) > REMEMBERED_LIMIT:
            self._remembered.popitem(last=False)

    def find(self, request_id: str) -> Request | None:
        return self._active.get(request_id)

    def has_ended(self, request_id: str) -> bool:
        """Whether it was here and is over, as far as that is remembered."""
        return request_id in self._remembered

    def meter(self, worker_id: str) -> Meter:
        meter = self._meters.get(worker_id)
        if meter is None:
            meter = self._meters[worker_id] = Meter()
        return meter

    def take(self, now: float) -> Account:
        account = Account(
            tuple(request.view(self._router_id, now) for request in self._active.values()),
            tuple(self._ended),
            {worker_id: meter.take() for worker_id, meter in self._meters.items() if meter},
        )
        self._ended.clear()
        return account

    def put_back(self, account: Account) -> None:
        """The report did not get through: its news goes into the next one."""
        room = UNREPORTED_LIMIT - len(self._ended)
        if room > 0:
            self._ended.extendleft(reversed(account.ended[-room:]))
        for worker_id, meter in account.meters.items():
            self.meter(worker_id).put_back(meter)

    def forget_workers(self, alive: Set[str]) -> None:
        """Drop the meters of workers that are gone and have nothing left to report."""
        in_use = {request.worker_id for request in self._active.values()}
        for worker_id in [w for w, meter in self._meters.items() if w not in alive | in_use and not meter]:
            del self._meters[worker_id]
