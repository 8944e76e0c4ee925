"""A recording in the place of a platform: the same feed, at the pace of a player, and an operator who refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NoReturn

from console.record.kinds import Kind
from console.record.notes import Gap
from console.record.player import Player, Standing
from console.record.recording import Entry, Recording
from console.tui.replay.cursor import Cursor
from console.tui.replay.past import KINDS
from control_plane.contracts.access import KeyList
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import Conflict, InferDeckError, NotFound, Unavailable
from control_plane.contracts.fleet import ActionResult, DrainProgress, Event, Snapshot
from control_plane.contracts.policy import Policy
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
from control_plane.contracts.timeline import Timeline

STEPS_BACK_S: Final = 60.0
"""How much before the moment a worker's steps are told, where they are recorded: its ring, as it were."""

DECISIONS_TOLD: Final = 200
"""Of those before the moment."""

REFUSAL: Final = "this is a replay: what is shown has happened, and nothing can be done about it"

_STEP_KINDS: Final = (Kind.STEPS, Kind.TABLES, Kind.GAP)
_DECISION_KINDS: Final = (Kind.DECISION,)


class Replay:
    """``clock`` is what the player's time goes by, in seconds. Whoever shows the replay calls ``tick`` as time passes;
    streams go on then, and begin anew when the replay was moved."""

    def __init__(self, recording: Recording, player: Player, clock: Callable[[], float]) -> None:
        self.recording = recording
        self.player = player
        self._clock = clock
        self._moves = 0
        self._ticked = asyncio.Event()

    @property
    def place(self) -> str:
        return self.recording.reader.path.name

    def standing(self) -> Standing:
        return self.player.standing(self._clock())

    def seek(self, unix: float) -> None:
        self.player.seek(unix, self._clock())
        self._moves += 1
        self.tick()

    def tick(self) -> None:
        self._ticked.set()
        self._ticked = asyncio.Event()

    async def watch(self) -> AsyncIterator[Snapshot]:
        """The snapshot where the replay stands, then each that it passes. Ends when the replay is moved; raises
        Unavailable where the platform was lost."""
        at = self.standing().at
        cursor = Cursor(self.recording.entries(self.recording.reader.keyframe_before(at), only=KINDS))
        last = None
        for entry in cursor.until(at):
            last = entry.value if isinstance(entry.value, Snapshot) else last
        if last is not None:
            yield last
        async for entry in self._passed(cursor, self._moves):
            if isinstance(entry.value, Snapshot):
                yield entry.value
            elif isinstance(entry.value, Gap) and not entry.subject:
                raise Unavailable(entry.value.reason)

    async def events(self) -> AsyncIterator[Event]:
        at = self.standing().at
        for unix, event in self.recording.events:
            if unix <= at:
                yield event

    def logs(self, target: str, tail_lines: int) -> AsyncIterator[bytes]:
        return _broken(NotFound("logs are not in a recording"))

    async def steps(self, worker_id: str) -> AsyncIterator[StepFrame]:
        """From block tables some time back, up to where the replay stands, then on with it; anew after every move.

        Raises Unavailable where the worker's steps were not recorded.
        """
        while True:
            moves, at = self._moves, self.standing().at
            back = self.recording.reader.keyframe_before(at - STEPS_BACK_S)
            cursor = Cursor(self.recording.entries(back, only=_STEP_KINDS))
            past, lost = _past(cursor, worker_id, at)
            if past is not None:
                yield past
            if lost:
                raise Unavailable(lost)
            async for entry in self._passed(cursor, moves):
                if isinstance(entry.value, Gap) and entry.subject in ("", worker_id):
                    raise Unavailable(entry.value.reason)
                if isinstance(entry.value, StepFrame) and entry.subject == worker_id and not entry.anew:
                    yield entry.value

    async def blocks(self, worker_id: str) -> BlockSnapshot:
        raise NotFound("nobody can be asked in a replay")

    async def timeline(self, request_id: str) -> Timeline:
        raise NotFound("nobody can be asked in a replay")

    async def explain(self, request_id: str) -> tuple[DecisionView, ...]:
        """What was recorded of it up to where the replay stands."""
        found = self.recording.decisions(self.standing().at, request_id=request_id)
        if not found:
            raise NotFound(f"no decision about request/{request_id} is recorded up to here")
        return tuple(found)

    async def decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]:
        """The last ones up to where the replay stands, then on with it; ends when the replay is moved."""
        moves, at = self._moves, self.standing().at
        yield tuple(self.recording.decisions(at, most=DECISIONS_TOLD))
        cursor = Cursor(self.recording.entries(self.recording.reader.keyframe_before(at), only=_DECISION_KINDS))
        for _ in cursor.until(at):
            pass
        async for entry in self._passed(cursor, moves):
            if isinstance(entry.value, DecisionView):
                yield (entry.value,)

    async def keys(self) -> KeyList:
        raise NotFound("keys are not in a recording")

    async def policy(self) -> Policy:
        raise NotFound("the policy is not in a recording")

    async def close(self) -> None:
        self.recording.reader.close()

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        _refuse()

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        _refuse()

    def drain(self, worker_id: str, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]:
        return _broken(Conflict(REFUSAL))

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
        _refuse()

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
        _refuse()

    async def set_trace(self, worker_id: str, mode: TraceMode, every: int = 1) -> TraceState:
        _refuse()

    async def _passed(self, cursor: Cursor, moves: int) -> AsyncIterator[Entry]:
        """The entries as the replay comes to them, until it is moved."""
        while True:
            ticked = self._ticked
            for entry in cursor.until(self.standing().at):
                if moves != self._moves:
                    return
                yield entry
            if moves != self._moves:
                return
            await ticked.wait()


def _past(cursor: Cursor, worker_id: str, at: float) -> tuple[StepFrame | None, str]:
    """What is known of the worker's last steps at this time, as one frame with a base; and why no more come, if so."""
    base, lost = None, f"no steps of {worker_id} are recorded here"
    steps: list[EngineStep] = []
    trace = TraceState()
    for entry in cursor.until(at):
        if isinstance(entry.value, Gap) and entry.subject in ("", worker_id):
            lost = entry.value.reason
        elif isinstance(entry.value, StepFrame) and entry.subject == worker_id:
            frame = entry.value
            if frame.base is not None and not (entry.anew and base is not None):
                base, steps = frame.base, []
            steps += frame.steps
            trace, lost = frame.trace, ""
    known = base is not None or bool(trace.unavailable)
    return (StepFrame(tuple(steps), trace, base) if known else None), lost


async def _broken(error: InferDeckError) -> AsyncIterator[Any]:
    nothing: tuple[Any, ...] = ()
    for value in nothing:
        yield value
    raise error


def _refuse() -> NoReturn:
    raise Conflict(REFUSAL)
