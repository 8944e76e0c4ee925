from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.http import Endpoint
from console.learn import keyring
from console.learn.keyring import Keyring
from control_plane.contracts.access import KeyChange, KeySpec, KeyView, NewKey
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.key_spec import assigned
from control_plane.contracts.policy import Limits, Policy
from lessons.actions import Shape
from lessons.key_actions import MakeKey, SetKey
from tests.unit.console.openai_server import Call, serving


class Access:
    """Keys as the control plane has them."""

    def __init__(self) -> None:
        self.keys: dict[str, KeyView] = {}

    async def create_key(self, spec: KeySpec) -> NewKey:
        view = KeyView(f"key-{len(self.keys) + 1}", "sk", spec, 1.0)
        self.keys[view.id] = view
        return NewKey(view, f"secret-{view.id}")

    async def set_key(self, key_id: str, assignments: tuple[str, ...]) -> KeyChange:
        before = self.keys[key_id]
        self.keys[key_id] = replace(before, spec=assigned(before.spec, assignments))
        return KeyChange(before, self.keys[key_id])

    async def revoke_key(self, key_id: str) -> None:
        self.keys[key_id] = replace(self.keys[key_id], revoked_unix=2.0)

    async def policy(self) -> Policy:
        return Policy()

    @property
    def valid(self) -> list[str]:
        return [key.spec.name for key in self.keys.values() if key.revoked_unix is None]


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
    assert access.keys["key-2"].spec == KeySpec("shop", tier="paid", limits=Limits(rpm=3), models=("m",))


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
        await ring.put_back(access)
    assert access.valid == ["lesson-paid"]


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
    assert access.keys["key-1"].spec.limits.rpm == 2


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
