"""A snapshot as what is new since the one before it. Pure.

A snapshot repeats hundreds of requests that have ended, and the last events. Those two lists are written as runs: so
many entries from a place in the list before, or so many new ones. Everything else is written whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import Event, RequestView, Snapshot
from control_plane.contracts.wire.packed import packed, unpacked

T = TypeVar("T")

NEW: Final = -1
_BASE: Final = struct.Struct("<d")
_COUNT: Final = struct.Struct("<I")
_RUN: Final = struct.Struct("<iI")

Run = tuple[int, int]
"""Where it begins in the old list (``NEW``: in the list of new entries) and how many entries it has."""


def changes(old: Snapshot, old_unix: float, new: Snapshot) -> bytes:
    """The payload that makes ``new`` out of ``old``, which was recorded at ``old_unix``."""
    requests, new_requests = _runs(old.requests, new.requests, _request_key)
    events, new_events = _runs(old.events, new.events, _event_key)
    rest = packed(replace(new, requests=tuple(new_requests), events=tuple(new_events)))
    parts = [_BASE.pack(old_unix)]
    for runs in (requests, events):
        parts.append(_COUNT.pack(len(runs)))
        parts += [_RUN.pack(*run) for run in runs]
    return b"".join((*parts, rest))


def changed(old: Snapshot, old_unix: float, payload: bytes) -> Snapshot:
    """The snapshot that ``changes`` was given. Raises InvalidRequest where it does not follow on ``old``."""
    try:
        (base,) = _BASE.unpack_from(payload)
        if base != old_unix:
            raise InvalidRequest("these changes belong to a snapshot that cannot be read")
        requests, at = _read_runs(payload, _BASE.size)
        events, at = _read_runs(payload, at)
    except struct.error as error:
        raise InvalidRequest(f"these bytes are no changes of a snapshot: {error}") from None
    rest = unpacked(payload[at:], Snapshot)
    return replace(
        rest,
        requests=tuple(_joined(old.requests, rest.requests, requests)),
        events=tuple(_joined(old.events, rest.events, events)),
    )


def _request_key(view: RequestView) -> Hashable:
    return view.id, view.phase, view.duration_s, view.output_tokens


def _event_key(event: Event) -> Hashable:
    return event.at_unix, event.seq


def _runs(old: Sequence[T], new: Sequence[T], key: Callable[[T], Hashable]) -> tuple[list[Run], list[T]]:
    places = {key(entry): index for index, entry in enumerate(old)}
    runs: list[Run] = []
    fresh: list[T] = []
    for entry in new:
        place = places.get(key(entry), NEW)
        if place != NEW and old[place] is not entry and old[place] != entry:
            place = NEW
        if place == NEW:
            fresh.append(entry)
        start, count = runs[-1] if runs else (NEW, 0)
        if runs and place == (NEW if start == NEW else start + count):
            runs[-1] = (start, count + 1)
        else:
            runs.append((place, 1))
    return runs, fresh


def _read_runs(payload: bytes, at: int) -> tuple[list[Run], int]:
    (count,) = _COUNT.unpack_from(payload, at)
    at += _COUNT.size
    end = at + count * _RUN.size
    if end > len(payload):
        raise InvalidRequest("these bytes are no changes of a snapshot: they are cut short")
    return [(start, length) for start, length in _RUN.iter_unpack(payload[at:end])], end


def _joined(old: Sequence[T], fresh: Sequence[T], runs: Sequence[Run]) -> Iterator[T]:
    used = 0
    for start, count in runs:
        source, begin = (fresh, used) if start == NEW else (old, start)
        if begin < 0 or begin + count > len(source):
            raise InvalidRequest("these changes name entries that the snapshot before does not have")
        yield from source[begin : begin + count]
        used += count if start == NEW else 0
