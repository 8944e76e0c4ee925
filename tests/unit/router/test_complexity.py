"""How hard a request is taken to be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.complexity_rule import DEFAULT_WEIGHTS, PARTS, ComplexityRule
from control_plane.contracts.model_choice import PromptText, Score, ScorePart
from control_plane.contracts.model_routes import DEFAULT_THRESHOLD
from control_plane.router import complexity
from control_plane.router.complexity import READ_CHARACTERS, score, told

RULE = ComplexityRule()
SHARES = st.floats(0, 1)


def of(text: str, max_tokens: int | None = None, rule: ComplexityRule = RULE, *, in_full: bool = False) -> Score:
    return score(PromptText(text, len(text)), max_tokens, rule, in_full=in_full)


def part(found: Score, name: str) -> ScorePart:
    return next(each for each in found.parts if each.name == name)


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        "What is the capital of France?",
        "Translate 'good morning' into Italian.",
        "let me know what you think\nfrom where I stand, import taxes are high;",
        "Write a short poem about the sea.",
        "",
    ],
)
def test_simple_requests_stay_below_the_threshold(text: str) -> None:
    assert of(text, 64).total < DEFAULT_THRESHOLD


@pytest.mark.parametrize(
    "text",
    [
        "Prove by induction that the sum of the first n odd numbers is n squared.",
        "Compare both architectures, analyse their trade-offs and justify your choice step by step.",
        "Why does this fail?\n```python\nprint(x)\n```",
        "def area(r):\n    return 3.14 * r * r\n\nfor (int i = 0; i < 3; i++) {\n    total += area(i);\n}",
        "word " * 1600,
    ],
)
def test_hard_ones_reach_it(text: str) -> None:
    assert of(text).total >= DEFAULT_THRESHOLD


@given(st.lists(SHARES, min_size=5, max_size=5), st.lists(SHARES, min_size=5, max_size=5), st.integers(0, 4), SHARES)
def test_more_of_a_part_is_never_less_in_all(
    values: list[float], weights: list[float], index: int, other: float
) -> None:
    parts = [ScorePart(name, values[i], weights[i]) for i, name in enumerate(PARTS)]
    changed = [*parts]
    changed[index] = replace(parts[index], value=other)
    before, after = complexity.total(tuple(parts)), complexity.total(tuple(changed))
    assert 0 <= before <= 1
    if other >= parts[index].value:
        assert after >= before
    else:
        assert after <= before


TEXTS = st.text(st.sampled_from("ab ?？\n`{};:()prove証明 .="), max_size=200)


@given(TEXTS, st.sampled_from(["?", " why?", "\nx = 1;\n", "\n```\n", " prove ", " theorem ", "more text"]))
def test_what_is_added_at_the_end_lowers_no_part(text: str, more: str) -> None:
    before, after = of(text), of(f"{text}\n{more}")
    for was, now in zip(before.parts, after.parts, strict=True):
        assert now.value >= was.value, now.name
    assert after.total >= before.total


@given(TEXTS, st.none() | st.integers(1, 10**9))
def test_every_part_is_there_between_0_and_1_with_its_weight(text: str, max_tokens: int | None) -> None:
    found = of(text, max_tokens)
    assert tuple(each.name for each in found.parts) == PARTS
    for each in found.parts:
        assert 0 <= each.value <= 1
        assert each.weight == DEFAULT_WEIGHTS[each.name]
        assert each.name in told(found)
        assert each.found
    assert told(found).isascii()


def test_length_and_output_grow_evenly_up_to_their_bounds() -> None:
    assert part(score(PromptText("", 4000), None, RULE), "length").value == 0.5
    assert part(score(PromptText("", 80_000), None, RULE), "length").value == 1
    assert part(of("x", 512), "output").value == 0.5
    assert part(of("x", 10_000), "output").value == 1
    assert part(of("x"), "output").value == 0


def test_one_question_is_none_too_many() -> None:
    assert part(of("Who?"), "questions").value == 0
    assert part(of("Who? Where?"), "questions").value == pytest.approx(1 / 3)
    assert part(of("Who? Where? When? Why?"), "questions").value == 1
    assert part(of("Really?!! http://x/?a=1&b=?c"), "questions").value == 0, "addresses ask nothing"
    assert part(of("谁？为什么？"), "questions").value > 0


def test_words_count_once_each_as_words_whatever_their_case() -> None:
    assert part(of("PROVE it, prove it"), "reasoning").value == 0.5
    assert part(of("Prove the theorem"), "reasoning").value == 1
    assert part(of("an improvement, approved; a proofreader"), "reasoning").value == 0
    assert part(of("step-by-step"), "reasoning").value == 0.5
    assert part(of("root\n cause"), "reasoning").value == 0.5
    other = replace(RULE, words=("証明", "beweise"))
    assert part(of("これを証明してください", rule=other), "reasoning").value == 0.5
    assert part(of("Beweise das", rule=other), "reasoning").value == 0.5


def test_the_words_themselves_are_told_only_where_that_was_asked_for() -> None:
    assert part(of("Prove the theorem", in_full=True), "reasoning").found == "prove, theorem"
    assert part(of("Prove the theorem"), "reasoning").found == "2 words"
    assert part(of("Hello", in_full=True), "reasoning").found == "0 words"


@pytest.mark.parametrize("text", ["```\nx\n```", "please fix\n~~~\nx\n~~~"])
def test_fenced_code_counts_in_full(text: str) -> None:
    assert part(of(text), "code").value == 1


@pytest.mark.parametrize(
    "line",
    [
        "def f(x):",
        "import os",
        "from a.b import c",
        "#include <stdio.h>",
        "const x = 1",
        "public static void main(String[] a) {",
        "fn main() -> i32 {",
        "return x + 1;",
        "SELECT a FROM b",
        "class A(B):",
        "}",
    ],
)
def test_lines_that_look_like_code(line: str) -> None:
    assert part(of(f"look\n{line}\nat this"), "code").found == "1 line of code"


def test_of_a_long_text_both_ends_are_read_and_all_of_it_is_long() -> None:
    filler = "lorem ipsum " * READ_CHARACTERS
    assert part(of(f"prove {filler} theorem"), "reasoning").value == 1
    assert part(of(f"{filler} prove the theorem {filler}"), "reasoning").value == 0
    assert part(of(filler), "length").found == f"{len(filler)} characters"


def test_a_rules_weights_decide() -> None:
    nothing = replace(RULE, weights=dict.fromkeys(PARTS, 0.0))
    assert of("Prove the theorem ```x```", 4096, nothing).total == 0
    whole = replace(nothing, weights=dict.fromkeys(PARTS, 0.0) | {"reasoning": 1.0})
    assert of("Prove the theorem", rule=whole).total == 1
