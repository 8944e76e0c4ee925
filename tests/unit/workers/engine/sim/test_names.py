from __future__ import annotations

from control_plane.contracts.step import StepKind
from control_plane.contracts.worker import Generate, Sampling
from workers.engine.sim.names import Names
from workers.engine.sim.scheduled import Scheduled

CALL = Generate(7, "r1", [1], Sampling(max_tokens=4))


def flying(*names: str) -> list[Scheduled]:
    rows = [(name, StepKind.DECODE, 1, 5, 5, 0, 0, 0, False, False, (), 1) for name in names]
    return [Scheduled(1, 0.0, batch=rows)]


def test_a_request_has_its_own_name_unless_another_has_it() -> None:
    running, untold = {"r1#2"}, {"r1#3"}
    names = Names(running, untold.__contains__)
    assert [names.new(CALL, index) for index in range(2)] == ["r1", "r1#1"]
    assert names.new(CALL, 2) != "r1#2"
    assert names.new(CALL, 3) != "r1#3"


def test_a_name_is_taken_until_the_steps_that_have_it_are_over() -> None:
    names = Names((), lambda _: False)
    names.ended("r1")
    assert names.new(CALL, 0) != "r1"
    names.landed(flying("r1", "other"))
    assert names.new(CALL, 0) != "r1"
    names.landed([])
    assert names.new(CALL, 0) == "r1"
