from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.shortlist import shortlist


def fleet(count: int) -> list[Candidate]:
    return [Candidate(f"w{slot}", f"i{slot}", "m", slot=slot) for slot in range(count)]


def ask(cached: list[int] | None = None, home: str = "") -> Ask:
    return Ask("m", 1000, 1100, 1100.0, cached=cached or (), home=home)


@given(st.integers(33, 400), st.integers(0, 10_000), st.data())
def test_it_has_the_best_holders_and_the_home_and_nobody_twice(count: int, turn: int, data: st.DataObject) -> None:
    candidates = fleet(count)
    cached = data.draw(st.lists(st.sampled_from([0, 0, 0, 16, 64, 992]), min_size=count, max_size=count))
    home = data.draw(st.sampled_from(["", "gone", "i0", f"i{count - 1}"]))
    some = shortlist(ask(cached, home), candidates, {c.slot: c for c in candidates}, turn, 32)
    assert len({c.slot for c in some}) == len(some) <= 32
    best = sorted((tokens for tokens in cached if tokens), reverse=True)[:4]
    assert sorted((cached[c.slot] for c in some), reverse=True)[: len(best)] == best
    assert home in ("", "gone") or home in {c.instance_id for c in some}


@given(st.integers(33, 400), st.integers(0, 1000))
def test_each_is_looked_at_in_its_turn(count: int, turn: int) -> None:
    candidates = fleet(count)
    seen = {c.slot for n in range(turn, turn + count) for c in shortlist(ask(), candidates, {}, n, 32)}
    assert len(seen) == count
