"""The gateway with the real router and worker processes, whose engine is scripted, under inputs that nobody foresaw.

Every call is given a time; at the end everything is idle, and the workers are the processes that they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import schemathesis
import uvloop
from hypothesis import example, given
from hypothesis import strategies as st
from schemathesis import checks

from control_plane.gateway.history.history import History
from control_plane.store import Database
from control_plane.store.journal import Journal
from tests.fuzz.bodies import calls
from tests.fuzz.bounds import bounded
from tests.integration.gateway.rig import KEY, Answer, Keys, events, joined, serving
from tests.integration.gateway.test_end_to_end import Platform
from tests.integration.router.rig import MODEL
from tests.integration.router.rig import rig as routing
from tests.scripted_worker import ScriptedWorker, scripted_worker

T = TypeVar("T")
CALL_S = 30.0
DOCUMENTED = {200, 400, 404}


class Background:
    """A platform on a loop in a thread of its own. ``pids`` are its workers'."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = contextlib.AsyncExitStack()
        self.workers: list[ScriptedWorker] = []
        self.here = self.run(self._start(), 120.0)

    async def _start(self) -> Platform:
        for name in ("a", "b"):
            # Room for the longest script, 96 bytes in hexadecimal, and its answer, a token a byte.
            worker = scripted_worker(worker_id=name, max_context=512, delay_s=0.0)
            self.workers.append(await self._stack.enter_async_context(worker))
        routed = await self._stack.enter_async_context(routing(self.workers))
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="inferdeck-test-")))
        database = Database.open("", folder / "deck.db", durable=True)
        self._stack.callback(database.close)
        history = History(database, Journal.open(folder / "journals", "g1"))
        gateway, http, _, _ = await self._stack.enter_async_context(serving(routed.router, Keys(), history=history))
        return Platform(routed, gateway, http)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_S) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_s)

    def close(self) -> None:
        self.run(self._stack.aclose(), 60.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def platform() -> Iterator[Background]:
    made = Background()
    pids = [worker.pid for worker in made.workers]
    try:
        yield made
        made.run(made.here.idle(*(worker.address for worker in made.workers)))
        assert [worker.process.returncode for worker in made.workers] == [None, None]
        assert [worker.announcement.pid for worker in made.workers] == pids
        assert made.here.gateway.held == 0
    finally:
        made.close()


async def post(here: Platform, path: str, body: bytes) -> Answer:
    response = await here.http.post(path, content=body, headers={"content-type": "application/json"})
    return Answer(response.status_code, dict(response.headers), response.content)


@given(calls(MODEL))
@bounded(150)
def test_f4_any_body_has_a_documented_answer(platform: Background, call: tuple[str, bytes]) -> None:
    """F4: only documented statuses, errors of the one shape, and no worker restarts."""
    answer = platform.run(post(platform.here, *call))
    assert answer.status in DOCUMENTED, (answer.status, answer.body)
    if answer.status != 200:
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["code"]
    elif answer.headers["content-type"] == "text/event-stream":
        assert events(answer.body)[-1] == "[DONE]"
    else:
        assert answer.json["choices"]


async def text_of(here: Platform, script: dict[str, Any], **fields: Any) -> list[tuple[str, str, Any]]:
    """Text, finish reason and usage of the answer, streamed and whole."""
    streamed, plain = await asyncio.gather(
        here.chat(script, stream=True, stream_options={"include_usage": True}, **fields),
        here.chat(script, **fields),
    )
    assert (streamed.status, plain.status) == (200, 200), (streamed.body, plain.body)
    found = events(streamed.body)
    assert found[-1] == "[DONE]"
    choice = plain.json["choices"][0]
    usages = [found[-2]["usage"], plain.json["usage"]]
    for usage in usages:
        # Whether a prompt was cached depends on what came before.
        del usage["prompt_tokens_details"]
    return [
        (joined(streamed.body), found[-3]["choices"][0]["finish_reason"], usages[0]),
        (choice["message"]["content"], choice["finish_reason"], usages[1]),
    ]


def cut(data: bytes, cuts: list[int]) -> list[str]:
    """The data as pieces in hexadecimal, cut at these places."""
    places = [0, *sorted({place % (len(data) + 1) for place in cuts}), len(data)]
    return [data[start:end].hex() for start, end in itertools.pairwise(places) if end > start]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=24)
FEW_LETTERS = st.text("abé😀", min_size=1, max_size=24)
STOPS = st.lists(st.text("abé😀", min_size=1, max_size=4), min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 1000), max_size=8)


def reference(text: str, stops: list[str]) -> tuple[str, bool]:
    """The text up to the stop string that is whole first when it is read character by character."""
    for end in range(1, len(text) + 1):
        ends = [stop for stop in stops if text[:end].endswith(stop)]
        if ends:
            return text[: end - max(map(len, ends))], True
    return text, False


@given(ANY_TEXT, CUTS, CUTS)
@bounded(60)
def test_f1_any_cut_of_any_text_is_the_text(
    platform: Background, text: str, cuts: list[int], others: list[int]
) -> None:
    """F1: the joined stream, the whole answer and the usage do not depend on where the text was cut into tokens."""

    async def one() -> None:
        usages = []
        for places in (cuts, others):
            for found, finish, usage in await text_of(platform.here, {"bytes": cut(text.encode(), places)}):
                assert (found, finish) == (text, "stop")
                usages.append(usage["completion_tokens"])
        # A token is a byte here, and one more ends the answer.
        assert len(set(usages)) == 1

    platform.run(one())


@given(FEW_LETTERS, STOPS, CUTS)
@example("😀" * 24, ["é"], [*range(1, 96, 12)])
@bounded(100)
def test_f2_a_stop_cuts_where_reading_by_character_does(
    platform: Background, text: str, stops: list[str], cuts: list[int]
) -> None:
    """F1 and F2: random text and stop strings, cut anywhere, against a reference scanner, streamed and whole."""
    wanted, _ = reference(text, stops)
    for found, finish, _ in platform.run(text_of(platform.here, {"bytes": cut(text.encode(), cuts)}, stop=stops)):
        assert (found, finish) == (wanted, "stop")


api = schemathesis.pytest.from_fixture("described")


@pytest.fixture(scope="module")
def described(platform: Background) -> Any:
    return schemathesis.openapi.from_url(f"{platform.here.gateway.url}/openapi.json")


checks.load_all_checks()
# A body that the document allows may still be refused: for how two parameters go together, or the model's length.
CHECKS = [check for check in checks.CHECKS.get_all() if check.__name__ != "positive_data_acceptance"]


Outcomes = dict[str, set[int]]

NEVER = "POST /v1/responses/{response_id}/cancel"
"""What no call can have done."""


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    """The statuses that each operation was answered with."""
    seen: Outcomes = {}
    yield seen
    never = {operation for operation, statuses in seen.items() if not any(status < 300 for status in statuses)}
    assert never <= {NEVER}, "operations that were never done"


async def kept(here: Platform) -> dict[str, str]:
    """Ids of a conversation, an item in it, and a response."""
    items = [{"role": "user", "content": "a"}]
    made = (await here.http.post("/v1/conversations", json={"items": items})).json()["id"]
    found = (await here.http.get(f"/v1/conversations/{made}/items")).json()["data"]
    response = await here.http.post("/v1/responses", json={"model": MODEL, "input": "a", "max_output_tokens": 1})
    return {"conversation_id": made, "item_id": found[0]["id"], "response_id": response.json()["id"], "model": MODEL}


@api.parametrize()
@bounded(8)
def test_openapi_whatever_its_document_allows_and_does_not(platform: Background, outcomes: Outcomes, case: Any) -> None:
    """No server error, documented statuses and shapes, and what the document does not allow is refused. What it allows
    is done, at least once."""
    if isinstance(case.body, dict) and isinstance(model := case.body.get("model"), str) and 0 < len(model) <= 256:
        case.body["model"] = MODEL
    if case.path_parameters and case.meta is not None and case.meta.generation.mode.is_positive:
        ids = platform.run(kept(platform.here))
        case.path_parameters = {name: ids[name] for name in case.path_parameters}
    response = case.call_and_validate(headers={"Authorization": f"Bearer {KEY}"}, checks=CHECKS, timeout=CALL_S)
    outcomes.setdefault(case.operation.label, set()).add(response.status_code)
