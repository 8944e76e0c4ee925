from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import DropReason, InferDeckError, InternalError, NotFound, Unavailable
from control_plane.gateway.prompt import models
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.prompt.models import ModelPrompts, Waiter
from tests.unit.gateway.fakes import StubRouter, until
from tests.unit.gateway.tokenizers import bundle

LOADING = Unavailable("still loading", reason=DropReason.MODEL_LOADING)


class Answers:
    def __init__(self) -> None:
        self.all: list[ModelPrompt | InferDeckError] = []
        self._changed = asyncio.Event()

    def add(self, answer: ModelPrompt | InferDeckError) -> None:
        self.all.append(answer)
        self._changed.set()

    def waiter(self, seconds: float = 60.0) -> Waiter:
        return Waiter(self.add, time.monotonic() + seconds)

    async def wait(self, count: int = 1) -> None:
        async with asyncio.timeout(20):
            while len(self.all) < count:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def router() -> StubRouter:
    return StubRouter({"m": bundle()})


@pytest.fixture
async def prompts(router: StubRouter, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelPrompts]:
    monkeypatch.setattr(models, "_RETRY_S", 0.01)
    monkeypatch.setattr(models, "_WARM_S", 0.01)
    prompts = ModelPrompts(router)
    yield prompts
    prompts.stop()


async def test_files_are_read_once_for_all_who_wait(router: StubRouter, prompts: ModelPrompts) -> None:
    answers = Answers()
    assert prompts.get("m") is None
    for _ in range(5):
        prompts.wait("m", answers.waiter())
    assert prompts.waiting == 5
    await answers.wait(5)
    assert len(router.asked) == 1
    assert len({id(answer) for answer in answers.all}) == 1
    assert prompts.get("m") is answers.all[0]
    assert prompts.waiting == 0


async def test_one_tokenizer_serves_all_models_that_have_it(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["n"] = bundle()
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await answers.wait(1)
    prompts.wait("n", answers.waiter())
    await answers.wait(2)
    assert answers.all[0] is answers.all[1]


async def test_a_call_waits_for_its_models_first_worker(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = LOADING
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await until(lambda: len(router.asked) >= 3)
    assert answers.all == []
    router.bundles["m"] = bundle()
    await answers.wait()
    assert isinstance(answers.all[0], ModelPrompt)


async def test_a_call_waits_no_longer_than_it_may_and_is_told_why(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = LOADING
    impatient, patient = Answers(), Answers()
    prompts.wait("m", impatient.waiter(0.0))
    prompts.wait("m", patient.waiter())
    await impatient.wait()
    assert impatient.all == [LOADING]
    assert patient.all == []
    assert prompts.waiting == 1


async def test_the_search_ends_with_the_last_call_that_wanted_it(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = LOADING
    answers = Answers()
    waiter = answers.waiter()
    prompts.wait("m", waiter)
    await until(lambda: router.asked)
    prompts.leave("m", waiter)
    asked = len(router.asked)
    await asyncio.sleep(0.05)
    assert len(router.asked) == asked
    assert prompts.waiting == 0
    prompts.leave("m", waiter)


async def test_a_model_that_does_not_exist_is_told_at_once(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = missing = NotFound("no", reason=DropReason.MODEL_NOT_FOUND, param="model")
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await answers.wait()
    assert answers.all == [missing]


async def test_files_that_cannot_be_used_are_our_fault(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = broken = bundle()
    broken.files["tokenizer.json"] = b"{}"
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await answers.wait()
    assert isinstance(answers.all[0], InternalError)


async def test_a_new_tokenizer_is_found_in_the_background(
    router: StubRouter, prompts: ModelPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await answers.wait()
    monkeypatch.setattr(models, "FRESH_S", -1.0)
    assert prompts.get("m") is answers.all[0]
    router.bundles["m"] = bundle("unigram")
    await until(lambda: prompts.get("m") is not answers.all[0])
    found = prompts.get("m")
    assert found is not None
    assert found.hash == "hash-of-unigram"


async def test_a_known_tokenizer_outlives_its_workers(
    router: StubRouter, prompts: ModelPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers()
    prompts.wait("m", answers.waiter())
    await answers.wait()
    router.bundles["m"] = LOADING
    monkeypatch.setattr(models, "FRESH_S", -1.0)
    for _ in range(5):
        assert prompts.get("m") is answers.all[0]
        await asyncio.sleep(0.005)


async def test_models_with_workers_are_ready_before_anyone_asks(router: StubRouter, prompts: ModelPrompts) -> None:
    assert not prompts.warm
    warming = asyncio.create_task(prompts.keep_warm())
    await until(lambda: prompts.warm)
    assert prompts.get("m")
    warming.cancel()


async def test_a_gateway_is_not_ready_before_it_has_read_the_tokenizers_of_all_models(
    router: StubRouter, prompts: ModelPrompts
) -> None:
    """One that a worker cannot give keeps nobody waiting, and one that comes later makes nothing cold again."""
    router.bundles = {}
    assert not prompts.warm
    router.bundles = {"m": bundle(), "n": LOADING}
    prompts.wait("m", Waiter(lambda _: None, 0.0))
    await until(lambda: prompts.get("m"))
    assert not prompts.warm
    prompts.wait("n", Waiter(lambda _: None, time.monotonic() + 60.0))
    await until(lambda: prompts.warm)
    router.bundles["later"] = LOADING
    assert prompts.warm


async def test_a_model_whose_tokenizer_takes_too_long_keeps_no_gateway_from_the_others(
    router: StubRouter, prompts: ModelPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(model: str) -> TokenizerBundle:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(router, "tokenizer_files", never)
    monkeypatch.setattr(models, "_PATIENCE_S", 0.05)
    warming = asyncio.create_task(prompts.keep_warm())
    await asyncio.sleep(0.02)
    assert not prompts.warm
    await until(lambda: prompts.warm)
    warming.cancel()


async def test_who_leaves_does_not_end_what_the_gateway_reads_for_itself(
    router: StubRouter, prompts: ModelPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, go = router.tokenizer_files, asyncio.Event()

    async def slow(model: str) -> TokenizerBundle:
        await go.wait()
        return await files(model)

    monkeypatch.setattr(router, "tokenizer_files", slow)
    warming = asyncio.create_task(prompts.keep_warm())
    await asyncio.sleep(0.02)
    waiter = Waiter(lambda _: None, time.monotonic() + 60.0)
    prompts.wait("m", waiter)
    prompts.leave("m", waiter)
    warming.cancel()
    go.set()
    await until(lambda: prompts.get("m"))
    assert router.asked == ["m"]


@pytest.mark.parametrize("refused", [True, False])
async def test_a_model_whose_tokenizer_is_broken_is_not_tried_again_all_the_time(
    router: StubRouter, prompts: ModelPrompts, refused: bool
) -> None:
    broken = bundle()
    broken.files["tokenizer.json"] = b"{}"
    router.bundles["m"] = InternalError("no") if refused else broken
    router.bundles["n"] = bundle("unigram")
    warming = asyncio.create_task(prompts.keep_warm())
    await until(lambda: prompts.get("n"))
    await asyncio.sleep(0.05)
    assert router.asked.count("m") == 1
    warming.cancel()


async def test_who_hears_of_a_failure_may_wait_once_more(router: StubRouter, prompts: ModelPrompts) -> None:
    router.bundles["m"] = NotFound("no", reason=DropReason.MODEL_NOT_FOUND, param="model")
    answers = Answers()

    def again(refused: ModelPrompt | InferDeckError) -> None:
        router.bundles["m"] = bundle()
        prompts.wait("m", answers.waiter())

    prompts.wait("m", Waiter(again, time.monotonic() + 60.0))
    await answers.wait()
    assert isinstance(answers.all[0], ModelPrompt)


async def test_names_that_a_caller_made_up_are_not_kept(
    router: StubRouter, prompts: ModelPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(model: str) -> TokenizerBundle:
        if model == "starting":
            raise LOADING
        raise NotFound("no", reason=DropReason.MODEL_NOT_FOUND, param="model")

    monkeypatch.setattr(router, "tokenizer_files", unknown)
    answers = Answers()
    for number in range(3):
        prompts.wait(f"made-up-{number}", answers.waiter())
    await answers.wait(3)
    leaver = answers.waiter()
    prompts.wait("starting", leaver)
    await asyncio.sleep(0.02)
    prompts.leave("starting", leaver)
    assert prompts._searches == {}
    prompts.wait("m", answers.waiter())
    await answers.wait(4)
    assert list(prompts._searches) == ["m"], "it is served, and was asked for"


def trip(answer: ModelPrompt | InferDeckError) -> None:
    raise ZeroDivisionError


async def test_a_call_that_trips_over_its_answer_keeps_no_other_from_it(
    router: StubRouter, prompts: ModelPrompts, caplog: pytest.LogCaptureFixture
) -> None:
    answers = Answers()
    prompts.wait("m", Waiter(trip, time.monotonic() + 60.0))
    prompts.wait("m", answers.waiter())
    await answers.wait()
    assert isinstance(answers.all[0], ModelPrompt)
    assert "a call could not be told of its model's tokenizer" in caplog.messages


async def test_a_call_that_trips_over_the_end_of_its_time_does_not_end_the_search(
    router: StubRouter, prompts: ModelPrompts
) -> None:
    router.bundles["m"] = LOADING
    impatient, patient = Answers(), Answers()
    prompts.wait("m", Waiter(trip, 0.0))
    prompts.wait("m", impatient.waiter(0.0))
    prompts.wait("m", patient.waiter())
    await impatient.wait()
    router.bundles["m"] = bundle()
    await patient.wait()
    assert isinstance(patient.all[0], ModelPrompt)


async def test_a_call_that_trips_when_nobody_is_to_wait_any_longer_keeps_no_other_waiting(
    router: StubRouter, prompts: ModelPrompts
) -> None:
    router.bundles["m"] = LOADING
    answers = Answers()
    prompts.wait("m", Waiter(trip, time.monotonic() + 60.0))
    prompts.wait("m", answers.waiter())
    prompts.give_up(LOADING)
    assert answers.all == [LOADING]
