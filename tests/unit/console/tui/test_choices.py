"""Which model a request went to, and why, on the screens."""

from __future__ import annotations

from dataclasses import replace

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_choice import ModelChoice
from tests.snapshots.memory import request, snapshot
from tests.unit.console.tui.harness import console

REASON = "auto takes the large one, big: score 0.50 >= 0.4 = length 0.00 x 0.5 + reasoning 1.00 x 0.5"


async def test_a_request_that_asked_for_a_name_shows_it_with_the_reason_and_the_cost() -> None:
    chosen = request("req-1", choice=ModelChoice("auto[bold]\x1b", "smollm2-135m", REASON), cost=0.00357)
    async with console((100, 40), snapshot(requests=(chosen, request("req-2")))) as seen:
        await seen.command("request req-1")
        await seen.until(lambda: "why this model" in seen.text)
        assert f"asked for auto[bold]\\x1b: {REASON}" in seen.words
        assert "0.00357" in seen.text
        await seen.command("request req-2")
        await seen.until(lambda: "req-2" in seen.lines[0] or "why this model" not in seen.text)
        assert "why this model" not in seen.text


async def test_the_models_have_the_names_that_lead_to_them_beside_them() -> None:
    first = snapshot()
    [model] = first.models
    own = ModelView(model.name, "", kind="split", leads_to=f"{model.name} 9, b 1", targets=(model.name, "b"))
    async with console((160, 48), replace(first, models=(model, own))) as seen:
        await seen.command("pools")
        await seen.until(lambda: "leads to smollm2-135m 9, b 1" in seen.text)
        assert seen.text.count("builtin:smollm2-135m") == 2, "the pool's, and the model's own row"
