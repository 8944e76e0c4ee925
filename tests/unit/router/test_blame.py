"""Whose fault a failure is, and what is held against whom."""

from __future__ import annotations

import pytest

from control_plane.contracts.errors import DropReason
from control_plane.router.circuit import FAILURES
from tests.unit.router.stage import Stage

CALLERS = ("invalid_request", "context_length_exceeded", "conflict", "request_cancelled", "rate_limit_exceeded")


@pytest.mark.parametrize("code", CALLERS)
def test_what_callers_do_wrong_never_opens_a_circuit(code: str) -> None:
    stage = Stage()
    stage.start("a")
    for number in range(3 * FAILURES):
        _, sink = stage.submit(f"r{number}")
        stage.link("a").fail(f"r{number}", code)
        assert sink.error is not None
        assert sink.error.reason == code
    candidate = stage.link("a").target.candidate
    assert candidate.refusing_until <= stage.now
    assert stage.link("a").target.circuit.failures == 0
    stage.check()


def test_what_the_engine_does_wrong_opens_it_and_one_probe_closes_it() -> None:
    stage = Stage(retries=0)
    stage.start("a")
    for number in range(FAILURES):
        stage.submit(f"r{number}")
        stage.link("a").fail(f"r{number}", DropReason.INTERNAL_ERROR)
    _, waiting = stage.submit("probe")
    stage.submit("second")
    assert stage.where("probe") == stage.where("second") == ""
    stage.advance(2.0)
    assert (stage.where("probe"), stage.where("second")) == ("a", ""), "half open: one call goes on trial"
    stage.link("a").token("probe")
    assert stage.where("second") == "a"
    stage.link("a").finish("probe")
    assert waiting.done
    stage.check()
