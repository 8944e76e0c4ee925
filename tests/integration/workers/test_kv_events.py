"""KV events of a worker process, as a router hears them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.kv_events import KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.fleet.worker_client import WorkerClient
from control_plane.router.forwarder.kv_watch import KvWatch
from tests.scripted_worker import scripted_worker
from tests.worker_client import TOKENIZER, worker_client
from workers.kv_watch import NO_EVENTS

SIM = {"engine": "sim", "profile": "h100-llama-3.1-8b", "speed": 100.0, "max_context": 2048, "scripts": True}


class Router:
    """``calls`` is how a request gets there, ``client`` what a router asks besides."""

    def __init__(self, address: str, mirror: KvMirror | None = None) -> None:
        self.address = address
        self.client = WorkerClient(address)
        self.mirror = mirror or KvMirror()
        self.watch = KvWatch(self.mirror, lambda now_unix: self._news.set())
        self._news = asyncio.Event()

    async def follow(self) -> None:
        await self.watch.follow(self.address)

    async def ask(self, prompt: str) -> list[int]:
        """Returns the names of its blocks."""
        async with worker_client(self.address) as client, client.link() as link:
            reply = await link.generate(prompt, max_tokens=2)
            async with asyncio.timeout(20):
                await reply.ended.wait()
        return block_hashes(TOKENIZER.encode(prompt), 16)

    async def until(self, names: list[int]) -> None:
        assert names
        async with asyncio.timeout(20):
            while not set(names) <= self.mirror.hashes:
                self._news.clear()
                await self._news.wait()


async def test_a_router_follows_a_worker_through_a_gap_and_a_restart(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path, kv_events=True, **SIM) as worker:
        router = Router(worker.announcement.address)
        info = await router.client.info()
        assert (info.kv_events, info.kv_events_unavailable) == (True, "")
        assert info.model is not None
        assert info.model.block_size == 16
        following = asyncio.create_task(router.follow())
        first = await router.ask("first " * 40)
        await router.until(first)
        assert (router.mirror.instance_id, router.watch.watches) == (info.instance_id, 1)

        await router.client.inject(Failure(FailureKind.DROP_EVENTS), heal=False)
        second = await router.ask("second " * 40)
        await router.client.inject(None, heal=True)
        assert not set(second) & router.mirror.hashes
        await router.until([*first, *second, *(await router.ask("third " * 40))])
        assert (router.mirror.gaps > 0, router.watch.watches) == (True, 2)
        following.cancel()
        await asyncio.wait({following})
        await router.client.close()
        mirror = router.mirror
    async with scripted_worker(tmp_path, worker_id="again", kv_events=True, **SIM) as worker:
        router = Router(worker.announcement.address, mirror)
        following = asyncio.create_task(router.follow())
        fourth = await router.ask("fourth " * 40)
        await router.until(fourth)
        assert mirror.instance_id == worker.announcement.instance_id != info.instance_id
        assert not set(first) & mirror.hashes
        following.cancel()
        await asyncio.wait({following})
        await router.client.close()


@pytest.mark.parametrize(
    ("fields", "why"), [({}, NO_EVENTS), (SIM, "KV events are off: kv_events of the pool")], ids=["scripted", "off"]
)
async def test_a_worker_without_events_says_why(tmp_path: Path, fields: dict[str, object], why: str) -> None:
    async with scripted_worker(tmp_path, **fields) as worker:
        client = WorkerClient(worker.announcement.address)
        info = await client.info()
        assert (info.kv_events, info.kv_events_unavailable) == (False, why)
        watch = KvWatch(KvMirror())
        async with asyncio.timeout(20):
            await watch.follow(worker.announcement.address)
        assert (watch.mirror.instance_id, watch.mirror.unavailable, watch.watches) == (info.instance_id, why, 1)
        await client.close()


async def test_a_watch_goes_on_where_it_was_when_its_stream_breaks(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path, kv_events=True, **SIM) as worker:
        router = Router(worker.announcement.address)
        following = asyncio.create_task(router.follow())
        first = await router.ask("first " * 40)
        await router.until(first)
        following.cancel()
        await asyncio.wait({following})
        taken, snapshots = router.mirror.seq, list[KvSnapshot]()
        router.mirror._take = snapshots.append  # type: ignore[method-assign]
        second = await router.ask("second " * 40)
        assert not set(second) & router.mirror.hashes
        following = asyncio.create_task(router.follow())
        await router.until([*first, *second])
        assert (router.mirror.seq > taken, snapshots, router.mirror.gaps) == (True, [], 0)
        following.cancel()
        await asyncio.wait({following})
        await router.client.close()
