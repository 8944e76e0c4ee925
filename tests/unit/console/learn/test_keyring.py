from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.http import Endpoint
from console.learn import keyring
from console.learn.keyring import Keyring
from control_plane.contracts.access import HomeKey, KeyChange, KeyList, KeySpec, KeyView, NewKey
from control_plane.contracts.errors import Conflict, NotFound, Unavailable
from control_plane.contracts.key_spec import assigned
from control_plane.contracts.policy import Limits, Policy
from lessons.actions import Shape
from lessons.key_actions import MakeKey, SetKey
from tests.unit.console.openai_server import Call, serving


class Access:
    """Keys as the control plane has them."""

    def __init__(self) -> None:
        self.made: dict[str, KeyView] = {}
        self.home = HomeKey("key-0", "active")
        self.count = 0

    async def keys(self) -> KeyList:
        return KeyList(tuple(self.made.values()), 3.0, self.home)

    async def create_key(self, spec: KeySpec) -> NewKey:
        self.count += 1
        view = KeyView(f"key-{self.count}", "sk", spec, 1.0)
        self.made[view.id] = view
        return NewKey(view, f"secret-{view.id}")

    async def set_key(self, key_id: str, assignments: tuple[str, ...]) -> KeyChange:
        before = self.made[key_id]
        self.made[key_id] = replace(before, spec=assigned(before.spec, assignments))
        return KeyChange(before, self.made[key_id])

    async def revoke_key(self, key_id: str) -> None:
        if key_id not in self.made:
            raise NotFound(key_id)
        self.made[key_id] = replace(self.made[key_id], revoked_unix=2.0)

    async def policy(self) -> Policy:
        return Policy()

    @property
    def valid(self) -> list[str]:
        return [key.spec.name for key in self.made.values() if key.revoked_unix is None]


async def limits(call: Call) -> None:
    raise AssertionError("nobody was to ask")


async def test_a_call_has_the_key_that_it_names() -> None:
    access: Any = Access()
    ring = Keyring("own")
    async with serving(limits) as server:
        at = Endpoint.parse(server.url)
        await ring.give_tier(access, at, "free")
        await ring.give_tier(access, at, "free")
        await ring.make(access, at, MakeKey("shop", "paid", rpm=3, models=("m",)))
    assert ring.secret(Shape("x")) == "own"
    assert ring.secret(Shape("x", tier="free")) == "secret-key-1"
    assert ring.secret(Shape("x", key="shop")) == "secret-key-2"
    assert ring.secret(Shape("x", key="none")) == ""
    assert ring.secret(Shape("x", key="wrong")) not in ("", "own", "secret-key-1", "secret-key-2")
    assert access.made["key-2"].spec == KeySpec("shop", tier="paid", limits=Limits(rpm=3), models=("m",))


async def test_a_key_that_is_made_again_is_new_and_what_lessons_made_is_gone_in_the_end() -> None:
    access: Any = Access()
    ring = Keyring("own")
    async with serving(limits) as server:
        at = Endpoint.parse(server.url)
        for _ in range(2):
            await ring.make(access, at, MakeKey("shop"))
        assert access.valid == ["shop"]
        assert ring.secret(Shape("x", key="shop")) == "secret-key-2"
        await ring.give_tier(access, at, "paid")
        await ring.put_back(access, "own")
    assert access.valid == ["lesson-paid"]


@pytest.mark.parametrize(
    "change", [{"revoked_unix": 2.0}, {"rotated_unix": 2.0}, {"spec": KeySpec("lesson-paid", tier="free")}, None]
)
async def test_what_a_learner_did_to_a_tiers_key_does_not_outlive_the_lesson(change: dict[str, Any] | None) -> None:
    access: Any = Access()
    ring = Keyring("own")
    async with serving(limits) as server:
        at = Endpoint.parse(server.url)
        await ring.give_tier(access, at, "paid")
        await ring.give_tier(access, at, "free")
        if change is None:
            del access.made["key-1"]
        else:
            access.made["key-1"] = replace(access.made["key-1"], **change)
        await ring.put_back(access, "own")
        for tier in ("paid", "free"):
            await ring.give_tier(access, at, tier)
    assert ring.secret(Shape("x", tier="paid")) == "secret-key-3"
    assert ring.secret(Shape("x", tier="free")) == "secret-key-2", "nobody touched it"
    assert sorted(access.valid) == ["lesson-free", "lesson-paid"]


async def test_a_rotated_key_of_the_sandbox_is_the_new_one() -> None:
    access: Any = Access()
    ring = Keyring("old")
    await ring.put_back(access, "new")
    assert ring.secret(Shape("x")) == "new"


async def test_a_sandbox_without_its_own_key_cannot_be_put_back() -> None:
    access: Any = Access()
    access.home = HomeKey("key-0", "revoked")
    with pytest.raises(Conflict, match="own key is revoked"):
        await Keyring("own").put_back(access, "own")


async def test_a_change_is_waited_for_until_the_gateway_goes_by_it() -> None:
    access: Any = Access()
    ring = Keyring("own")
    told = [b"60", b"60", b"2"]
    bodies = []

    async def script(call: Call) -> None:
        bodies.append(call.body)
        head = b"HTTP/1.1 400 X\r\nx-ratelimit-limit-requests: %b\r\nx-ratelimit-limit-tokens: 200000\r\n"
        await call.raw(head % told.pop(0) + b"content-length: 2\r\n\r\n{}")

    async with serving(script) as server:
        at = Endpoint.parse(server.url)
        await ring.make(access, at, MakeKey("shop", rpm=60))
        await ring.change(access, at, SetKey("shop", ("rpm=2",)))
    assert not told
    assert bodies == [{}] * 3
    assert access.made["key-1"].spec.limits.rpm == 2


async def test_a_gateway_that_never_hears_of_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    access: Any = Access()
    ring = Keyring("own")
    monkeypatch.setattr(keyring, "HEARD_S", 0.05)

    async def script(call: Call) -> None:
        await call.error(400, "no")

    async with serving(script) as server:
        at = Endpoint.parse(server.url)
        await ring.make(access, at, MakeKey("shop", rpm=60))
        with pytest.raises(Unavailable, match="heard nothing of key 'shop'"):
            await ring.change(access, at, SetKey("shop", ("rpm=2",)))
