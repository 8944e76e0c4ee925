"""What a console would know if it had listened all the time up to some moment of a recording."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from console.record.kinds import Kind
from console.record.notes import End, Gap
from console.record.recording import Entry, Recording
from console.tui.live.board import MOST_EVENTS, Board
from console.tui.live.history import KEPT_S
from console.tui.replay.cursor import Cursor
from control_plane.contracts.fleet import Event, Snapshot

WHOLE_S: Final = 120.0
"""This much is read snapshot by snapshot. What lies further back is only needed for curves: keyframes do."""

KINDS: Final = (Kind.SNAPSHOT, Kind.CHANGES, Kind.EVENT, Kind.GAP, Kind.END)


def board_at(recording: Recording, place: str, unix: float) -> tuple[Board, Cursor]:
    """The board at this moment, and what comes after it."""
    board = Board(place)
    earlier = recording.events[: bisect_right(recording.events, unix, key=lambda known: known[0])]
    board.learn(tuple(event for _, event in earlier[-MOST_EVENTS:]))
    begin = recording.reader.keyframe_before(unix - WHOLE_S)
    for snapshot, heard in recording.keyframes(recording.reader.keyframe_before(unix - KEPT_S), begin):
        board.heard(snapshot, heard)
    cursor = Cursor(recording.entries(begin, only=KINDS))
    for entry in cursor.until(unix):
        take(board, entry, recording)
    return board, cursor


def take(board: Board, entry: Entry, recording: Recording) -> None:
    """What a console that listens does when it hears this."""
    match entry.value:
        case Snapshot() as snapshot:
            board.heard(snapshot, entry.unix)
        case Event() as event:
            board.learn((event,))
        case Gap(reason) if not entry.subject:
            board.lost(reason)
        case End() if entry.unix < recording.last_unix:
            board.lost("nothing was recorded here")
