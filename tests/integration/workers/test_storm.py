"""Calls that are cancelled at any moment, in any way, by routers that come and go: nothing may be left over."""

from __future__ import annotations

import asyncio
import random

import pytest

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.worker import FinishReason
from tests.scripted_worker import scripted_server
from tests.worker_client import Link, WorkerClient, script, worker_client

CALLS = 120
WAYS = ("none", "none", "number", "number", "id", "twice", "at_once", "unknown")


async def one_call(dice: random.Random, client: WorkerClient, link: Link, name: str) -> None:
    """A call that is left alone or aborted, before, during or after its life; it must end exactly once."""
    stream = dice.random() < 0.7
    prompt = script(tokens=dice.randrange(1, 30), prefill_s=dice.choice([0, 0.01]), stall_s=dice.choice([0, 0.02]))
    await asyncio.sleep(dice.random() * 0.4)
    reply = await link.generate(
        prompt, request_id=name, stream=stream, n=dice.choice([1, 1, 3]), priority=dice.randrange(-2, 3), max_tokens=99
    )
    way = dice.choice(WAYS)
    if way != "at_once":
        await asyncio.sleep(dice.random() * 0.05)
    if way in ("number", "twice", "at_once"):
        await link.abort(link.number_of(reply))
    if way in ("id", "twice"):
        await client.stub.Abort(pb.AbortRequest(request_id=name))
    if way == "unknown":
        await client.stub.Abort(pb.AbortRequest(request_id=name + "?"))
        await link.abort(10**9)
    await reply.end()
    assert reply.last.error is None
    done = reply.last.done
    assert done is not None
    finishes = [delta.finish for delta in reply.deltas if delta.finish is not None]
    assert done.output_tokens == sum(finish.output_tokens for finish in finishes)
    if way in ("none", "unknown"):
        assert FinishReason.ABORT not in {finish.reason for finish in finishes}
    if stream:
        assert done.output_tokens == sum(len(delta.token_ids) for delta in reply.deltas)


async def passing_router(dice: random.Random, client: WorkerClient, name: str) -> None:
    """A router that starts some calls and goes away without a word, or by closing its stream."""
    async with client.link(name) as link:
        for number in range(dice.randrange(1, 6)):
            await link.generate(script(tokens=4000), request_id=f"{name}-{number}", max_tokens=4000)
        await asyncio.sleep(dice.random() * 0.1)
        if dice.random() < 0.5:
            await link.close()
            async with asyncio.timeout(20):
                await link.lost.wait()


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_leaves_nothing(seed: int) -> None:
    dice = random.Random(seed)
    async with (
        scripted_server(delay_s=0.001, max_num_seqs=12, total_blocks=256, max_context=4096) as server,
        worker_client(server.address) as client,
        client.link("one") as one,
        client.link("two") as two,
    ):
        calls = [one_call(dice, client, dice.choice([one, two]), f"call-{number}") for number in range(CALLS)]
        passing = [passing_router(dice, client, f"passing-{number}") for number in range(6)]
        await asyncio.gather(*calls, *passing)
        idle = await client.until_idle()
        assert idle.finished >= CALLS
        assert not (await client.stub.ListRequests(pb.ListRequestsRequest())).requests
        assert len(server.server.calls) == 0
        assert len((await (await one.generate(max_tokens=3)).end()).token_ids()) == 3
