"""Which router gets a call."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.remote.choice import QUIET_BEATS, Standing, pick

MODELS = ("a", "b")

STANDINGS = st.lists(
    st.builds(
        Standing,
        id=st.text(min_size=1, max_size=3),
        connected=st.booleans(),
        joined=st.booleans(),
        ready=st.booleans(),
        draining=st.booleans(),
        own=st.integers(0, 5),
        own_then=st.integers(0, 5),
        total=st.integers(0, 9),
        missed=st.integers(0, 2 * QUIET_BEATS),
        serving=st.frozensets(st.sampled_from(MODELS)),
    ),
    max_size=6,
)


@given(standings=STANDINGS, model=st.sampled_from(MODELS), seed=st.integers())
def test_the_least_loaded_of_those_that_can_serve_it(standings: list[Standing], model: str, seed: int) -> None:
    chosen = pick(standings, model, Random(seed))
    usable = [standing for standing in standings if standing.usable]
    if chosen is None:
        assert not usable
        return
    assert chosen.usable
    rivals = [standing for standing in usable if (model in standing.serving) >= (model in chosen.serving)]
    assert any(chosen is rival for rival in rivals)
    assert chosen.load == min(rival.load for rival in rivals)
    assert (model in chosen.serving) == any(model in standing.serving for standing in usable)


def up(name: str, **fields: int) -> Standing:
    return Standing(name, connected=True, joined=True, ready=True, serving=frozenset("a"), **fields)


def test_those_that_tie_share() -> None:
    rng = Random(1)
    tied = [up("r1"), up("r2"), up("r3", own=1)]
    chosen = {pick(tied, "a", rng) for _ in range(50)}
    assert {standing.id for standing in chosen if standing is not None} == {"r1", "r2"}


def test_what_other_gateways_have_there_counts_and_own_calls_only_once() -> None:
    busy = up("r1", own=2, own_then=2, total=2)
    assert busy.load == 2
    assert up("r2", own=2, own_then=1, total=4).load == 5
    assert up("r3", own=3, own_then=5, total=5).load == 3


def test_one_that_has_said_nothing_for_a_while_gets_nothing_new() -> None:
    assert pick([up("r1", missed=QUIET_BEATS)], "a", Random(1)) is None
    assert pick([up("r1", missed=QUIET_BEATS - 1)], "a", Random(1)) is not None
