"""Bytes in, text out: split characters wait until they are whole, and text that may begin a stop string waits too."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_Utf8 = codecs.getincrementaldecoder("utf-8")


def find_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Where to cut ``text`` and the stop string that did it.

    The match that is complete first wins, and of those that end together the longest: the same answer as reading
    character by character, so it does not depend on how the text was cut into tokens.
    """
    best: tuple[int, int, str] | None = None
    for stop in stops:
        start = text.find(stop)
        if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
            best = (start + len(stop), start, stop)
    return None if best is None else (best[1], best[2])


class TextStream:
    """The text of one choice, made of pieces of bytes.

    ``prompt_tail`` are bytes at the prompt's end that start a character which the output may complete. ``stopped`` is
    the stop string that ended the text, ``waiting`` says whether bytes wait for the rest of their character. Bytes that
    never become a character are left out at the end; bytes that cannot be UTF-8 in the middle become U+FFFD.
    """

    __slots__ = ("_decoder", "_held", "_longest", "_stops", "_tail", "stopped", "waiting")

    def __init__(self, stops: Sequence[str] = (), prompt_tail: bytes = b"") -> None:
        self._stops = stops
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self._decoder = _Utf8("replace")
        self._tail = prompt_tail
        self.waiting = bool(prompt_tail)
        self.stopped: str | None = None

    def push(self, piece: bytes, whole: str | None, scan: bool = True) -> str:
        """The text that may go out now. ``whole`` is the piece as text if it is valid UTF-8 by itself.

        ``scan`` False looks for no stop string: nothing up to here can be part of one.
        """
        if self._tail:
            piece, whole = self._with_tail(piece), None
        if whole is None or self.waiting:
            whole = self._decoder.decode(piece)
            self.waiting = bool(self._decoder.getstate()[0])
        if not self._stops:
            return whole
        if not scan:
            whole, self._held = self._held + whole, ""
            return whole
        return self._scan(whole)

    def finish(self) -> str:
        """What was held back only in case a stop string came."""
        held, self._held = self._held, ""
        return held

    def _scan(self, new: str) -> str:
        text = self._held + new
        if (cut := find_stop(text, self._stops)) is not None:
            self._held, self.stopped = "", cut[1]
            return text[: cut[0]]
        keep = self._keep(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _keep(self, text: str) -> int:
        """How many characters at the end begin a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0

    def _with_tail(self, piece: bytes) -> bytes:
        tail, self._tail = self._tail, b""
        try:
            _Utf8("strict").decode(tail + piece)
        except UnicodeDecodeError:
            return piece
        return tail + piece


def unfinished_character(data: bytes) -> bytes:
    """The bytes at the end that begin a character and do not complete it."""
    for length in range(1, min(3, len(data)) + 1):
        end = data[-length:]
        if end[0] >= 0xC0:
            decoder = _Utf8("replace")
            return b"" if decoder.decode(end) else end
        if end[0] < 0x80:
            return b""
    return b""
