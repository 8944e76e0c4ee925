"""Keys, roles, policy and audit on a real platform: what the API says, and what the gateway does of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import openai
import pytest

from console.client import OperatorClient
from console.home import Target
from control_plane.contracts.access import AuditEntry, KeySpec, Role
from control_plane.contracts.errors import (
    Conflict,
    DropReason,
    Forbidden,
    InvalidRequest,
    NotFound,
    Unauthenticated,
)
from control_plane.contracts.fleet import WorkerPhase
from control_plane.contracts.policy import Limits
from control_plane.contracts.step import TraceMode
from tests.integration.fleet.rig import PATIENCE_S, Deck, worker


@contextlib.asynccontextmanager
async def operating(deck: Deck, key: str) -> AsyncIterator[OperatorClient]:
    async with OperatorClient(Target(deck.state()["api_address"], key, "test")) as client:
        yield client


@contextlib.asynccontextmanager
async def someone(deck: Deck, role: Role) -> AsyncIterator[tuple[OperatorClient, str]]:
    """A fresh operator with this role, and the key; revoked in the end."""
    async with deck.operator() as admin:
        new = await admin.access.create_operator(f"a-{role.name.lower()}", role)
        try:
            async with operating(deck, new.key) as client:
                yield client, new.key
        finally:
            await admin.access.revoke_operator(new.view.id)


async def audited(deck: Deck) -> list[AuditEntry]:
    async with deck.operator() as admin:
        return list((await admin.access.audit()).entries)


async def status(url: str, key: str, model: str = "tiny") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        answer = await client.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})
    return answer.status_code


async def comes_to(wanted: int, url: str, key: str, model: str = "tiny") -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await status(url, key, model) != wanted:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)


async def test_a_viewer_looks_and_is_told_which_role_is_needed_for_more(deck: Deck) -> None:
    """SE03: control needs an operator who may do it."""
    async with someone(deck, Role.VIEWER) as (viewer, _):
        before = len(await audited(deck))
        assert len((await viewer.get_snapshot()).workers) == 2
        assert (await viewer.access.policy()).tiers
        assert (await viewer.set_trace("tiny-1", TraceMode.UNSPECIFIED)).unavailable, "asking is looking"
        with pytest.raises(Conflict, match="only a simulated one"):
            await viewer.inject("tiny-1")
        assert (await viewer.access.keys()).keys[0].spec.name == "default"
        refused: list[tuple[Any, str]] = [
            (viewer.cordon("tiny-1"), "operator"),
            (viewer.cordon("tiny-1", dry_run=True), "operator"),
            (viewer.scale("tiny", 3), "operator"),
            (viewer.set_trace("tiny-1", TraceMode.OFF), "operator"),
            (viewer.inject("tiny-1", heal=True), "operator"),
            (viewer.sleep("tiny-1", 1, dry_run=True), "operator"),
            (viewer.wake("tiny-1"), "operator"),
            (viewer.cancel("req-1"), "operator"),
            (anext(aiter(viewer.drain("tiny-1"))), "operator"),
            (anext(aiter(viewer.shutdown())), "admin"),
            (viewer.access.create_key(KeySpec("k")), "admin"),
            (viewer.access.revoke_key("default"), "admin"),
            (viewer.access.set_policy(("tiers.free.rpm=1",)), "admin"),
            (viewer.access.create_operator("me", Role.ADMIN), "admin"),
            (viewer.access.audit(), "admin"),
        ]
        for call, role in refused:
            with pytest.raises(Forbidden, match=f"needs the role {role}, and a-viewer is a viewer") as caught:
                await call
            assert caught.value.reason is DropReason.ROLE_TOO_LOW
            assert f"--role {role}" in caught.value.hint
        assert len(await audited(deck)) == before


async def test_an_operator_operates_and_decides_nothing(deck: Deck) -> None:
    async with someone(deck, Role.OPERATOR) as (operator, _):
        assert (await operator.cordon("tiny-2")).changed
        assert (await operator.uncordon("tiny-2")).changed
        with pytest.raises(Forbidden, match="CreateKey needs the role admin, and a-operator is an operator"):
            await operator.access.create_key(KeySpec("k"))
    entries = [entry for entry in await audited(deck) if entry.actor_name == "a-operator"]
    assert [(entry.action, entry.role, entry.target) for entry in entries] == [
        ("worker.cordon", "operator", "worker/tiny-2"),
        ("worker.uncordon", "operator", "worker/tiny-2"),
    ]
    assert [json.loads(entries[0].before), json.loads(entries[0].after)] == [{"cordoned": False}, {"cordoned": True}]
    assert all(entry.request_id for entry in entries)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
async def test_who_is_no_admin_cannot_join_as_a_router(deck: Deck, role: Role) -> None:
    async with (
        someone(deck, role) as (_, key),
        grpc.aio.insecure_channel(deck.state()["api_address"]) as channel,
    ):
        join = channel.stream_stream("/inferdeck.v1.Fleet/Join")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await join(metadata=(("authorization", f"Bearer {key}"),)).read()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def _to_the_end(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass


async def test_a_revoked_operator_hears_no_more_not_even_on_an_open_stream(deck: Deck) -> None:
    async with someone(deck, Role.VIEWER) as (viewer, _):
        snapshots = aiter(viewer.watch(0.05))
        await anext(snapshots)
        async with deck.operator() as admin:
            assert (await admin.access.revoke_operator("a-viewer")).state == "revoked"
        with pytest.raises(Unauthenticated):
            await viewer.get_snapshot()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Unauthenticated):
                await _to_the_end(snapshots)


async def test_the_request_id_of_a_write_is_the_callers(deck: Deck) -> None:
    async with deck.operator() as admin:
        call = admin.access._stub.SetPolicy
        from control_plane.contracts.v1 import access_pb2 as pb

        request = pb.SetPolicyRequest(assignments=["tenants.traced.rpm=3"])
        await call(request, metadata=(*admin._metadata, ("x-request-id", "ticket-42")), timeout=20)
        await admin.access.set_policy(("tenants.traced=none",))
    traced = [entry for entry in await audited(deck) if entry.request_id == "ticket-42"]
    assert [(entry.action, entry.target) for entry in traced] == [("policy.set", "policy")]


async def test_what_is_done_to_the_fleet_is_audited_once_it_is_done(deck: Deck) -> None:
    running = asyncio.create_task(deck.stream(tokens=1500, delay_s=0.05))
    snapshot = await deck.until(lambda snapshot: bool([r for r in snapshot.requests if r.phase.active]))
    request_id = next(request.id for request in snapshot.requests if request.phase.active)
    before = len(await audited(deck))
    async with deck.operator() as admin:
        await admin.cancel(request_id, dry_run=True)
        await admin.cancel(request_id)
        await running
        await admin.cancel(request_id)
        async for _ in admin.drain("tiny-2", dry_run=True):
            pass
        async for _ in admin.drain("tiny-2"):
            pass
        await admin.uncordon("tiny-2")
        await admin.sleep("tiny-1", 2, dry_run=True)
        await admin.sleep("tiny-1", 2)
        await admin.sleep("tiny-1", 2)
        await deck.until(lambda snapshot: worker(snapshot, "tiny-1").phase is WorkerPhase.ASLEEP)
        await admin.wake("tiny-1")
        with pytest.raises(NotFound):
            await admin.cordon("nothing-9")
    entries = (await audited(deck))[before:]
    assert [(entry.action, entry.target) for entry in entries] == [
        ("request.cancel", f"request/{request_id}"),
        ("worker.drain", "worker/tiny-2"),
        ("worker.uncordon", "worker/tiny-2"),
        ("worker.sleep", "worker/tiny-1"),
        ("worker.wake", "worker/tiny-1"),
    ]
    assert [(json.loads(entry.before), json.loads(entry.after)) for entry in entries[-2:]] == [
        ({"sleep_level": 0}, {"sleep_level": 2}),
        ({"sleep_level": 2}, {"sleep_level": 0}),
    ]


async def test_a_key_with_limits_works_with_the_official_client_until_it_is_revoked(deck: Deck) -> None:
    """A02, SE03: a revoked key; a paid key opens nothing of the operators' API."""
    async with deck.operator() as admin:
        new = await admin.access.create_key(KeySpec("mine", tier="paid", limits=Limits(rpm=60, tpm=10_000)))
        await comes_to(200, deck.url, new.key)
        async with openai.AsyncOpenAI(base_url=f"{deck.url}/v1", api_key=new.key, max_retries=0) as client:
            answer = await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=3
            )
            assert answer.choices[0].message.content
            assert [model.id async for model in client.models.list()] == ["tiny"]
        async with operating(deck, new.key) as caller:
            with pytest.raises(Forbidden, match="an API key is not an operator key"):
                await caller.get_snapshot()
        await admin.access.revoke_key(new.view.id)
        await comes_to(401, deck.url, new.key)
        async with openai.AsyncOpenAI(base_url=f"{deck.url}/v1", api_key=new.key, max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                await client.models.list()
            assert caught.value.code == "invalid_api_key"
            assert new.key not in str(caught.value)


async def test_models_of_a_key_and_of_its_tier_are_all_it_may_call(deck: Deck) -> None:
    async with deck.operator() as admin:
        new = await admin.access.create_key(KeySpec("narrow", models=("elsewhere",)))
        await comes_to(403, deck.url, new.key)
        async with openai.AsyncOpenAI(base_url=f"{deck.url}/v1", api_key=new.key, max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == []
            with pytest.raises(openai.NotFoundError):
                await client.models.retrieve("tiny")
            with pytest.raises(openai.PermissionDeniedError) as caught:
                await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
            assert (caught.value.code, caught.value.param) == ("model_not_allowed", "model")
        await admin.access.set_key(new.view.id, ("models=none",))
        await comes_to(200, deck.url, new.key)
        await admin.access.set_policy(("tiers.paid.models=other",))
        await comes_to(403, deck.url, new.key)
        await admin.access.set_policy(("tiers.paid.models=tiny,other",))
        await comes_to(200, deck.url, new.key)
        await admin.access.set_policy(("tiers.paid.models=none",))
        await admin.access.revoke_key(new.view.id)


async def test_names_that_lead_to_models_count_at_once_and_are_listed(deck: Deck) -> None:
    async with deck.operator() as admin:
        new = await admin.access.create_key(KeySpec("named"))
        change = await admin.access.set_policy(("routing.models.smart.target=tiny", "routing.models.lost.target=gone"))
        assert change.warnings == ("routing.models.lost: nothing serves gone at present",)
        await comes_to(200, deck.url, new.key, "smart")
        assert await status(deck.url, new.key, "lost") == 404
        snapshot = await deck.until(lambda snapshot: len(snapshot.models) == 3)
        assert [(model.name, model.kind, model.leads_to, model.ready_workers) for model in snapshot.models] == [
            ("tiny", "", "", 2),
            ("lost", "alias", "gone", 0),
            ("smart", "alias", "tiny", 2),
        ]
        ended = await deck.until(lambda found: any(request.choice for request in found.requests))
        asked = {request.choice.asked: request.model for request in ended.requests if request.choice is not None}
        assert asked == {"smart": "tiny"}
        assert all(request.worker_s > 0 and not request.cost for request in ended.requests if request.choice)
        with pytest.raises(InvalidRequest, match="a pool serves a model of this name") as caught:
            await admin.access.set_policy(("routing.models.tiny.target=gone",))
        assert (caught.value.param, caught.value.hint) == (
            "routing.models.tiny",
            "add routing.models.tiny.shadow=true",
        )
        with pytest.raises(InvalidRequest, match="leads back to itself"):
            await admin.access.set_policy(("routing.models.gone.target=lost",))
        await admin.access.set_policy(("routing.models=none",))
        await comes_to(404, deck.url, new.key, "smart")
        await admin.access.revoke_key(new.view.id)


async def test_a_rotated_key_and_its_old_secret(deck: Deck) -> None:
    async with deck.operator() as admin:
        old = await admin.access.create_key(KeySpec("turning"))
        await comes_to(200, deck.url, old.key)
        graced = await admin.access.rotate_key("turning", 600.0)
        await comes_to(200, deck.url, graced.key)
        assert await status(deck.url, old.key) == 200
        last = await admin.access.rotate_key("turning")
        await comes_to(200, deck.url, last.key)
        await comes_to(401, deck.url, old.key)
        await comes_to(401, deck.url, graced.key)
        await admin.access.revoke_key("turning")


async def test_wrong_wishes_are_told_with_their_field(deck: Deck) -> None:
    async with deck.operator() as admin:
        before = len(await audited(deck))
        for call, kind, param in (
            (admin.access.create_key(KeySpec("k", tier="gold")), InvalidRequest, "tier"),
            (admin.access.set_key("default", ("rpm=0",)), InvalidRequest, "rpm"),
            (admin.access.set_key("nobody", ("rpm=1",)), NotFound, "key_id"),
            (admin.access.rotate_key("default", -1.0), InvalidRequest, "grace_s"),
            (admin.access.set_policy(("tiers.paid.rpm=x",)), InvalidRequest, "tiers.paid.rpm"),
            (admin.access.set_policy(document="{"), InvalidRequest, "document"),
            (admin.access.set_policy(), InvalidRequest, "assignments"),
            (admin.access.set_policy(("tiers.paid.rpm=5",), version=999), Conflict, "version"),
            (admin.access.set_policy(("tiers.enterprise=none",)), Conflict, "tiers.enterprise"),
            (admin.access.policy(999), NotFound, "version"),
            (admin.access.create_operator("x", Role.UNSPECIFIED), InvalidRequest, "role"),
            (admin.access.revoke_operator("nobody"), NotFound, "operator_id"),
        ):
            with pytest.raises(kind) as caught:
                await call
            assert caught.value.param == param
        assert len(await audited(deck)) == before


async def test_no_secret_is_in_any_log_or_answer_but_the_first(deck: Deck) -> None:
    """SE05: keys of callers and operators, in logs, lists and the audit."""
    async with someone(deck, Role.VIEWER) as (_, operator_key), deck.operator() as admin:
        made = await admin.access.create_key(KeySpec("secret"))
        await comes_to(200, deck.url, made.key)
        turned = await admin.access.rotate_key("secret", 60.0)
        await admin.access.revoke_key("secret")
        shown = f"{await admin.access.keys()} {await admin.access.operators()} {await admin.access.audit()}"
        said = shown + deck.said + "".join(path.read_text() for path in (deck.home / "logs").iterdir())
        stored = b"".join(path.read_bytes() for path in deck.home.glob("inferdeck.db*"))
        for secret in (operator_key, made.key, turned.key):
            assert secret not in said
            assert secret.encode() not in stored
        assert made.view.id in shown
