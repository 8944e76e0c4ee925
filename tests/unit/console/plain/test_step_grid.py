"""Engine steps as a grid of lines."""

from __future__ import annotations

from console.plain.step_grid import LEGEND, step_grid
from console.text import width
from control_plane.contracts.step import EngineStep, StepFinished, StepKind, StepRow, StepWaiting

PART, LAST, DECODE = StepKind.PREFILL, StepKind.LAST_PREFILL, StepKind.DECODE


def step(number: int, rows: dict[str, StepKind], ended: str = "", reason: str = "length", **more: object) -> EngineStep:
    told = tuple(StepRow(name, kind, 1, 0, 1) for name, kind in rows.items())
    finished = (StepFinished(ended, reason),) if ended else ()
    waiting = more.get("waiting", ())
    assert isinstance(waiting, tuple)
    values = {"tokens": len(rows), "execute_s": 0.1 * len(rows), "waiting_total": len(waiting), **more}
    return EngineStep(number, 0.0, rows=told, finished=finished, **values)  # type: ignore[arg-type]


STEPS = (
    step(7, {"before": DECODE}, ended="before"),
    step(8, {"a": PART}),
    step(9, {"a": LAST}, waiting=(StepWaiting("c", 5),)),
    step(10, {"a": DECODE, "b": LAST}),
    step(11, {"b": DECODE}, preempted=("a",), waiting=(StepWaiting("a", 3, preempted=True),)),
    step(12, {"b": DECODE}, ended="b", waiting=(StepWaiting("a", 3, preempted=True),)),
    step(13, {"a": LAST}),
    step(14, {"a": DECODE}, ended="a", reason="abort"),
)


def test_a_row_tells_what_each_step_did_with_a_request() -> None:
    head, *rows, took, tokens, told, legend = step_grid(STEPS, 75)
    assert head == "step 8 to 14, 7 steps: a column is a step"
    assert [row[16:] for row in rows] == ["░▒█×·▒⊘", " ·", "  ▒█✓"]
    assert [row[:16].strip() for row in rows] == ["a", "c", "b"]
    assert took[16:] == tokens[16:] == "▅▅█▅▅▅▅"
    assert told == "a step took 100 ms (the median) to 200 ms, and had up to 2 tokens"
    assert legend == LEGEND


def test_who_waits_alone_does_not_part_the_steps() -> None:
    waiting = (step(1, {"a": DECODE}, ended="a", waiting=(StepWaiting("b", 3),)), step(2, {"b": LAST}))
    assert next(step_grid(waiting, 75)).startswith("step 1 to 2")


def test_the_steps_of_note_are_shown_where_there_is_no_room_for_all() -> None:
    lines = list(step_grid(STEPS, 20))
    assert lines[0].startswith("step 10 to 13"), "from a little before the preemption"
    assert "×" in lines[1]
    assert all(width(line) <= 20 for line in lines)
    late = [step(number, {"a": DECODE}) for number in range(15, 40)]
    assert "step 10 to 13" in next(step_grid((*STEPS[:-1], *late), 20)), "however many came after it"


def test_without_anything_of_note_the_steps_begin_with_the_prompt() -> None:
    calm = [step(1, {"a": LAST}), *(step(number, {"a": DECODE}) for number in range(2, 60))]
    assert next(step_grid(calm, 40)).startswith("step 1 to 24")


def test_of_many_requests_the_first_are_shown_and_the_others_counted() -> None:
    many = step(1, {f"r{number}": DECODE for number in range(20)})
    lines = list(step_grid([many], 75))
    assert [line.split()[0] for line in lines[1:18]] == [f"r{number}" for number in range(16)] + ["and"]
    assert lines[17] == "and 4 more"


def test_a_name_that_would_act_on_a_terminal_is_shown_literally() -> None:
    assert "\x1b" not in "\n".join(step_grid([step(1, {"\x1b[2J": DECODE})], 75))


def test_an_engine_that_made_no_step() -> None:
    assert list(step_grid([], 75)) == ["no step was made yet"]
