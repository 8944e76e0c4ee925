"""Observations made by hand."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.fleet import RequestPhase, RequestView, Snapshot, WorkerPhase, WorkerView
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFinished
from lessons.observation import CallSeen, Observation


def worker(name: str, *, cordoned: bool = False, phase: WorkerPhase = WorkerPhase.READY) -> WorkerView:
    return WorkerView(name, "w", phase, cordoned=cordoned)


def step(number: int, used: int = 0, total: int = 100, **more: Any) -> EngineStep:
    return EngineStep(number, float(number), used_blocks=used, total_blocks=total, **more)


def finished(reason: str, tokens: int) -> StepFinished:
    return StepFinished("r", reason, tokens, 1)


def call(name: str = "a", **more: Any) -> CallSeen:
    return CallSeen(name, **{"ok": True, **more})


def request(phase: RequestPhase, **more: Any) -> RequestView:
    return RequestView("r", "g1", "m", phase, **more)


def observation(**more: Any) -> Observation:
    """``requests`` are those of now, ``new`` those that came since the mark."""
    workers = more.pop("workers", (worker("w-1"), worker("w-2", cordoned=True)))
    requests = more.pop("requests", ())
    new = more.pop("new", ())
    return Observation(Snapshot(1, 1.0, "cp", "0", workers=workers, requests=requests), requests=new, **more)


def blocks(used: int, total: int = 100) -> BlockSnapshot:
    return BlockSnapshot(1, used_blocks=used, total_blocks=total)
