"""What every ``contracts.call.Router`` does, whichever way it is hosted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from control_plane.contracts.errors import InferDeckError, InvalidRequest, NotFound, RequestRefused, Unavailable
from control_plane.contracts.model_choice import ModelAsk, ModelChoice, PromptText
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.contracts.routing import Routing
from control_plane.contracts.worker import FinishReason
from tests.integration.router.rig import MODEL, Rig, WaitingSink, remote_rig, rig, until, worker_requests
from tests.scripted_worker import ScriptedServer, scripted_server
from workers.tokenizer_bundle import tokenizer_hash


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedServer]:
    async with scripted_server(delay_s=0.002, total_blocks=4096) as server:
        yield server


@pytest.fixture(params=["embedded", "remote"])
async def routed(request: pytest.FixtureRequest, worker: ScriptedServer) -> AsyncIterator[Rig]:
    async with (rig if request.param == "embedded" else remote_rig)([worker]) as made:
        yield made


async def test_a_stream_arrives_token_by_token_and_ends_once(routed: Rig) -> None:
    handle, sink = routed.submit({"text": "one two three", "tokens": 12})
    await sink.begun()
    assert handle.worker_id == "scripted-1"
    await sink.end()
    assert sink.error is None
    assert len(sink.deltas) >= 12
    assert sink.tokens == 12
    done = sink.deltas[-1].done
    assert done is not None
    assert done.output_tokens == 12
    assert sum(delta.done is not None for delta in sink.deltas) == 1


async def test_a_plain_call_gets_the_same_text_in_one_piece(routed: Rig) -> None:
    _, streamed = routed.submit({"text": "the quick brown fox"})
    _, plain = routed.submit({"text": "the quick brown fox"}, stream=False)
    await streamed.end()
    await plain.end()
    assert plain.text == streamed.text == "the quick brown fox"
    assert len(plain.deltas) == 1


async def test_every_choice_ends(routed: Rig) -> None:
    _, sink = routed.submit({"tokens": 5}, n=3)
    await sink.end()
    finishes = {delta.choice: delta.finish for delta in sink.deltas if delta.finish is not None}
    assert set(finishes) == {0, 1, 2}
    assert sum(len(d.token_ids) for d in sink.deltas if d.choice == 1) == 5
    assert sink.deltas[-1].done is not None
    assert sink.deltas[-1].done.output_tokens == 15


async def test_the_reason_of_the_end_is_the_workers(routed: Rig) -> None:
    _, sink = routed.submit({"tokens": 50}, max_tokens=4)
    await sink.end()
    assert sink.deltas[-1].finish is not None
    assert sink.deltas[-1].finish.reason is FinishReason.LENGTH


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_the_worker_and_hears_nothing_more(
    routed: Rig, worker: ScriptedServer, stream: bool
) -> None:
    handle, sink = routed.submit({"tokens": 500, "delay_s": 0.01}, stream=stream)
    await until(lambda: worker.engine.load().running == 1)
    if stream:
        await sink.begun()
    handle.cancel("client_left")
    handle.cancel("client_left")
    heard = len(sink.deltas)
    await until(lambda: worker.engine.load().running == 0)
    assert await worker_requests(worker.address) == []
    assert not sink.ended.is_set()
    assert len(sink.deltas) == heard


async def test_a_cancel_right_after_the_submission_never_runs_on(routed: Rig, worker: ScriptedServer) -> None:
    handle, sink = routed.submit({"tokens": 500})
    handle.cancel("client_left")
    _, other = routed.submit({"tokens": 2})
    await other.end()
    assert worker.engine.load().running == 0
    assert sink.deltas == []


async def test_cancelling_what_is_over_does_nothing(routed: Rig) -> None:
    handle, sink = routed.submit({"tokens": 1})
    await sink.end()
    handle.cancel("client_left")


async def test_an_unknown_model_is_refused_at_once(routed: Rig, worker: ScriptedServer) -> None:
    with pytest.raises(NotFound) as caught:
        routed.submit(model="nope")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(NotFound):
        await routed.router.tokenizer_files("nope")
    assert worker.engine.load().prompt_tokens == 0


async def test_a_call_that_can_never_fit_is_refused_at_once(routed: Rig, worker: ScriptedServer) -> None:
    with pytest.raises(InvalidRequest) as caught:
        routed.submit(max_tokens=worker.model.max_context)
    assert caught.value.code == "context_length_exceeded"


async def test_what_the_worker_refuses_as_wrong_comes_through_the_sink(routed: Rig) -> None:
    _, sink = routed.submit({"refuse": "invalid_request"})
    await sink.end()
    assert isinstance(sink.error, RequestRefused)
    assert sink.error.param == "script"
    assert sink.deltas == []


async def choice(routed: Rig, model: str, asked: str = "hi", **more: Any) -> ModelChoice | InferDeckError:
    """What the router says, at once or later."""
    told: asyncio.Future[ModelChoice | InferDeckError] = asyncio.get_running_loop().create_future()
    routed.router.select(ModelAsk(model, lambda: PromptText(asked, len(asked)), **more), told.set_result)
    async with asyncio.timeout(20):
        return await told


async def test_names_of_the_policy_lead_to_models(routed: Rig) -> None:
    assert await choice(routed, MODEL) == ModelChoice(MODEL, MODEL)
    routes = {
        "smart": ModelRoute(target=MODEL),
        "auto": ModelRoute(small=MODEL, large="empty"),
        MODEL: ModelRoute(target="empty"),
        "empty": ModelRoute(fallback=("smart",)),
    }
    routed.fleet.route(Routing(models=routes))
    await until(lambda: (routed.router.routes() or ModelRoutes()).names() == set(routes))
    known = routed.router.routes()
    assert known is not None
    assert set(known.leading()) == {"smart", "auto"}, "a model's name is its own"
    assert await choice(routed, "smart") == ModelChoice("smart", MODEL, f"smart is {MODEL}", names=("smart",))
    for words in ("prove the theorem", "prove the theorem" + " and so on" * 1000):
        found = await choice(routed, "auto", words)
        assert isinstance(found, ModelChoice)
        assert (found.model, found.instead_of) == (MODEL, "empty"), "the large one has no worker"
        assert found.score is not None
        assert found.score.total >= found.threshold
    found = await choice(routed, "auto", override="large")
    assert isinstance(found, ModelChoice)
    assert found.score is None
    assert isinstance(await choice(routed, "nope"), NotFound)
    assert isinstance(await choice(routed, MODEL, override="nope"), InvalidRequest)


async def test_models_are_listed_with_and_without_workers(routed: Rig) -> None:
    views = {view.name: view for view in routed.router.models()}
    assert views[MODEL].ready_workers == 1
    assert views["empty"].ready_workers == 0
    assert routed.router.ready()


async def test_the_tokenizer_comes_from_a_worker_and_is_what_it_goes_by(routed: Rig, worker: ScriptedServer) -> None:
    bundle = await routed.router.tokenizer_files(MODEL)
    files = worker.engine.tokenizer_files()
    assert bundle.files == {file.name: file.data for file in files}
    assert bundle.hash == tokenizer_hash(files) == worker.model.tokenizer_hash
    assert (bundle.max_context, bundle.vocab_size) == (worker.model.max_context, worker.model.vocab_size)
    assert await routed.router.tokenizer_files(MODEL) is bundle


async def test_a_tokenizer_without_a_worker_is_unavailable(routed: Rig) -> None:
    with pytest.raises(Unavailable):
        await routed.router.tokenizer_files("empty")


async def test_many_at_once_do_not_mix(routed: Rig) -> None:
    sinks: list[tuple[str, WaitingSink]] = []
    for index in range(60):
        text = f"answer number {index}"
        sinks.append((text, routed.submit({"text": text}, stream=index % 3 != 0)[1]))
    await asyncio.gather(*(sink.end() for _, sink in sinks))
    assert [sink.text for _, sink in sinks] == [text for text, _ in sinks]
    routed.check_idle()
