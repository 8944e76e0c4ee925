"""Which model a call goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.contracts.model_choice import ModelAsk, ModelChoice, PromptText, Score, ScorePart
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.router.model_selection import ModelSelection
from tests.unit.contracts.routes import MODELS, NAMES, routes

SERVED = frozenset(("a", "b", "c", "d"))


def chosen(
    found: dict[str, ModelRoute],
    model: str,
    *,
    override: str = "",
    session: str = "",
    sick: Iterable[str] = (),
    total: float = 0.0,
    rng: Random | None = None,
    served: Iterable[str] = SERVED,
) -> ModelChoice:
    leads, known, ill = ModelRoutes(found), set(served), set(sick)
    selection = ModelSelection(
        leads, known.__contains__, lambda name: name in known and name not in ill, rng or Random(1)
    )
    ask = ModelAsk(model, lambda: PromptText("", 0), override, session)
    return selection.choose(
        ask, {name: Score(total, (ScorePart("length", total, 1.0),)) for name in leads.scored(model)}
    )


AUTO = {"auto": ModelRoute(small="a", large="b", threshold=0.4), "best": ModelRoute(target="auto")}


def test_a_model_is_itself_and_needs_no_reason() -> None:
    assert chosen({}, "a") == ModelChoice("a", "a")
    assert chosen(AUTO, "a") == ModelChoice("a", "a")


def test_an_alias_leads_on() -> None:
    found = {"smart": ModelRoute(target="wise"), "wise": ModelRoute(target="a")}
    assert chosen(found, "smart") == ModelChoice("smart", "a", "smart is wise; wise is a", names=("smart", "wise"))


def test_a_score_of_the_threshold_goes_to_the_large_one() -> None:
    assert chosen(AUTO, "auto", total=0.39).model == "a"
    choice = chosen(AUTO, "auto", total=0.4)
    assert choice.model == "b"
    assert choice.reason == "auto takes the large one, b: score 0.40 >= 0.4 = length 0.40 x 1"
    assert choice.score is not None
    assert (choice.score.total, choice.threshold) == (0.4, 0.4)
    assert chosen(AUTO, "best", total=1.0).reason.startswith("best is auto; auto takes the large one, b: score 1.00")


def test_a_name_that_leads_to_no_model() -> None:
    with pytest.raises(NotFound, match="'nope' does not exist") as caught:
        chosen({}, "nope")
    assert caught.value.param == "model"
    with pytest.raises(NotFound, match="'smart' leads to 'gone', which does not exist"):
        chosen({"smart": ModelRoute(target="gone")}, "smart")


# --- splits


def chi_square(counts: Counter[str], shares: dict[str, float]) -> float:
    whole = sum(counts.values())
    return sum((counts[name] - whole * share) ** 2 / (whole * share) for name, share in shares.items())


THREE = {"blend": ModelRoute(split={"a": 70, "b": 20, "c": 10, "d": 0})}
SHARES = {"a": 0.7, "b": 0.2, "c": 0.1}
CRITICAL = 13.82
"""Chi-square with two degrees of freedom is above it in one case of a thousand; the seeds are fixed."""


def test_shares_of_a_split_at_random() -> None:
    rng = Random(7)
    counts = Counter(chosen(THREE, "blend", rng=rng).model for _ in range(5000))
    assert set(counts) == set(SHARES)
    assert chi_square(counts, SHARES) < CRITICAL


def test_shares_of_a_split_among_sessions_whatever_chance_says() -> None:
    counts: Counter[str] = Counter()
    for number in range(5000):
        session = f"session {number}"
        first, again = (chosen(THREE, "blend", session=session, rng=Random(seed)) for seed in (1, 2))
        assert first == again
        counts[first.model] += 1
    assert set(counts) == set(SHARES)
    assert chi_square(counts, SHARES) < CRITICAL


def test_sessions_take_other_sides_of_another_split() -> None:
    halves = {name: ModelRoute(split={"a": 1, "b": 1}) for name in ("one", "two")}
    same = sum(
        chosen(halves, "one", session=str(n)).model == chosen(halves, "two", session=str(n)).model for n in range(1000)
    )
    assert 400 < same < 600


@given(st.integers(0, 10**6), st.integers(1, 99), st.integers(1, 99))
def test_a_session_moves_only_towards_what_has_become_heavier(number: int, before: int, after: int) -> None:
    def side(weight: int) -> str:
        return chosen({"x": ModelRoute(split={"a": weight, "b": 100})}, "x", session=str(number)).model

    if side(before) != side(after):
        assert side(after) == ("a" if after > before else "b")


def test_a_split_says_what_it_gave_and_how() -> None:
    found = {"blend": ModelRoute(split={"a": 1})}
    assert chosen(found, "blend").reason == "blend gives a 1 of 1, at random"
    assert chosen(found, "blend", session="s").reason == "blend gives a 1 of 1, the same for this session"


def test_a_split_of_a_models_own_name() -> None:
    found = {"a": ModelRoute(split={"a": 1, "b": 1}, shadow=True)}
    assert {chosen(found, "a", session=str(n)).model for n in range(50)} == {"a", "b"}


# --- the header


@pytest.mark.parametrize("asked", ["auto", "best"])
def test_small_and_large_choose_a_side_whatever_the_score(asked: str) -> None:
    assert chosen(AUTO, asked, override="small", total=1.0) == ModelChoice(asked, "a", "x-inferdeck-model: small")
    assert chosen(AUTO, asked, override="large").model == "b"


def test_a_name_in_the_header_is_taken_instead() -> None:
    assert chosen(AUTO, "auto", override="c") == ModelChoice("auto", "c", "x-inferdeck-model: c")
    found = {**AUTO, "smart": ModelRoute(target="d")}
    assert chosen(found, "a", override="smart").reason == "x-inferdeck-model: smart; smart is d"
    assert chosen({}, "a", override="large", served=("a", "large")).model == "large", "a model that is called so"


@pytest.mark.parametrize(
    ("asked", "override"), [("a", "small"), ("smart", "large"), ("auto", "nope"), ("nope", "nope")]
)
def test_a_header_that_means_nothing_is_refused_by_its_name(asked: str, override: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chosen({**AUTO, "smart": ModelRoute(target="a")}, asked, override=override)
    assert caught.value.param == "x-inferdeck-model"
    assert override in caught.value.message


# --- fallback


def test_without_a_word_of_the_policy_a_sick_model_keeps_its_calls() -> None:
    assert chosen(AUTO, "auto", sick=("a",)).model == "a"
    assert chosen({"blend": ModelRoute(split={"a": 1, "b": 0})}, "blend", sick=("a",)).model == "a"


def test_the_policys_names_are_tried_in_order() -> None:
    found = {"smart": ModelRoute(target="a", fallback=("b", "c"))}
    choice = chosen(found, "smart", sick=("a", "b"))
    assert (choice.model, choice.instead_of) == ("c", "a")
    assert choice.reason == "smart is a; a has no healthy worker: fallback c"
    assert chosen(found, "smart").instead_of == ""
    assert chosen(found, "smart", sick=("a", "b", "c")).model == "a", "nobody is well: as without a fallback"


def test_a_models_own_fallback_comes_before_that_of_a_name_that_led_to_it() -> None:
    found = {"smart": ModelRoute(target="a", fallback=("c",)), "a": ModelRoute(fallback=("b",))}
    assert chosen(found, "smart", sick=("a",)).model == "b"
    assert chosen(found, "smart", sick=("a", "b")).model == "c"
    assert chosen(found, "a", sick=("a",)).reason == "a has no healthy worker: fallback b"


def later(
    found: dict[str, ModelRoute], model: str, choice: ModelChoice, *, sick: Iterable[str], total: float = 0.0
) -> ModelChoice | None:
    """What there is for a call that was chosen a model for, which is sick by now."""
    leads, ill = ModelRoutes(found), set(sick)
    selection = ModelSelection(leads, SERVED.__contains__, lambda name: name in SERVED and name not in ill, Random(1))
    scores = {name: Score(total, (ScorePart("length", total, 1.0),)) for name in leads.scored(model)}
    return selection.instead(ModelAsk(model, lambda: PromptText("", 0)), choice, scores)


def test_a_call_that_waits_takes_the_fallback_when_its_model_has_no_healthy_worker_any_more() -> None:
    found = {"smart": ModelRoute(target="a", fallback=("b", "c"))}
    choice = chosen(found, "smart")
    assert later(found, "smart", choice, sick=()) is None, "it waits for a model that is well"
    other = later(found, "smart", choice, sick=("a", "b"))
    assert other is not None
    assert (other.asked, other.model, other.instead_of, other.names) == ("smart", "c", "a", ("smart", "c"))
    assert other.reason == "smart is a; a has no healthy worker any more: fallback c"
    assert later(found, "smart", choice, sick=("a", "b", "c")) is None
    assert later({"smart": ModelRoute(target="a")}, "smart", choice, sick=("a",)) is None, "the policy says nothing"
    plain = later({"a": ModelRoute(fallback=("b",))}, "a", ModelChoice("a", "a"), sick=("a",))
    assert plain is not None
    assert plain.reason == "a has no healthy worker any more: fallback b"


def test_it_stays_on_the_way_that_was_drawn_for_it() -> None:
    """A split is not drawn again: what falls back is the side that was taken."""
    found = {
        "blend": ModelRoute(split={"a": 50, "b": 50}),
        "a": ModelRoute(fallback=("c",)),
        "b": ModelRoute(fallback=("d",)),
    }
    for side, then in (("a", "c"), ("b", "d")):
        choice = ModelChoice("blend", side, "drawn", names=("blend",))
        other = later(found, "blend", choice, sick=(side,))
        assert other is not None
        assert other.model == then


def test_a_fallback_may_have_one_of_its_own_and_none_is_tried_twice() -> None:
    found = {"a": ModelRoute(fallback=("b",)), "b": ModelRoute(fallback=("a", "c")), "c": ModelRoute(fallback=("b",))}
    assert chosen(found, "a", sick=("a", "b")).model == "c"
    assert chosen(found, "a", sick=("a", "b", "c")).model == "a"


def test_a_fallback_may_be_a_route() -> None:
    choice = chosen({**AUTO, "d": ModelRoute(fallback=("best",))}, "d", sick=("d",), total=0.9)
    assert (choice.model, choice.instead_of) == ("b", "d")
    assert choice.score is not None
    assert choice.reason.startswith("d has no healthy worker: fallback best; best is auto; auto takes the large one")


def test_a_route_that_takes_a_models_name_may_fall_back_to_it() -> None:
    found = {"a": ModelRoute(target="b", fallback=("a",), shadow=True)}
    assert chosen(found, "a").model == "b"
    assert chosen(found, "a", sick=("b",)).model == "a"
    assert chosen(found, "a", sick=("a", "b")).model == "b"


def test_a_model_that_is_not_there_falls_back_too() -> None:
    found = {"smart": ModelRoute(target="gone", fallback=("a",))}
    assert chosen(found, "smart").reason == "smart is gone; gone has no healthy worker: fallback a"


@given(
    routes(),
    st.sampled_from((*MODELS, *NAMES)),
    st.sets(st.sampled_from(MODELS)),
    st.sampled_from(["", "s"]),
    st.floats(0, 1),
    st.integers(0, 9),
)
def test_every_choice_is_a_model_that_the_name_can_end_at(
    found: dict[str, ModelRoute], name: str, sick: set[str], session: str, total: float, seed: int
) -> None:
    leads = ModelRoutes(found)

    def choose(ill: Iterable[str]) -> ModelChoice:
        return chosen(found, name, sick=ill, session=session, total=total, rng=Random(seed), served=MODELS)

    if name in NAMES and name not in found:
        with pytest.raises(NotFound):
            choose(sick)
        return
    choice, well = choose(sick), choose(())
    assert choice.model in MODELS
    assert choice.model in leads.ends(name)
    assert choice.reason.isascii()
    assert bool(choice.reason) == (choice.model != name)
    assert well.instead_of == ""
    if choice.instead_of:
        assert choice.instead_of in sick
        assert choice.model not in sick
    if choice.model in sick and session:
        assert choice.model == well.model, "nothing that is well was found: it stays where it would be"
