from __future__ import annotations

import pytest

from control_plane.contracts.grant import Grant
from control_plane.gateway.limits.spending import before_tokenising, charge, reservation

GRANT = Grant("k", default_max_tokens=100)


@pytest.mark.parametrize(
    ("asked", "room", "choices", "whole", "most"),
    [
        (30, 30, 1, 1000, 50),
        (30, 30, 3, 1000, 110),
        (3000, 3000, 1, 1000, 3020),
        (0, 0, 1, 1000, 20),
        (None, 500, 1, 1000, 120),
        (None, 40, 1, 1000, 60),
        (None, 500, 3, 1000, 320),
        (None, 500, 1, 90, 90),
        (None, 500, 1, 20, 21),
        (None, 500, 2, None, 220),
    ],
)
def test_what_is_reserved(asked: int | None, room: int, choices: int, whole: int | None, most: int) -> None:
    """L03: prompt + max_tokens x n; without max_tokens the tier's default, at most what the context leaves, and never
    more than the whole limit."""
    found = reservation(20, asked=asked, room=room, choices=choices, grant=GRANT, whole_limit=whole)
    assert found == most


def test_what_is_known_before_the_prompt_is_read() -> None:
    assert before_tokenising(400, asked=30, choices=2, grant=GRANT) == (61, 460)
    assert before_tokenising(400, asked=0, choices=1, grant=GRANT) == (1, 400)
    assert before_tokenising(400, asked=None, choices=2, grant=GRANT) == (3, 600)


@pytest.mark.parametrize(
    ("generated", "ran", "charged"), [(0, False, None), (3, False, 23), (0, True, 20), (40, True, 60)]
)
def test_what_is_charged(generated: int, ran: bool, charged: int | None) -> None:
    """L04: prompt + what was generated; C01: nothing for what never ran."""
    assert charge(20, generated, ran=ran) == charged
