"""H03: endpoints that are told of and are not there, or not yet, or are somebody else's."""

from __future__ import annotations

import asyncio
import socket

from control_plane.contracts.fleet import Endpoint, WorkerPhase
from tests.integration.router.rig import MODEL, Rig, rig, until
from tests.scripted_worker import scripted_server


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def all_answered(made: Rig, count: int = 8) -> set[str]:
    """The workers that had them."""
    calls = [made.submit({"tokens": 2}) for _ in range(count)]
    for _, sink in calls:
        await sink.end()
        assert sink.error is None
    return {handle.worker_id for handle, _ in calls}


async def test_a_ghost_that_the_fleet_still_calls_ready_gets_nothing() -> None:
    async with scripted_server(worker_id="a", delay_s=0.002) as a, rig([a]) as made:
        address = f"127.0.0.1:{closed_port()}"
        made.fleet.workers["ghost"] = Endpoint("ghost", "ghost-1", address, "scripted", MODEL, WorkerPhase.READY)
        made.fleet.publish()
        await until(lambda: len(made.router.dispatcher.targets.candidates(MODEL)) == 2)
        assert await all_answered(made) == {"a"}


async def test_the_next_set_removes_one_whose_end_nobody_told() -> None:
    """Sets are whole: there is no event to be missed."""
    async with (
        scripted_server(worker_id="a", delay_s=0.002) as a,
        scripted_server(worker_id="b", delay_s=0.002) as b,
        rig([a, b]) as made,
    ):
        del made.fleet.workers["b"]
        made.fleet.publish()
        await until(lambda: made.router.dispatcher.targets.worker_ids() == {"a"})
        assert await all_answered(made) == {"a"}
        await until(lambda: len(made.router.dispatcher.targets.all()) == 1, "no link to it is left")


async def test_one_that_listens_but_has_not_generated_yet_is_neither_connected_nor_picked() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.002) as a,
        scripted_server(worker_id="b", delay_s=0.002) as b,
        rig([a]) as made,
    ):
        await made.fleet.add(b, phase=WorkerPhase.STARTING)
        await until(lambda: len(made.router.dispatcher.targets.candidates(MODEL)) == 2)
        assert await all_answered(made) == {"a"}
        assert made.router.dispatcher.targets.by_worker("b").link is None
        made.fleet.change("b", phase=WorkerPhase.READY)
        await made.ready(2)
        assert await all_answered(made, 12) == {"a", "b"}


async def test_with_no_live_worker_the_router_is_not_ready() -> None:
    async with rig() as made:
        address = f"127.0.0.1:{closed_port()}"
        made.fleet.workers["ghost"] = Endpoint("ghost", "ghost-1", address, "scripted", MODEL, WorkerPhase.READY)
        made.fleet.publish()
        await until(lambda: made.router.joined)
        await asyncio.sleep(0)
        assert not made.router.ready()
        async with scripted_server(worker_id="a") as a:
            await made.fleet.add(a)
            await until(made.router.ready)
