"""The state of a worker or a request in one glyph, one colour and one word."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

from console.tui.render.figures import age
from console.tui.render.look import Look
from control_plane.contracts.fleet import RequestPhase, RequestView, WorkerPhase, WorkerView
from control_plane.contracts.worker import WorkerState

# Bands of KV-cache use, as operators read them (not the router's settings).
WATCH, BUSY, FULL = 0.75, 0.80, 0.90


@dataclass(frozen=True, slots=True)
class Shown:
    glyph: str
    word: str
    style: Style


def worker_state(worker: WorkerView, now_unix: float, look: Look, *, wide: bool = False) -> Shown:
    """``wide`` leaves room for more than a word."""
    glyphs, palette = look.glyphs, look.palette
    match worker.phase:
        case WorkerPhase.READY if worker.drained:
            return Shown(glyphs.drained, "drained", palette.watch)
        case WorkerPhase.READY if worker.draining:
            return Shown(glyphs.draining, "draining", palette.watch)
        case WorkerPhase.READY if worker.cordoned:
            return Shown(glyphs.cordoned, "cordoned", palette.watch)
        case WorkerPhase.READY:
            return Shown(glyphs.ready, "ready", palette.good)
        case WorkerPhase.ASLEEP:
            waking = worker.load is not None and worker.load.state is WorkerState.WAKING
            return Shown(glyphs.asleep, "waking" if waking else "asleep", palette.watch)
        case WorkerPhase.STARTING:
            since = f" {_since(worker, now_unix)}" if wide else ""
            return Shown(glyphs.starting, f"starting{since}", palette.accent)
        case WorkerPhase.LOST:
            return Shown(glyphs.lost, f"lost {_silence(worker, now_unix)}".rstrip(), palette.bad)
        case WorkerPhase.FAILED:
            due = worker.restart_unix - now_unix
            word = f"failed, up in {age(due)}" if wide and worker.restart_unix and due > 0 else "failed"
            return Shown(glyphs.failed, word, palette.bad)
        case WorkerPhase.STOPPING:
            return Shown(glyphs.stopping, "stopping", palette.unknown)
        case _:
            return Shown(glyphs.lost, "unknown", palette.unknown)


def request_state(request: RequestView, look: Look) -> Shown:
    glyphs, palette = look.glyphs, look.palette
    match request.phase:
        case RequestPhase.QUEUED:
            return Shown(glyphs.queued, "queued", palette.watch)
        case RequestPhase.DISPATCHED:
            return Shown(glyphs.sent, "sent", palette.accent)
        case RequestPhase.DECODING:
            return Shown(glyphs.decoding, "decoding", palette.good)
        case RequestPhase.FINISHED:
            return Shown(glyphs.done, request.reason or "finished", palette.dim)
        case RequestPhase.CANCELLED:
            return Shown(glyphs.cancelled, "cancelled", palette.watch)
        case RequestPhase.FAILED:
            return Shown(glyphs.failed, request.reason or "failed", palette.bad)
        case _:
            return Shown(glyphs.lost, "unknown", palette.unknown)


def kv_band(use: float | None, look: Look) -> tuple[str, Style]:
    """The mark and the colour of a KV-cache use."""
    palette, glyphs = look.palette, look.glyphs
    if use is None:
        return " ", palette.unknown
    if use >= FULL:
        return glyphs.full, palette.bad
    if use >= BUSY:
        return glyphs.busy, palette.busy
    return (glyphs.watch, palette.watch) if use >= WATCH else (" ", palette.good)


def _since(worker: WorkerView, now_unix: float) -> str:
    return age(now_unix - worker.phase_since_unix) if worker.phase_since_unix else ""


def _silence(worker: WorkerView, now_unix: float) -> str:
    return age(now_unix - worker.heartbeat_unix) if worker.heartbeat_unix else ""
