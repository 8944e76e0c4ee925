"""Where on the tape one looks: at its end while live, at any step while paused. Pure."""

from __future__ import annotations

from console.tui.live.steps import StepLog, Tape

_MARGIN = 4  # columns that stay in sight behind the playhead


class Playhead:
    """While paused it holds the tape as it was, so that nothing moves under it, and takes a newer one only to go on
    forward. ``end`` is the newest step in sight: steps after the playhead stay in sight when it goes back."""

    def __init__(self) -> None:
        self._held: Tape | None = None
        self._at: int | None = None
        self._end = 0

    @property
    def paused(self) -> bool:
        return self._held is not None

    def tape(self, log: StepLog) -> Tape:
        return self._held or log.tape()

    def step(self, log: StepLog) -> int:
        """The step that is looked at; 0 while there is none."""
        tape = self.tape(log)
        return tape.last if self._at is None or not tape.steps else tape.steps[tape.index(self._at)].step

    def pause(self, log: StepLog) -> None:
        if self._held is None and log.tape().steps:
            self._held = log.tape()
            self._at = self._held.last
            self._end = len(self._held.steps) - 1

    def live(self) -> None:
        self._held = self._at = None

    def move(self, log: StepLog, by: int) -> None:
        """So many kept steps forth or back, pausing first; it stops at both ends."""
        self.pause(log)
        if self._held is None or self._at is None:
            return
        index = self._held.index(self._at) + by
        if index >= len(self._held.steps) and self._renew(log):
            index = self._held.index(self._at) + by
        self._put(index)

    def go(self, log: StepLog, step: int) -> bool:
        """To this step, or the last one before it; whether exactly this one is there."""
        self.pause(log)
        if self._held is None:
            return False
        if step > self._held.last:
            self._renew(log)
        self._put(self._held.index(step))
        return self._at == step

    def look_at(self, log: StepLog, index: int, end: int) -> None:
        """Stand still on the newest tape, at its step at ``index``; steps up to the one at ``end`` stay in sight."""
        self.live()
        self.pause(log)
        if self._held is not None:
            self._put(index)
            self._end = max(index, min(end, len(self._held.steps) - 1))

    def window(self, log: StepLog, columns: int) -> tuple[int, int]:
        """Indexes on the tape of the newest step in sight, and of the playhead; nothing is there when both are -1."""
        tape = self.tape(log)
        last = len(tape.steps) - 1
        if self._held is None or self._at is None:
            return last, last
        index = tape.index(self._at)
        furthest = index + max(0, columns - 1 - min(_MARGIN, columns // 2))
        self._end = max(index, min(self._end, furthest, last))
        return self._end, index

    def _put(self, index: int) -> None:
        assert self._held is not None
        index = max(0, min(index, len(self._held.steps) - 1))
        self._at = self._held.steps[index].step
        self._end = max(self._end, index)

    def _renew(self, log: StepLog) -> bool:
        """Take the newest tape, if the step that is looked at is still on it."""
        newest = log.tape()
        assert self._held is not None
        assert self._at is not None
        if not newest.steps or newest is self._held:
            return False
        same = newest.steps[newest.index(self._at)]
        if same != self._held.steps[self._held.index(self._at)]:
            return False
        shift = newest.index(self._at) - self._held.index(self._at)
        self._held, self._end = newest, max(0, self._end + shift)
        return True
