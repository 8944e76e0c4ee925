from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lessons.hops import Piece, TokenHops, between, hops_of


def test_each_token_came_with_the_first_piece_that_has_it() -> None:
    steps = [(7, 0.1), (8, 0.2), (9, 0.3), (10, 0.4)]
    pieces = [Piece(1, 0.15, 0.11, 0.12, 0.13), Piece(3, 0.35, 0.31, 0.32, 0.33)]
    assert hops_of(steps, pieces) == (
        TokenHops(1, 7, 0.1, 0.11, 0.12, 0.13, 0.15),
        TokenHops(2, 8, 0.2, 0.31, 0.32, 0.33, 0.35),
        TokenHops(3, 9, 0.3, 0.31, 0.32, 0.33, 0.35),
        TokenHops(4, 10, 0.4),
    )


def test_tokens_of_a_plain_answer_wait_for_its_end() -> None:
    hops = hops_of([(1, 0.1), (2, 0.2), (3, 0.3)], [Piece(3, 0.35)])
    assert [round(took, 9) for took in between(hops, "engine", "client")] == [0.25, 0.15, 0.05]
    assert between(hops, "worker", "client") == []


def test_a_step_that_nobody_knows_is_none() -> None:
    assert hops_of([], [Piece(2, 0.5)]) == (TokenHops(1, client=0.5), TokenHops(2, client=0.5))
    assert hops_of([], []) == ()


@given(st.lists(st.integers(1, 5), max_size=20), st.integers(0, 60))
def test_every_token_is_there_once_and_in_order(sizes: list[int], steps: int) -> None:
    total, pieces = 0, []
    for number, size in enumerate(sizes):
        total += size
        pieces.append(Piece(total, float(number)))
    hops = hops_of([(number, 0.0) for number in range(steps)], pieces)
    assert [each.token for each in hops] == list(range(1, max(total, steps) + 1))
    assert [each.client for each in hops[:total]] == [float(n) for n, size in enumerate(sizes) for _ in range(size)]
    assert all(each.client is None for each in hops[total:])
