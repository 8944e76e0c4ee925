"""Everything that the console knows of the platform, and the moment of it that a screen paints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from console.tui.live.history import History
from console.tui.live.rates import RateMeter, Rates
from console.tui.live.replaying import Replaying
from control_plane.contracts.fleet import Event, Pool, RequestView, Snapshot, WorkerView

MOST_EVENTS = 2000


@dataclass(frozen=True, slots=True)
class Link:
    """The connection. ``heard_mono`` is when the last snapshot came (monotonic), 0.0 before the first."""

    connected: bool = False
    error: str = ""
    heard_mono: float = 0.0
    per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """One moment of the platform. ``now_mono`` is when it was looked at; ``history`` is shared, read it up to
    ``snapshot.taken_unix``. ``replay`` is set where all this is played back."""

    place: str
    link: Link
    now_mono: float
    snapshot: Snapshot | None = None
    rates: Rates = field(default_factory=Rates)
    events: tuple[Event, ...] = ()
    history: History = field(default_factory=History)
    paused: bool = False
    replay: Replaying | None = None

    @property
    def silent_s(self) -> float | None:
        """Seconds since the platform was heard; None before the first time."""
        return self.now_mono - self.link.heard_mono if self.link.heard_mono else None

    @property
    def stale(self) -> bool:
        """Whether what is shown may no longer be so."""
        return not self.link.connected

    @property
    def now_unix(self) -> float:
        """The moment that the data is about, on the platform's clock."""
        return self.snapshot.taken_unix if self.snapshot else 0.0

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        return self.snapshot.workers if self.snapshot else ()

    @property
    def requests(self) -> tuple[RequestView, ...]:
        return self.snapshot.requests if self.snapshot else ()

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.snapshot.pools if self.snapshot else ()

    def worker(self, worker_id: str) -> WorkerView | None:
        return next((worker for worker in self.workers if worker.id == worker_id), None)

    def request(self, request_id: str) -> RequestView | None:
        return next((request for request in self.requests if request.id == request_id), None)

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)


class Board:
    """Collects; never paints, and never stops for a pause."""

    def __init__(self, place: str) -> None:
        self._view = View(place, Link(), 0.0)
        self._meter = RateMeter()
        self._events: dict[tuple[float, int], Event] = {}
        self._heard: list[float] = []

    def heard(self, snapshot: Snapshot, now_mono: float) -> None:
        self._heard = [at for at in self._heard if now_mono - at < 5.0] + [now_mono]
        span = now_mono - self._heard[0]
        per_s = (len(self._heard) - 1) / span if span > 0 else 0.0
        self._view.history.add(snapshot)
        self.learn(snapshot.events)
        self._view = replace(
            self._view,
            snapshot=snapshot,
            link=Link(True, "", now_mono, per_s),
            rates=self._meter.add(snapshot),
        )

    def learn(self, events: tuple[Event, ...]) -> None:
        """Add events to the ones that are known, in order of time; the oldest are forgotten."""
        news = {(event.at_unix, event.seq): event for event in events if (event.at_unix, event.seq) not in self._events}
        if not news:
            return
        merged = sorted((self._events | news).items(), key=lambda item: item[0])[-MOST_EVENTS:]
        self._events = dict(merged)
        self._view = replace(self._view, events=tuple(self._events.values()))

    def lost(self, error: str) -> None:
        self._heard = []
        self._view = replace(self._view, link=replace(self._view.link, connected=False, error=error, per_s=0.0))

    def view(self, now_mono: float) -> View:
        return replace(self._view, now_mono=now_mono)
