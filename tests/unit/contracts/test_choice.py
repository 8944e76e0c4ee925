"""Names of choices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.choice import choice_name, choice_of, split_choice


@given(st.text(min_size=1, max_size=12), st.integers(0, 200))
def test_a_name_is_understood_again(request_id: str, choice: int) -> None:
    name = choice_name(request_id, choice)
    assert choice_of(name, request_id) == choice
    if choice:
        assert split_choice(name) == (request_id, choice)


def test_other_requests_are_told_apart() -> None:
    assert choice_of("req-11", "req-1") is None
    assert choice_of("req-1#x", "req-1") is None
    assert choice_of("req-1#2", "req-1#2") == 0
    assert split_choice("#3") == ("#3", 0)
    assert split_choice("a#²") == ("a#²", 0)
