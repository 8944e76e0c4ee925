from __future__ import annotations

from rich.style import Style

from console.tui.render.look import RICH_LOOK
from console.tui.render.markdown import flow, markdown
from console.tui.render.spans import Span, width_of

PALETTE = RICH_LOOK.palette


def text(lines: list[list[Span]]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def styles(lines: list[list[Span]]) -> dict[str, Style]:
    return {part: style for line in lines for part, style in line if part.strip()}


def test_emphasis_goes_without_its_marks_and_keeps_its_words_together() -> None:
    lines = markdown("A **KV cache**. Its *keys*, and `inferdeck get workers`.", 80, RICH_LOOK)
    assert text(lines) == ["A KV cache. Its keys, and inferdeck get workers."]
    found = styles(lines)
    assert found["cache"] == PALETTE.title
    assert found["."] == PALETTE.text
    assert found["keys"].italic
    assert found["workers"] == PALETTE.series


def test_stars_that_mark_nothing_stay() -> None:
    assert text(markdown("2 * 3 * 4 and ** and [b]no markup[/b]", 80, RICH_LOOK)) == [
        "2 * 3 * 4 and ** and [b]no markup[/b]"
    ]


def test_paragraphs_wrap_and_lists_hang() -> None:
    words = "one two three\nfour five\n\n- six seven eight nine\n- ten"
    assert text(markdown(words, 12, RICH_LOOK)) == [
        "one two",
        "three four",
        "five",
        "",
        "· six seven",
        "  eight nine",
        "· ten",
    ]


def test_code_keeps_its_lines() -> None:
    lines = markdown("Say\n```\na  b\n  c\n```\nthen\n\n    d  e", 20, RICH_LOOK)
    assert text(lines) == ["Say", "a  b", "  c", "then", "", "    d  e"]


def test_no_line_is_wider_than_its_place() -> None:
    words = "a **" + "long" * 20 + "** word and 日本語" + "日" * 30
    for width in (2, 7, 30):
        for line in markdown(words, width, RICH_LOOK):
            assert width_of(line) <= width


def test_what_leads_stands_once_and_is_left_free_below() -> None:
    lead: Span = ("$ ", PALETTE.faint)
    assert text(flow("one two three", 7, RICH_LOOK, lead=lead)) == ["$ one", "  two", "  three"]


def test_a_line_of_code_that_is_too_long_is_parted_at_its_spaces() -> None:
    assert text(markdown("    inferdeck inject WORKER crash --home /a/home", 28, RICH_LOOK)) == [
        "    inferdeck inject WORKER",
        "    crash --home /a/home",
    ]
    assert text(markdown("```\nx = 1\n```", 28, RICH_LOOK)) == ["x = 1"]


def test_a_name_that_is_too_long_is_parted_where_it_is_joined() -> None:
    assert text(flow("set routing.aliases.gpt-4o=smollm2-135m", 30, RICH_LOOK)) == [
        "set routing.aliases.gpt-4o=",
        "smollm2-135m",
    ]
    assert text(flow("abcdefghij", 4, RICH_LOOK)) == ["abcd", "efgh", "ij"]
