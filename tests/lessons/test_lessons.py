"""Every lesson on a real platform, twice, as ``inferdeck learn verify`` plays it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from console.client import OperatorClient
from console.home import Home
from console.learn.stage import PlatformStage
from console.learn.verify import verify
from console.learn.waiting import NotDone
from control_plane.contracts.errors import InternalError
from control_plane.contracts.fleet import WorkerPhase
from lessons.actions import Calls, Cordon, EngineArguments, Scale, SetPolicy, Shape
from lessons.catalogue import folders, write_new
from lessons.loader import load
from lessons.model import Sandbox
from lessons.observation import Observation
from lessons.plan_action import PlanOf


def _played(folder: Path) -> ParameterSet:
    """A real engine takes its time to start, and waits its turn among the other tests of it."""
    marks = []
    if load(folder).sandbox.engine == "vllm":
        without = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
        marks = [pytest.mark.real_vllm, pytest.mark.timeout(1800), without]
    return pytest.param(folder, id=folder.name, marks=marks)


@pytest.mark.parametrize("folder", [_played(folder) for folder in folders()])
async def test_a_lesson_shows_what_it_says(folder: Path) -> None:
    async with PlatformStage() as stage:
        assert await verify(load(folder), stage, lambda _: None) == []
        assert stage.starts == 1


async def test_nothing_is_left_of_a_lesson() -> None:
    async with PlatformStage() as stage:
        await stage.start(Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b"}), 1)
        home = Home(Path(stage.home))
        assert home.running() is not None
    assert home.running() is None
    assert not home.leftovers()
    assert home.state() is None


async def test_a_sandbox_whose_workers_were_changed_has_those_that_lessons_know_by_name() -> None:
    sandbox = Sandbox(replicas=2, engine_args={"profile": "a100-80gb-llama-3.1-8b"})
    async with PlatformStage() as stage:
        await stage.start(sandbox, 1)
        await stage.act(Scale(3))
        await stage.act(Cordon("w-1"))
        await stage.act(Scale(2))
        await stage.start(sandbox, 1)
        seen = await stage.observe()
        assert {worker.id: worker.cordoned for worker in seen.snapshot.workers} == {"w-1": False, "w-2": False}
        assert stage.starts == 1


async def test_a_worker_that_its_learner_put_to_sleep_is_woken() -> None:
    sandbox = Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b"})
    async with PlatformStage() as stage:
        await stage.start(sandbox, 1)
        async with OperatorClient(stage.target()) as client:
            await client.sleep("w-1", 1)
        await stage.start(sandbox, 1)
        [worker] = (await stage.observe()).snapshot.workers
        assert (worker.phase, stage.starts) == (WorkerPhase.READY, 1)


async def test_a_platform_that_cannot_be_put_back_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b"})
    async with PlatformStage() as stage:
        await stage.start(sandbox, 1)
        first = stage.home

        async def broken(*_: object) -> None:
            raise NotDone("the workers did not come")

        monkeypatch.setattr(stage, "_put_back", broken)
        await stage.start(sandbox, 1)
        assert stage.starts == 2
        assert stage.home != first
        assert not Home(Path(first)).leftovers()


async def test_what_was_planned_is_told_until_the_next_mark() -> None:
    plan = PlanOf("p", "Llama-3.1-70B", "H100", 8192, tp=2)
    async with PlatformStage() as stage:
        await stage.start(Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b"}), 1)
        await stage.act(plan)
        assert (await stage.observe()).plans == {"p": plan.worked_out()}
        await stage.mark()
        assert not (await stage.observe()).plans


async def test_a_call_that_breaks_fails_its_step() -> None:
    broken = Shape("x", key="forgotten")
    async with PlatformStage() as stage:
        await stage.start(Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b"}), 1)
        for calls in (Calls((broken,)), Calls((broken,), 2, at_once=2, background=True, heard=True)):
            with pytest.raises(InternalError, match="the call 'x' could not be made: KeyError"):
                await stage.act(calls)


async def test_an_engine_starts_anew_with_other_arguments_and_is_put_back() -> None:
    sandbox = Sandbox(engine_args={"profile": "a100-80gb-llama-3.1-8b", "max_num_seqs": 5})
    async with PlatformStage() as stage:
        await stage.start(sandbox, 1)
        home = stage.home
        await stage.act(SetPolicy(("routing.profile=round_robin",)))
        await stage.act(EngineArguments({"max_num_seqs": 3}))
        changed = await stage.observe()
        assert _batches(changed) == [3]
        assert changed.profile == "round_robin"
        await stage.act(Calls((Shape("after"),), count=2))
        seen = await stage.observe()
        assert [call.ok for call in seen.calls] == [True, True]
        assert all(step.rows for step in seen.steps["w-1"])
        await stage.act(Cordon("w-1"))
        await stage.start(sandbox, 1)
        put_back = await stage.observe()
        assert _batches(put_back) == [5]
        assert not put_back.snapshot.workers[0].cordoned
        assert put_back.profile == "prefix_aware"
        assert (stage.home, stage.starts) == (home, 1)


def _batches(seen: Observation) -> list[int]:
    return [worker.info.model.max_num_seqs for worker in seen.snapshot.workers if worker.info and worker.info.model]


async def test_a_lesson_whose_check_can_never_fail_is_found_out(tmp_path: Path) -> None:
    folder = write_new("12-mine", tmp_path)
    file = folder / "lesson.toml"
    text = file.read_text().replace("open = true\nequals = 0", "equals = 1").replace("open = true\n", "")
    file.write_text(text)
    async with PlatformStage() as stage:
        faults = await verify(load(folder), stage, lambda _: None)
    assert faults == [
        f"12-mine, {state}, {step}: its check holds before anything is done"
        for state in ("fresh", "dirty")
        for step in ("break", "repair")
    ]
