"""Measures: a named question to an observation, with parameters. Pure.

In a lesson file a measure is a table with ``of`` and the parameters, which are the fields of these classes. The answer
is a number or a word; None where the observation does not tell, which is never read as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control_plane.contracts.fleet import WorkerPhase
from lessons.batch_measures import Chunk, FixedSteps, LeftOut, Rate, Steps, StepsAfter
from lessons.block_measures import BlockSize, CachedFree, NewBlocks, Pieces, Reserved, Shared, Slack, TableBlocks
from lessons.call_measures import (
    Delivered,
    Duration,
    Ended,
    Error,
    Gap,
    HitRate,
    Moved,
    Share,
    Skew,
    Stall,
    Ttft,
)
from lessons.conversation_measures import Kept, KeptText, TurnEnded
from lessons.engine_measures import (
    BatchPeak,
    BlocksNow,
    BlocksPeak,
    EngineTokens,
    Fullest,
    KvMean,
    KvPeak,
    KvSpread,
    Preemptions,
    Slowest,
    StepTime,
    WaitingPeak,
)
from lessons.event_measures import Apart, Events
from lessons.gateway_measures import Reached, RequestsLeft, RetryAfter, Status, TokensLeft
from lessons.hop_measures import HopTime, MessageSize, MessageTime
from lessons.observation import Observation, Value
from lessons.plan_measures import PlanGpus, PlanMemory, PlanRequests, PlanTime
from lessons.request_measures import FinishReason, LongestStage, Requests, StageTime, StreamEvents


@dataclass(frozen=True, slots=True)
class Active:
    """Requests that the platform has now, queued or running."""

    word: ClassVar[str] = "active"
    unit: ClassVar[str] = "requests"

    def read(self, seen: Observation) -> Value | None:
        return float(sum(request.phase.active for request in seen.snapshot.requests))


@dataclass(frozen=True, slots=True)
class Ready:
    """Workers that are ready now; ``open`` leaves out those that are cordoned."""

    word: ClassVar[str] = "ready"
    unit: ClassVar[str] = "workers"
    open: bool = False

    def read(self, seen: Observation) -> Value | None:
        workers = [worker for worker in seen.snapshot.workers if worker.phase is WorkerPhase.READY]
        return float(sum(not (self.open and worker.cordoned) for worker in workers))


@dataclass(frozen=True, slots=True)
class Cordoned:
    """Whether the worker is cordoned now: "yes" or "no"."""

    word: ClassVar[str] = "cordoned"
    unit: ClassVar[str] = ""
    worker: str

    def read(self, seen: Observation) -> Value | None:
        found = [worker for worker in seen.snapshot.workers if worker.id == self.worker]
        return ("yes" if found[0].cordoned else "no") if found else None


@dataclass(frozen=True, slots=True)
class RoutingProfile:
    """How routers choose now: the policy's profile, else the settings'."""

    word: ClassVar[str] = "profile"
    unit: ClassVar[str] = ""

    def read(self, seen: Observation) -> Value | None:
        return seen.profile or None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the lesson measured before, under this name."""

    word: ClassVar[str] = "measured"
    unit: ClassVar[str] = ""
    value: str

    def read(self, seen: Observation) -> Value | None:
        return seen.measured.get(self.value)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measured value divided by another."""

    word: ClassVar[str] = "ratio"
    unit: ClassVar[str] = "×"
    value: str
    to: str

    def read(self, seen: Observation) -> Value | None:
        value, to = seen.measured.get(self.value), seen.measured.get(self.to)
        return value / to if isinstance(value, float) and isinstance(to, float) and to else None


CallMeasure = (
    Ttft
    | Gap
    | Stall
    | Duration
    | Ended
    | Error
    | Delivered
    | HitRate
    | Moved
    | Share
    | Skew
    | Kept
    | TurnEnded
    | KeptText
    | Status
    | TokensLeft
    | RequestsLeft
    | RetryAfter
    | Reached
    | StageTime
    | LongestStage
    | StreamEvents
    | FinishReason
    | Requests
    | HopTime
    | MessageSize
    | MessageTime
)
"""Of calls, and of what became of them."""

InsideMeasure = (
    KvPeak
    | KvMean
    | BlocksPeak
    | BlocksNow
    | BatchPeak
    | WaitingPeak
    | Preemptions
    | EngineTokens
    | StepTime
    | Steps
    | Chunk
    | Rate
    | LeftOut
    | StepsAfter
    | FixedSteps
    | BlockSize
    | TableBlocks
    | Slack
    | Reserved
    | Pieces
    | Shared
    | NewBlocks
    | CachedFree
)
"""Of what an engine does."""

PlatformMeasure = Fullest | KvSpread | Slowest | Active | Ready | Cordoned | RoutingProfile | Events | Apart
"""Of workers beside each other, and of the platform around them."""

PlanMeasure = PlanGpus | PlanRequests | PlanMemory | PlanTime
"""Of what was worked out."""

KnownMeasure = Measured | Ratio
"""Of what was measured before."""

Measure = CallMeasure | InsideMeasure | PlatformMeasure | PlanMeasure | KnownMeasure

MEASURES: dict[str, type[Measure]] = {kind.word: kind for kind in Measure.__args__}
