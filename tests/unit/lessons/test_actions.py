from __future__ import annotations

import pytest

from lessons.actions import Action, Calls, Shape
from lessons.crash_action import Crash


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (Calls((Shape("a"),)), "1 call (a)"),
        (Calls((Shape("a"), Shape("b")), 4, at_once=2), "4 calls (a and b), 2 at a time"),
        (Calls((Shape("a"),), 9, rate=1.5), "9 calls (a), 1.5 a second"),
        (
            Calls((Shape("a", conversation="talk"), Shape("b", conversation="talk")), 2),
            "2 calls (a and b) in the conversation talk, 1 at a time",
        ),
        (Crash("a"), "inferdeck inject WORKER crash, where the call (a) is"),
        (
            Crash("a", 3),
            "inferdeck inject WORKER crash, where the call (a) is, 3 times",
        ),
    ],
)
def test_an_action_as_it_would_be_typed_or_said(action: Action, told: str) -> None:
    assert action.told() == told
