"""The picture, the charts and the waterfall: their size, and what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.tui.live.board import Board, View
from console.tui.live.history import Sample
from console.tui.render.chart import SMALLEST_HEIGHT, SMALLEST_WIDTH, chart, dots
from console.tui.render.look import PLAIN, RICH_LOOK, SIXTEEN_COLOURS, Look
from console.tui.render.picture import HEIGHT, picture
from console.tui.render.spans import Span, width_of
from console.tui.render.waterfall import stage_notes, waterfall
from control_plane.contracts.fleet import Pool, RequestPhase, Stage
from tests.snapshots.memory import NOW, request, snapshot

PLAIN_LOOK = Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark")
numbers = st.one_of(st.none(), st.floats(0, 1))


def text(lines: list[list[Span]]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def view(**changes: object) -> View:
    board = Board("here")
    for step in range(6):
        board.heard(snapshot(NOW + step, **changes), 100.0 + step)  # type: ignore[arg-type]
    return board.view(105.0)


@pytest.mark.parametrize("width", [60, 80, 100, 160, 231])
@pytest.mark.parametrize("look", [RICH_LOOK, PLAIN_LOOK])
def test_the_picture_has_its_size(width: int, look: Look) -> None:
    lines = picture(view(), width, look)
    assert len(lines) == HEIGHT
    assert {width_of(line) for line in lines} == {width}


def test_the_picture_says_what_is_known() -> None:
    shown = text(picture(view(), 100, RICH_LOOK))
    for words in ("8 in flight", "6.2 req/s", "TTFT 210ms 1.90s", "2 queued", "4 decoding", "74% prefix hits"):
        assert words in shown
    for words in ("2 of 2 ready", "26 run", "412 tokens/s as they are born"):
        assert words in shown


def test_the_picture_says_how_to_make_the_first_request() -> None:
    asked = view(requests=())
    [gateway] = asked.snapshot.gateways if asked.snapshot else []
    idle = view(requests=(), gateways=(replace(gateway, requests_total=0, tokens_per_s=0.0),))
    words = "no request yet: inferdeck load, in another terminal, sends some"
    for width in (80, 100, 160):
        assert words in text(picture(idle, width, RICH_LOOK))
    assert words not in text(picture(asked, 100, RICH_LOOK))


def test_the_picture_of_nothing_invents_nothing() -> None:
    shown = text(picture(Board("here").view(0.0), 100, RICH_LOOK))
    assert not any(char.isdigit() for char in shown.replace("×0", "").replace("4xx", "").replace("5xx", ""))


def test_a_picture_of_several_pools() -> None:
    pools = tuple(Pool(f"pool-{n}", f"model-{n}", "vllm", 2, n) for n in range(3))
    shown = text(picture(view(pools=pools), 100, RICH_LOOK))
    assert "pools ×3" in shown


@given(
    st.lists(st.tuples(numbers, st.one_of(st.none(), st.floats(0, 1e7))), min_size=0, max_size=60),
    st.integers(SMALLEST_WIDTH, 90),
    st.integers(SMALLEST_HEIGHT, 20),
)
@settings(max_examples=40, deadline=None)
def test_a_chart_has_its_size(points: list[tuple[float | None, float | None]], width: int, height: int) -> None:
    samples = [Sample(NOW + index, use, tokens) for index, (use, tokens) in enumerate(points)]
    lines = chart(samples, 120.0, width, height, RICH_LOOK)
    assert len(lines) == height
    assert {width_of(line) for line in lines} == {width}


def test_a_chart_leaves_a_gap_where_nothing_is_known() -> None:
    width, look = 50, PLAIN_LOOK
    count = dots(width)
    samples = [Sample(NOW + i, None if count // 3 < i < 2 * count // 3 else 0.5, None) for i in range(count)]
    lines = text(chart(samples, 120.0, width, 9, look)).splitlines()
    (curve,) = [line for line in lines if "*" in line]
    left, gap, right = curve.partition(" " * 10)
    assert "*" in left
    assert gap
    assert "*" in right


def test_a_chart_colours_kv_use_by_its_band_and_marks_tokens_apart() -> None:
    samples = [Sample(NOW + i, 0.3 if i < 30 else 0.95, 100.0) for i in range(60)]
    lines = chart(samples, 120.0, 40, 9, RICH_LOOK)
    styles = {style for line in lines for piece, style in line if piece.strip()}
    palette = RICH_LOOK.palette
    assert {palette.good, palette.bad, palette.series} <= styles
    assert "500" not in text(lines)
    assert "100 " in text(lines)


@pytest.mark.parametrize("height", [4, 5, 6, 9, 14])
def test_few_tokens_stand_above_the_line_of_none(height: int) -> None:
    """Beside a time with many more, at any height."""
    idle = [Sample(float(at), 0.01, 0.0) for at in range(80)]
    busy = [replace(each, tokens_per_s=480.0) for each in idle[:20]]
    little = [replace(each, tokens_per_s=4.0) if at in range(40, 50) else each for at, each in enumerate(idle[20:])]
    nothing = text(chart([*busy, *idle[20:]], 60.0, 50, height, RICH_LOOK)).splitlines()
    something = text(chart([*busy, *little], 60.0, 50, height, RICH_LOOK)).splitlines()
    assert something[:-3] != nothing[:-3], "not on the lowest line"


def test_a_waterfall_puts_stages_where_they_happened() -> None:
    lines = text(waterfall(request("r"), 100, RICH_LOOK)).splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["auth", "tokenise", "queue", "route", "prefill", "decode"]
    assert lines[-1].split() == ["0", "3.65s", "7.30s"]
    queue, decode = lines[2], lines[5]
    assert decode.index("█") > queue.rindex("█")
    assert "388 prompt tokens, 128 cached" in lines[4]
    assert "143 tokens, ITL p50 47ms" in decode


def test_stage_notes_stand_alone_when_there_is_no_room() -> None:
    assert "prefill: 388 prompt tokens, 128 cached" in stage_notes(request("r"))
    assert "prompt tokens" not in text(waterfall(request("r"), 76, RICH_LOOK))


def test_what_an_attempt_before_the_last_was_is_not_told_by_the_last_one_s_counts() -> None:
    call = request("r")
    before = (Stage("route", 0.001, 0.001, "w0"), Stage("decode", 0.002, 0.001, "w0"))
    notes = stage_notes(replace(call, stages=(*before, *call.stages)))
    assert "route: to w0, which did not end it" in notes
    assert [note for note in notes if note.startswith("decode")] == ["decode: 143 tokens, ITL p50 47ms"]


def test_a_waterfall_without_stages_says_so() -> None:
    assert text(waterfall(replace(request("r"), stages=(), duration_s=0.0), 76, RICH_LOOK)) == "no stage has ended yet"


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        (RequestPhase.QUEUED, "queued now"),
        (RequestPhase.DISPATCHED, "at worker now"),
        (RequestPhase.DECODING, "decoding now"),
        (RequestPhase.FAILED, "not told"),
    ],
)
def test_time_that_belongs_to_no_stage_is_shown_as_such(phase: RequestPhase, name: str) -> None:
    call = replace(request("r"), phase=phase, stages=(Stage("auth", 0.0, 2.0),), duration_s=10.0)
    auth, rest, _ = text(waterfall(call, 76, RICH_LOOK)).splitlines()
    assert auth.startswith("auth")
    assert rest.startswith(name)
    assert "8.00s" in rest


@given(
    st.lists(st.builds(Stage, st.text(max_size=20), st.floats(), st.floats()), max_size=8),
    st.floats(),
    st.integers(56, 160),
)
@settings(deadline=None)
def test_no_stage_breaks_the_waterfall(stages: list[Stage], duration: float, width: int) -> None:
    for look in (RICH_LOOK, PLAIN_LOOK):
        lines = waterfall(replace(request("r"), stages=tuple(stages), duration_s=duration), width, look)
        assert all(width_of(line) <= width + 40 for line in lines)
