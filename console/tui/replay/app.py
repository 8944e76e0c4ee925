"""The console on a recording: play, pause, speed, seek, step. Nothing can be ordered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType

from console.home import shown_path
from console.record.player import SPEEDS, Player
from console.record.reader import RecordingReader
from console.record.recording import Landmark, Recording
from console.record.when import when
from console.tui.app import ConsoleApp
from console.tui.live.board import View
from console.tui.live.replaying import Replaying
from console.tui.order import Verb
from console.tui.replay.past import board_at, take
from console.tui.replay.source import REFUSAL, Replay
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.step import TraceMode

TICK_S: Final = 0.1
_SETTLED_AFTER: Final = 3  # ticks: streams of steps begin anew after a move

KEYS: Final = (
    ("p", "play, or pause"),
    (", .", "10 s back, forth"),
    ("< >", "slower, faster: 0.25× to 16×"),
    ("n N", "to the next, the previous event"),
    ("{ }", "to the previous, the next snapshot"),
    (":seek WHEN", "+30s, -1m30s, 90s, 1:30, 50%, 14:02:11, start, end"),
    (":speed N", "0.25 to 16"),
)


class ReplayApp(ConsoleApp):
    CSS_PATH = "../styles.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("comma", "skip(-10)", show=False),
        Binding("full_stop", "skip(10)", show=False),
        Binding("less_than_sign", "faster(-1)", show=False),
        Binding("greater_than_sign", "faster(1)", show=False),
        Binding("n", "landmark(1)", show=False),
        Binding("N", "landmark(-1)", show=False),
        Binding("left_curly_bracket", "snapshot(-1)", show=False),
        Binding("right_curly_bracket", "snapshot(1)", show=False),
    ]

    def __init__(self, replay: Replay, *, clock: Callable[[], float] = time.monotonic, **options: Any) -> None:
        super().__init__(replay, replay, readonly=True, leaving="leave", clock=clock, **options)
        self.own_keys = ("replay", KEYS)
        self._replay = replay
        self._marks = tuple((mark.unix, mark.severity) for mark in replay.recording.landmarks)
        self._board, self._cursor = board_at(replay.recording, replay.place, replay.standing().at)
        self._settling = 0
        self._ended = False

    def listen(self) -> None:
        self.set_interval(TICK_S, self.tick)

    def tick(self) -> None:
        """Take in what the replay has passed since the last time."""
        standing = self._replay.standing()
        news = False
        for entry in self._cursor.until(standing.at):
            take(self._board, entry, self._replay.recording)
            news = True
        self._replay.tick()
        settled = self._settling == 1
        self._settling = max(0, self._settling - 1)
        if standing.ended and not self._ended:
            self.tell("the recording ends here: p plays it again", key="end")
        elif settled or (news and self._clock() - self._painted >= self._paint_s / 2):
            self.paint()
        self._ended = standing.ended

    def live(self) -> View:
        standing = self._replay.standing()
        paused = not standing.playing and not self._settling
        return replace(self._board.view(standing.at), paused=paused, replay=Replaying(standing, self._marks))

    def view(self) -> View:
        return self.live()

    def pause(self) -> None:
        now = self._clock()
        if self._replay.standing().playing:
            self._replay.player.pause(now)
        elif self._replay.standing().ended:
            self._move(self._replay.standing().first)
            self._replay.player.play(now)
        else:
            self._replay.player.play(now)
        self.tick()
        self.paint()

    def action_skip(self, seconds: int) -> None:
        self._move(self._replay.standing().at + seconds)

    def action_faster(self, by: int) -> None:
        self._replay.player.faster(by, self._clock())
        self.paint()

    def action_landmark(self, by: int) -> None:
        """To an event, and say which."""
        recording, at = self._replay.recording, self._replay.standing().at
        found = recording.landmark_after(at) if by > 0 else recording.landmark_before(at)
        if found is None:
            self.tell(f"no event {'after' if by > 0 else 'before'} this")
            return
        self._move(found.unix)
        self._tell_landmark(found)

    def action_snapshot(self, by: int) -> None:
        """To the next moment that was recorded; play stops."""
        self._replay.player.pause(self._clock())
        recording, at = self._replay.recording, self._replay.standing().at
        found = recording.snapshot_after(at) if by > 0 else recording.snapshot_before(at)
        if found is None:
            self.tell("there is no snapshot " + ("after this" if by > 0 else "before this"))
            return
        self._move(found)

    def command(self, line: str) -> None:
        verb, _, rest = line.strip().removeprefix(":").partition(" ")
        try:
            if verb == "seek":
                standing = self._replay.standing()
                self._move(when(rest, standing.at, standing.first, standing.last))
            elif verb == "speed":
                self._set_speed(rest)
            else:
                super().command(line)
        except InvalidRequest as wrong:
            self.tell(wrong.message, "warning")

    def order(self, verb: Verb, ids: Sequence[str], replicas: int | None = None) -> None:
        self.tell(f"no {verb.value}: {REFUSAL}", "warning", "refused")

    def set_trace(self, worker_id: str, mode: TraceMode, every: int) -> None:
        self.tell(f"no change of the trace: {REFUSAL}", "warning", "refused")

    def _set_speed(self, word: str) -> None:
        try:
            speed = float(word.removesuffix("x").removesuffix("×"))
        except ValueError:
            speed = 0.0
        if not SPEEDS[0] <= speed <= SPEEDS[-1]:
            raise InvalidRequest(f":speed takes a number from {SPEEDS[0]:g} to {SPEEDS[-1]:g}", param="speed")
        self._replay.player.speed(speed, self._clock())
        self.paint()

    def _move(self, unix: float) -> None:
        """To this time; all that is shown is what was known then."""
        self._replay.seek(unix)
        standing = self._replay.standing()
        self._board, self._cursor = board_at(self._replay.recording, self._replay.place, standing.at)
        self._settling = _SETTLED_AFTER
        self._notices.drop("end")
        self.paint()

    def _tell_landmark(self, mark: Landmark) -> None:
        severity = {"error": "error", "warning": "warning"}.get(mark.severity, "info")
        self.tell(mark.words, severity, "landmark")


def open_replay(
    path: Path, *, at: str = "start", speed: float = 1.0, playing: bool = True, clock: Callable[[], float]
) -> Replay:
    """A replay of this file, standing at ``at``. Raises InvalidRequest where there is nothing to play."""
    recording = Recording(RecordingReader.open(path))
    first = recording.snapshot_after(float("-inf"))
    if first is None:
        raise InvalidRequest(f"{shown_path(path)} holds no snapshot: there is nothing to play", param="file")
    player = Player(first, recording.last_unix, speed=speed, playing=playing)
    player.seek(when(at, first, first, recording.last_unix), clock())
    return Replay(recording, player, clock)


def run(path: Path, *, at: str = "start", speed: float = 1.0, playing: bool = True) -> int:
    """Show the recording until the viewer leaves. Returns the exit code."""
    app = ReplayApp(open_replay(path, at=at, speed=speed, playing=playing, clock=time.monotonic))
    left = app.run()
    return left if left is not None else app.return_code or 0
