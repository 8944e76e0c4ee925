from __future__ import annotations

import asyncio

import pytest

from control_plane.contracts.errors import InternalError, Unavailable
from control_plane.contracts.fleet import Endpoint, WorkerPhase
from control_plane.contracts.worker import ModelInfo, WorkerInfo
from control_plane.router.forwarder.tokenizer import tokenizer_hash
from control_plane.router.tokenizers import Tokenizers
from workers.engine.base import TokenizerFile
from workers.tokenizer_bundle import tokenizer_hash as workers_hash


def endpoint(name: str, tokenizer: str = "h1", phase: WorkerPhase = WorkerPhase.READY) -> Endpoint:
    model = ModelInfo("m", max_context=512, vocab_size=99, tokenizer_hash=tokenizer)
    return Endpoint(name, f"{name}-i", name, "p", "m", phase, info=WorkerInfo(name, f"{name}-i", 1, model=model))


class Source:
    def __init__(self, *endpoints: Endpoint) -> None:
        self.endpoints = list(endpoints)
        self.broken: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.tokenizers = Tokenizers(lambda model: self.endpoints, self.fetch)

    async def fetch(self, endpoint: Endpoint, expected: str) -> dict[str, bytes]:
        address = endpoint.address
        self.asked.append((address, expected))
        await asyncio.sleep(0)
        if address in self.broken:
            raise InternalError("not the one that it goes by")
        return {"tokenizer.json": address.encode()}


async def test_it_is_fetched_once_however_many_ask() -> None:
    source = Source(endpoint("a"), endpoint("b"))
    bundles = await asyncio.gather(*(source.tokenizers.get("m") for _ in range(5)))
    assert source.asked == [("a", "h1")]
    assert {bundle.hash for bundle in bundles} == {"h1"}
    assert (bundles[0].files, bundles[0].max_context, bundles[0].vocab_size) == ({"tokenizer.json": b"a"}, 512, 99)


async def test_another_worker_is_asked_when_one_fails() -> None:
    source = Source(endpoint("a"), endpoint("b"))
    source.broken = {"a"}
    assert (await source.tokenizers.get("m")).files == {"tokenizer.json": b"b"}


async def test_workers_that_are_not_ready_are_not_asked() -> None:
    source = Source(endpoint("a", phase=WorkerPhase.STARTING))
    with pytest.raises(Unavailable):
        await source.tokenizers.get("m")
    assert source.asked == []


async def test_the_last_one_serves_on_while_no_worker_is_up() -> None:
    source = Source(endpoint("a"))
    first = await source.tokenizers.get("m")
    source.endpoints = []
    assert await source.tokenizers.get("m") is first


async def test_a_new_tokenizer_replaces_the_old_one_when_no_worker_has_that_any_more() -> None:
    source = Source(endpoint("a"))
    await source.tokenizers.get("m")
    source.endpoints = [endpoint("a"), endpoint("b", "h2")]
    assert (await source.tokenizers.get("m")).hash == "h1"
    source.endpoints = [endpoint("b", "h2")]
    assert (await source.tokenizers.get("m")).hash == "h2"


async def test_what_went_wrong_is_told_when_all_fail() -> None:
    source = Source(endpoint("a"))
    source.broken = {"a"}
    with pytest.raises(InternalError):
        await source.tokenizers.get("m")


def test_router_and_worker_make_the_same_hash() -> None:
    files = {"b.json": b"2", "a.json": b"", "c": b"\x00" * 9}
    assert tokenizer_hash(files) == workers_hash([TokenizerFile(name, data) for name, data in files.items()])
