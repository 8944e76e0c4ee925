from __future__ import annotations

import pytest

from console.hold_notes import hold_words
from control_plane.contracts.hold import Hold, HoldReason


def test_a_stay_in_the_queue_in_words() -> None:
    hold = Hold("busy", 0.01, 2.1, True, "paid", "busy", 0.83, 3, 12)
    assert (
        hold_words(hold) == "waited 2.10 s: its model was busy (83%), where tier paid waits; 3rd of 12 when it joined"
    )


def test_one_that_goes_on() -> None:
    hold = Hold("no_worker", 0.01, 0.5, position=1, queued=1)
    assert hold_words(hold) == ("has waited 500 ms: no worker of its model could be picked; 1st of 1 when it joined")


@pytest.mark.parametrize("reason", HoldReason)
def test_every_reason_has_words_of_its_own(reason: HoldReason) -> None:
    assert hold_words(Hold(reason, 0.0)) != hold_words(Hold("another", 0.0)).replace("another", reason)


@pytest.mark.parametrize(
    ("place", "told"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
                        (21, "21st"), (111, "111th"), (1002, "1,002nd")]
)  # fmt: skip
def test_places(place: int, told: str) -> None:
    assert f"; {told} of 2000 when" in hold_words(Hold("full", 0.0, position=place, queued=2000))
