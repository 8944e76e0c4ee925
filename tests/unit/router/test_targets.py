from __future__ import annotations

from control_plane.contracts.worker import Load, WorkerState
from tests.unit.router.stage import Stage


def loaded(stage: Stage, running: int, waiting: int = 0, age_s: float = 0.0, instance_id: str = "a-i1") -> int:
    """Publish a sample and return how many requests of others the router takes it to tell of."""
    stage.now += 0.5
    stage.workers["a"].load = Load(instance_id, stage.now, WorkerState.READY, running=running, waiting=waiting)
    stage.workers["a"].load_age_s = age_s
    stage.publish()
    return stage.link("a").target.candidate.others


def test_what_a_worker_holds_beyond_ours_is_others() -> None:
    stage = Stage()
    stage.start("a")
    assert loaded(stage, running=3, waiting=2) == 5
    stage.submit("r1")
    stage.submit("r2", n=2)
    assert loaded(stage, running=5, waiting=2) == 4


def test_our_own_that_ended_since_the_sample_are_not_taken_for_others() -> None:
    stage = Stage()
    stage.start("a")
    for name in ("r1", "r2", "r3"):
        stage.submit(name)
    loaded(stage, running=3)
    for name in ("r1", "r2", "r3"):
        stage.link("a").finish(name)
    assert loaded(stage, running=3) == 0, "the sample was taken before they ended"
    assert loaded(stage, running=3) == 0
    assert loaded(stage, running=3) == 3


def test_a_sample_of_another_instance_tells_nothing() -> None:
    stage = Stage()
    stage.start("a")
    assert loaded(stage, running=7, instance_id="a-i0") == 0
    assert not stage.link("a").target.candidate.fresh(stage.now)


def test_the_age_of_a_sample_counts_from_when_it_was_taken() -> None:
    stage = Stage()
    stage.start("a")
    loaded(stage, running=1, age_s=2.0)
    candidate = stage.link("a").target.candidate
    assert candidate.fresh(stage.now + 0.9)
    assert not candidate.fresh(stage.now + 1.1)


def test_a_sample_that_is_sent_again_does_not_get_younger() -> None:
    stage = Stage()
    stage.start("a")
    loaded(stage, running=4)
    taken = stage.now
    for _ in range(4):
        stage.now += 1.0
        stage.publish()
    candidate = stage.link("a").target.candidate
    assert candidate.sampled_mono == taken
    assert not candidate.fresh(stage.now)
