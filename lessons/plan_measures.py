"""Measures of plans: what was worked out since the moment that was marked. Pure; see ``measures``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lessons.observation import Observation, Value


@dataclass(frozen=True, slots=True)
class PlanGpus:
    """How many GPUs the plan takes; of one with a number of its own, the fewest that its traffic would fit on. None
    where it fits on none."""

    word: ClassVar[str] = "plan_gpus"
    unit: ClassVar[str] = "GPUs"
    plan: str

    def read(self, seen: Observation) -> Value | None:
        made = seen.plans.get(self.plan)
        return float(made.fewest.tp) if made is not None and made.fewest is not None else None


@dataclass(frozen=True, slots=True)
class PlanRequests:
    """The most requests of the plan's context that fit at once."""

    word: ClassVar[str] = "plan_requests"
    unit: ClassVar[str] = "requests"
    plan: str

    def read(self, seen: Observation) -> Value | None:
        made = seen.plans.get(self.plan)
        return float(made.requests) if made is not None else None


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """Bytes: of all ``weights``; of a token's keys and values (``kv_token``) and of the plan's requests'
    (``kv_needed``), on all GPUs together. On each GPU: ``device``, what its memory is; ``weights_each``; ``kv_room``,
    what is left for the KV cache, none where the weights do not fit."""

    word: ClassVar[str] = "plan_memory"
    unit: ClassVar[str] = "B"
    plan: str
    what: Literal["weights", "weights_each", "kv_token", "kv_needed", "kv_room", "device"]

    def read(self, seen: Observation) -> Value | None:
        made = seen.plans.get(self.plan)
        if made is None:
            return None
        if self.what == "weights":
            return float(made.shape.weight_bytes)
        if self.what == "weights_each":
            return float(made.memory.weights)
        if self.what == "kv_token":
            return float(made.kv_token)
        if self.what == "kv_needed":
            return float(made.kv_needed * made.tp)
        return float(made.memory.total) if self.what == "device" else max(0.0, float(made.memory.kv_room))


@dataclass(frozen=True, slots=True)
class PlanTime:
    """At best, from the published figures: of one ``decode`` step of one request at the plan's context, or until the
    ``first_token`` of its usual prompt, alone."""

    word: ClassVar[str] = "plan_time"
    unit: ClassVar[str] = "s"
    plan: str
    what: Literal["decode", "first_token"]

    def read(self, seen: Observation) -> Value | None:
        made = seen.plans.get(self.plan)
        if made is None:
            return None
        return made.speed.alone.seconds if self.what == "decode" else made.speed.ttft_s
