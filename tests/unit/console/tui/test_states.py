from __future__ import annotations

import math
from dataclasses import replace

import pytest

from console.tui.live.loads import kv_use, load_now
from console.tui.render.look import PLAIN, RICH_COLOURS, RICH_LOOK, SIXTEEN_COLOURS, UNICODE, look_for
from console.tui.render.states import kv_band, request_state, worker_state
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from control_plane.contracts.worker import WorkerState
from tests.snapshots.memory import NOW, request, worker

READY = worker("w1")
assert READY.load is not None
EMPTY = replace(READY.load, running=0, waiting=0)


@pytest.mark.parametrize(
    ("changes", "glyph", "word"),
    [
        ({}, "●", "ready"),
        ({"cordoned": True}, "⊘", "cordoned"),
        ({"cordoned": True, "draining": True}, "◔", "draining"),
        ({"cordoned": True, "draining": True, "in_flight": 0, "load": EMPTY}, "○", "drained"),
        ({"cordoned": True, "draining": True, "in_flight": 1, "load": EMPTY}, "◔", "draining"),
        ({"phase": WorkerPhase.STARTING, "phase_since_unix": NOW - 4}, "◌", "starting 4s"),
        ({"phase": WorkerPhase.LOST, "heartbeat_unix": NOW - 12}, "?", "lost 12s"),
        ({"phase": WorkerPhase.FAILED, "restart_unix": NOW + 3.5}, "✗", "failed, up in 3s"),
        ({"phase": WorkerPhase.FAILED}, "✗", "failed"),
        ({"phase": WorkerPhase.STOPPING}, "▽", "stopping"),
        ({"phase": WorkerPhase.ASLEEP}, "◑", "asleep"),
        ({"phase": WorkerPhase.ASLEEP, "load": replace(EMPTY, state=WorkerState.WAKING)}, "◑", "waking"),
        ({"phase": WorkerPhase.UNSPECIFIED}, "?", "unknown"),
    ],
)
def test_worker_state(changes: dict[str, object], glyph: str, word: str) -> None:
    shown = worker_state(replace(READY, **changes), NOW, RICH_LOOK, wide=True)  # type: ignore[arg-type]
    assert (shown.glyph, shown.word) == (glyph, word)


@pytest.mark.parametrize(
    ("phase", "reason", "word"),
    [
        (RequestPhase.QUEUED, "", "queued"),
        (RequestPhase.DISPATCHED, "", "sent"),
        (RequestPhase.DECODING, "", "decoding"),
        (RequestPhase.FINISHED, "stop", "stop"),
        (RequestPhase.CANCELLED, "request_cancelled", "cancelled"),
        (RequestPhase.FAILED, "worker_lost", "worker_lost"),
        (RequestPhase.UNSPECIFIED, "", "unknown"),
    ],
)
def test_request_state(phase: RequestPhase, reason: str, word: str) -> None:
    assert request_state(request("r", phase=phase, reason=reason), RICH_LOOK).word == word


def test_every_state_of_a_worker_has_a_shape_of_its_own() -> None:
    for glyphs in (UNICODE, PLAIN):
        shapes = [glyphs.ready, glyphs.starting, glyphs.cordoned, glyphs.drained, glyphs.lost, glyphs.failed]
        assert len(set(shapes)) == len(shapes)
        assert glyphs.draining != glyphs.drained
        assert len({glyphs.watch, glyphs.busy, glyphs.full}) == 3


@pytest.mark.parametrize(
    ("use", "mark", "style"),
    [
        (None, " ", "unknown"),
        (0.0, " ", "good"),
        (0.7499, " ", "good"),
        (0.75, "▵", "watch"),
        (0.80, "▲", "busy"),
        (0.90, "■", "bad"),
        (1.0, "■", "bad"),
    ],
)
def test_bands_of_kv_use(use: float | None, mark: str, style: str) -> None:
    assert kv_band(use, RICH_LOOK) == (mark, getattr(RICH_COLOURS, style))


def test_a_load_that_is_old_is_not_shown_as_the_load_now() -> None:
    assert load_now(READY, NOW) is READY.load
    assert kv_use(READY, NOW) == 0.61
    silent = replace(READY, heartbeat_unix=NOW - 5.1)
    assert load_now(silent, NOW) is None
    assert kv_use(silent, NOW) is None
    assert kv_use(replace(READY, phase=WorkerPhase.LOST), NOW) is None
    assert kv_use(replace(READY, load=None), NOW) is None
    assert READY.load is not None
    assert kv_use(replace(READY, load=replace(READY.load, kv_usage=math.nan)), NOW) is None


@pytest.mark.parametrize(
    ("environ", "colours", "encoding", "plain", "sixteen"),
    [
        ({"TERM": "xterm-256color"}, "256", "utf-8", False, False),
        ({"TERM": "xterm-256color"}, "truecolor", "UTF-8", False, False),
        ({"TERM": "linux"}, "standard", "utf-8", True, True),
        ({"TERM": "xterm"}, "standard", "utf-8", False, True),
        ({"TERM": "xterm-256color"}, "256", "iso-8859-1", True, False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, None, "utf-8", False, True),
    ],
)
def test_the_look_follows_the_terminal(
    environ: dict[str, str], colours: str | None, encoding: str, plain: bool, sixteen: bool
) -> None:
    look = look_for(environ, colours, encoding)
    assert look.glyphs is (PLAIN if plain else UNICODE)
    assert look.palette is (SIXTEEN_COLOURS if sixteen else RICH_COLOURS)
