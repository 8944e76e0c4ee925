"""The choice of a model as a running router makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random

import pytest

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.model_choice import ModelAsk, ModelChoice, PromptText
from control_plane.contracts.model_routes import ModelRoute
from control_plane.router.selector import LOOP_CHARACTERS, Selector

MODELS = frozenset(("a", "b", "c"))
AUTO = ModelRoute(small="a", large="b", threshold=0.4)


class Catalogue:
    """Of MODELS, all but the sick ones have a healthy worker."""

    def __init__(self, sick: Iterable[str] = ()) -> None:
        self.sick = set(sick)
        self.names: frozenset[str] | None = MODELS

    def knows(self, name: str) -> bool:
        return name in MODELS

    def serves(self, name: str) -> bool:
        return name in MODELS and name not in self.sick


def selector(routes: dict[str, ModelRoute], sick: Iterable[str] = ()) -> Selector:
    made = Selector(Catalogue(sick), Random(1))
    made.take(routes)
    return made


def asking(model: str, override: str = "", asked: str = "hi") -> ModelAsk:
    return ModelAsk(model, lambda: PromptText(asked, len(asked)), override)


def chosen(made: Selector, ask: ModelAsk) -> ModelChoice:
    heard: list[ModelChoice | InferDeckError] = []
    made.select(ask, heard.append)
    [choice] = heard
    assert isinstance(choice, ModelChoice)
    return choice


@pytest.mark.parametrize("sick", [(), ("a",)])
def test_a_side_of_auto_may_lead_to_what_is_scored_itself(sick: tuple[str, ...]) -> None:
    """By its name, and by the fallback of the model that it is."""
    further = ModelRoute(small="b", large="c", threshold=0.4)
    routes = {"auto": AUTO, "a": ModelRoute(fallback=("inner",)), "inner": further}
    assert chosen(selector(routes, sick), asking("auto", "small")).model == ("b" if sick else "a")
    nested = {"outer": ModelRoute(small="inner", large="c"), "inner": further}
    assert chosen(selector(nested, sick), asking("outer", "small")).model == "b"


def test_a_policy_that_changed_while_a_call_waits_is_what_it_falls_back_by() -> None:
    """The name that it came by leads nowhere any more, and its model's fallback is one that is scored."""
    choice = ModelChoice("smart", "c", "smart is c", names=("smart",))
    made = selector({"c": ModelRoute(fallback=("auto",)), "auto": AUTO}, sick=("c",))
    heard: list[ModelChoice | None] = []
    made.instead(asking("smart"), choice, heard.append)
    [other] = heard
    assert other is not None
    assert (other.model, other.instead_of) == ("a", "c")


async def test_a_long_prompt_is_answered_later() -> None:
    heard: asyncio.Future[ModelChoice | InferDeckError] = asyncio.get_running_loop().create_future()
    selector({"auto": AUTO}).select(asking("auto", asked="x" * (LOOP_CHARACTERS + 1)), heard.set_result)
    assert not heard.done()
    async with asyncio.timeout(20):
        assert isinstance(await heard, ModelChoice)
