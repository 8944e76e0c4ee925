"""The prefix index over real streams: told by a simulated worker's events, estimated for a scripted one."""

from __future__ import annotations

from pathlib import Path

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.kv_belief import KvBelief
from control_plane.fleet.worker_client import WorkerClient
from tests.integration.router.rig import TOKENIZER, Rig, rig, until
from tests.scripted_worker import scripted_server, scripted_worker
from workers.kv_watch import NO_EVENTS

SIM = {"engine": "sim", "profile": "h100-llama-3.1-8b", "speed": 100.0, "max_context": 4096, "kv_events": True}
SHARED = "You are a helpful assistant. " * 20


async def ask(made: Rig, prompt: str, **more: object) -> RequestView:
    handle, sink = made.submit(prompt=prompt, max_tokens=8, **more)
    await sink.end()
    assert sink.error is None
    name = handle.call.request_id
    await until(lambda: name in made.fleet.ended, f"the report of {name}")
    return made.fleet.ended[name]


def belief(made: Rig, worker_id: str) -> KvBelief:
    return made.router.dispatcher.targets.by_worker(worker_id).belief()


async def told_of(made: Rig, worker_id: str, prompt: str, salt: str = "") -> None:
    """Until the index holds all of a prompt that was sent there."""
    shelf = made.router.dispatcher.targets.by_worker(worker_id).shelf
    names = block_hashes(TOKENIZER.encode(prompt), 16, salt)
    await until(lambda: all(name in shelf for name in names), f"the events of {worker_id}")


async def test_what_events_tell_is_what_is_predicted_and_what_is_cached(tmp_path: Path) -> None:
    async with (
        scripted_worker(tmp_path, worker_id="a", **SIM) as a,
        scripted_worker(tmp_path, worker_id="b", **SIM) as b,
        rig([a, b], profile="prefix_aware") as made,
    ):
        await until(lambda: belief(made, "a").told and belief(made, "b").told, "both tell")
        views = []
        for number in range(6):
            views.append(await ask(made, f"{SHARED}{number}"))
            await told_of(made, views[-1].worker_id, f"{SHARED}{number}")
        home = views[0].worker_id
        assert {view.worker_id for view in views} == {home}
        assert views[0].predicted_cached_tokens == views[0].cached_tokens == 0
        assert [view.predicted_cached_tokens for view in views] == [view.cached_tokens for view in views]
        assert all(view.cached_tokens > 0.7 * view.prompt_tokens for view in views[1:])

        # What was lost on the way is made up for by a snapshot.
        client = WorkerClient({"a": a, "b": b}[home].address)
        await client.inject(Failure(FailureKind.DROP_EVENTS), heal=False)
        await ask(made, SHARED + "and then " * 20)
        await client.inject(None, heal=True)
        await client.close()
        await ask(made, SHARED + "once again " * 20)
        await until(lambda: made.router.dispatcher.targets.by_worker(home).mirror.gaps > 0, "the gap")
        last = await ask(made, f"{SHARED}0")
        assert last.predicted_cached_tokens == last.cached_tokens > 0

        def told() -> set[str]:
            beliefs = [each for report in made.fleet.reports for each in report.kv_beliefs]
            return {each.worker_id for each in beliefs if each.told and (each.blocks or each.worker_id != home)}

        await until(lambda: told() == {"a", "b"}, "what the index holds, in the reports")
        made.check_idle()


async def test_tenants_do_not_share_and_the_index_says_so(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path, worker_id="a", **SIM) as a, rig([a], profile="prefix_aware") as made:
        await until(lambda: belief(made, "a").told)
        found = []
        for salt in ("one", "two", "one", "two"):
            view = await ask(made, SHARED, salt=salt)
            found.append((view.predicted_cached_tokens == view.cached_tokens, view.cached_tokens > 0))
            await told_of(made, "a", SHARED, salt)
        assert found == [(True, False), (True, False), (True, True), (True, True)]


async def test_without_events_the_routers_own_picks_serve() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.001) as a,
        scripted_server(worker_id="b", delay_s=0.001) as b,
        rig([a, b], profile="prefix_aware") as made,
    ):
        views = [await ask(made, f"{SHARED}{number}") for number in range(4)]
        assert len({view.worker_id for view in views}) == 1
        assert views[0].predicted_cached_tokens == 0
        assert [view.predicted_cached_tokens for view in views[1:]] == [view.cached_tokens for view in views[1:]]
        assert all(view.cached_tokens > 0 for view in views[1:])
        known = belief(made, views[0].worker_id)
        assert (known.told, known.blocks > 0, known.unavailable) == (False, True, NO_EVENTS)


async def test_a_new_instance_is_known_to_have_nothing_before_anything_is_sent_to_it(tmp_path: Path) -> None:
    """R04, with a real process."""
    names = block_hashes(TOKENIZER.encode(SHARED), 16)
    async with rig(profile="prefix_aware") as made:
        async with scripted_worker(tmp_path, worker_id="a", **SIM) as first:
            await made.fleet.add(first)
            await made.ready()
            await ask(made, SHARED)
            await told_of(made, "a", SHARED)
        async with scripted_worker(tmp_path, worker_id="a", **SIM) as second:
            await made.fleet.add(second)
            await until(lambda: belief(made, "a").instance_id == second.announcement.instance_id)
            await made.ready()
            assert not set(names) & set(made.router.dispatcher.targets.index._holders)
            view = await ask(made, SHARED)
            assert (view.predicted_cached_tokens, view.cached_tokens) == (0, 0)
