from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.plain.plan import plan_page
from console.plain.plan_explain import explanation_page
from console.text import width
from control_plane.contracts.sizing.explain import explain
from control_plane.contracts.sizing.gpus import Gpu, gpu_named
from control_plane.contracts.sizing.memory import EngineSettings, engine_defaults
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.plan import Plan, Traffic, plan
from tests.unit.contracts.sizing.shapes import gpus, published, shapes


def work_out(tp: int, concurrency: int) -> Plan:
    h100 = gpu_named("H100")
    traffic = Traffic(8192, concurrency)
    return plan(published("Llama-3.1-70B"), h100, traffic, engine_defaults(h100), tp=tp, price=2.5)


def bar(page: list[str]) -> str:
    return next(line for line in page if line.startswith("│"))


def test_a_plan_that_fits() -> None:
    page = plan_page(work_out(4, 32), 80)
    text = "\n".join(page)
    assert page[0] == "Llama-3.1-70B on 4 × H100"
    assert "✓ fits: 32 requests of 8,192 tokens; at most 59 at once" in text
    assert "141 GB (131 GiB) of weights and this KV cache take 4 GPUs: 2 GPUs leave 4.31 GiB" in text
    assert "▸   4      32.9 GiB      37.1 GiB  59  the fewest that do" in text
    assert "free" in text
    assert "COST AT LEAST  2.50 a GPU-hour, 10.00 an hour for 4" in text


def test_the_bar_is_the_device_from_end_to_end() -> None:
    drawn = bar(plan_page(work_out(4, 32), 80))
    assert len(drawn) == 80
    assert drawn[-1] == "│"
    cells = drawn[1:-1]
    assert cells.count("█") == round(32.86 / 79.15 * 78)
    assert cells.index("▓") < cells.index("▒") < cells.index("░") < cells.index("·") < cells.index(" ")
    over = bar(plan_page(work_out(2, 32), 80))
    assert len(over) == 80
    assert over.endswith("▶")
    assert "·" not in over


def test_a_plan_that_does_not_fit_says_how_far() -> None:
    some, none = ("\n".join(plan_page(work_out(tp, 64), 100)) for tp in (4, 1))
    assert "✗ does not fit: 59 of 64 requests of 8,192 tokens" in some
    assert "✗ too much" in some
    assert "✗ does not fit: no room for a KV cache beside the weights" in none
    assert "room                         none" in none


@given(shapes, gpus, st.integers(40, 160), st.integers(1, 5000))
@settings(deadline=None)
def test_no_line_is_wider_than_the_terminal(shape: ModelShape, gpu: Gpu, columns: int, concurrency: int) -> None:
    made = plan(shape, gpu, Traffic(2048, concurrency), EngineSettings(), price=1.0)
    for line in [*plan_page(made, columns), *explanation_page(explain(made), columns)]:
        assert width(line) <= columns, line


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_cut_at_usual_widths(columns: int) -> None:
    assert not any("…" in line for line in plan_page(work_out(4, 64), columns))


def test_a_pipe_gets_explanations_in_whole_lines() -> None:
    made = work_out(4, 32)
    page = explanation_page(explain(made), None)
    assert sum(len(entry.lines) for entry in explain(made)) == sum(line.startswith("  ") for line in page)
