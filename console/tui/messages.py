"""What background work posts. Only handlers touch widgets."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from console.tui.order import Order
from control_plane.contracts.access import KeyList
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.fleet import DrainProgress, Event, Snapshot
from control_plane.contracts.policy import Policy
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceState
from control_plane.contracts.timeline import Timeline


@dataclass
class Heard(Message):
    """A snapshot came."""

    snapshot: Snapshot


@dataclass
class Learnt(Message):
    """Events came that a snapshot had no room for."""

    events: tuple[Event, ...]


@dataclass
class LinkLost(Message):
    """The platform cannot be heard; it is tried again."""

    error: str


@dataclass
class Told(Message):
    """Something ended, or failed: for the notice bar. ``key``: it takes the place of what was said under it."""

    text: str
    severity: str = "info"
    key: str = ""


@dataclass
class DrainMoved(Message):
    """A drain that was ordered here came forward."""

    progress: DrainProgress


@dataclass
class DrainEnded(Message):
    """A drain that was ordered here cannot be followed any more."""

    worker_id: str
    error: str


@dataclass
class Previewed(Message):
    """The platform's own words for what an order would do."""

    order: Order
    text: str
    failed: bool = False


@dataclass
class LogRead(Message):
    """A piece of the log that is followed, or why there is none. ``anew``: it is read from its tail again."""

    target: str
    data: bytes = b""
    error: str = ""
    anew: bool = False


@dataclass
class Timed(Message):
    """Where a request's time went, as its engine's steps tell it."""

    request_id: str
    timeline: Timeline


@dataclass
class Explained(Message):
    """Why a request went where it went, or why that cannot be told."""

    request_id: str
    decisions: tuple[DecisionView, ...] = ()
    error: str = ""


@dataclass
class Decided(Message):
    """New decisions of the routers, oldest first, or why they cannot be told. ``anew``: they are all that there are."""

    decisions: tuple[DecisionView, ...] = ()
    error: str = ""
    anew: bool = False


@dataclass
class Stepped(Message):
    """What a worker's engine did, or why that is not known. ``anew``: the frame does not continue the one before; its
    ``base`` is where it starts. ``snapshot`` and ``trace`` are answers to questions asked beside the stream."""

    worker_id: str
    frame: StepFrame | None = None
    error: str = ""
    anew: bool = False
    snapshot: BlockSnapshot | None = None
    trace: TraceState | None = None


@dataclass
class KeysRead(Message):
    """Callers' keys as they are now, or why they cannot be told."""

    keys: KeyList | None = None
    error: str = ""


@dataclass
class PolicyRead(Message):
    """The policy as it is now, or why it cannot be told."""

    policy: Policy | None = None
    error: str = ""
