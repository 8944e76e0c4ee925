from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.circuit import FAILURES, LONGEST_COOL_DOWN_S, REFUSAL_COOL_DOWN_S, Circuit


def broken(times: int) -> Circuit:
    circuit = Circuit()
    for _ in range(times):
        circuit.broke(0.0)
    return circuit


def test_a_new_circuit_lets_everything_through() -> None:
    circuit = Circuit()
    circuit.sent(1)
    assert circuit.open_until == 0.0


def test_cool_downs_double_up_to_a_bound() -> None:
    circuit = Circuit()
    waits = [circuit.broke(0.0) for _ in range(10)]
    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert waits[-1] == LONGEST_COOL_DOWN_S


def test_a_connection_is_proof_enough_after_few_failures_and_not_after_many() -> None:
    few = broken(FAILURES - 1)
    few.connected()
    assert few.open_until == 0.0
    many = broken(FAILURES)
    many.connected()
    assert many.open_until > 0.0


def test_one_call_goes_on_trial_and_its_first_token_closes_the_circuit() -> None:
    circuit = broken(FAILURES)
    circuit.sent(7)
    assert circuit.open_until == inf
    circuit.succeeded(6)
    assert circuit.open_until == inf, "another call's token is no proof"
    circuit.succeeded(7)
    assert circuit.open_until == 0.0
    circuit.sent(8)
    assert circuit.open_until == 0.0


def test_a_trial_that_proved_nothing_makes_room_for_the_next() -> None:
    circuit = broken(FAILURES)
    circuit.sent(7)
    circuit.ended(7, now=3.0)
    assert circuit.open_until == 3.0
    circuit.sent(8)
    assert circuit.open_until == inf


def test_the_end_of_another_call_does_not_end_a_cool_down() -> None:
    circuit = broken(1)
    circuit.ended(5, now=0.01)
    assert circuit.open_until == pytest.approx(0.1)


def test_a_success_starts_the_count_anew() -> None:
    circuit = broken(FAILURES - 1)
    circuit.succeeded(1)
    assert circuit.broke(0.0) == pytest.approx(0.1)


def test_failed_calls_open_it_only_in_a_row() -> None:
    circuit = Circuit()
    for _ in range(FAILURES - 1):
        circuit.failed(0.0)
    assert circuit.open_until == 0.0
    circuit.succeeded(1)
    circuit.failed(0.0)
    assert circuit.open_until == 0.0
    for _ in range(FAILURES - 1):
        circuit.failed(0.0)
    assert circuit.open_until > 0.0


def test_a_refusal_is_no_failure_and_a_place_that_comes_free_ends_it() -> None:
    circuit = Circuit()
    circuit.refused(1.0)
    assert circuit.open_until == 1.0 + REFUSAL_COOL_DOWN_S
    assert circuit.failures == 0
    circuit.ended(3, now=1.1)
    assert circuit.open_until == 1.1
    circuit.sent(4)
    circuit.ended(3, now=1.2)
    assert circuit.open_until == inf, "while one is on trial no other follows"


@given(st.lists(st.sampled_from(["broke", "failed", "refused", "sent", "succeeded", "ended", "connected"])))
def test_it_never_stays_shut_for_ever(events: list[str]) -> None:
    """Whatever happened: when all calls are over, the circuit opens again within the longest cool-down."""
    circuit, now, number, out = Circuit(), 0.0, 0, set()
    for event in events:
        now += 0.05
        if event == "sent":
            if circuit.open_until <= now:
                number += 1
                out.add(number)
                circuit.sent(number)
        elif event == "succeeded":
            if out:
                circuit.succeeded(min(out))
        elif event == "ended":
            if out:
                circuit.ended(out.pop(), now)
        elif event == "connected":
            circuit.connected()
        else:
            getattr(circuit, event)(now)
    for call in out:
        circuit.ended(call, now)
    assert circuit.open_until <= now + LONGEST_COOL_DOWN_S
