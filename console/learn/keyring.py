"""The keys that a lesson's callers have: the sandbox's own, one for each tier, and those that the lesson makes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from console.access_client import AccessClient
from console.api_access import ApiKey, offers_of
from console.completion import Answer
from console.http import Connections, Endpoint
from control_plane.contracts.access import KeySpec, KeyView
from control_plane.contracts.errors import Conflict, InferDeckError, Unavailable
from control_plane.contracts.key_spec import grant_of
from control_plane.contracts.policy import Limits
from lessons.actions import NO_KEYS, Shape
from lessons.key_actions import MakeKey, SetKey

HEARD_S: Final = 20.0
"""How long a gateway may take to hear of a key."""

_POLL_S: Final = 0.1
_NO_CALL: Final[dict[str, str]] = {}
"""A body that asks for nothing is refused: it counts under no limit, while its answer tells them."""


class Keyring:
    """``own`` is the sandbox's key. What is made here is known to the gateway before it is used."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._tiers: dict[str, tuple[str, str]] = {}
        self._made: dict[str, tuple[str, str]] = {}

    def secret(self, shape: Shape) -> str:
        """Of the key that the call is made with; "" for none."""
        if shape.key in NO_KEYS:
            return "" if shape.key == "none" else "sk-nobody-ever-made-this-one"
        if shape.key:
            return self._made[shape.key][1]
        return self._tiers[shape.tier][1] if shape.tier else self._own

    async def give_tier(self, access: AccessClient, endpoint: Endpoint, tier: str) -> None:
        """Callers of the tier have a key."""
        if tier not in self._tiers:
            self._tiers[tier] = await _create(access, endpoint, _of_tier(tier))

    async def make(self, access: AccessClient, endpoint: Endpoint, wanted: MakeKey) -> None:
        await self._revoke(access, wanted.name)
        limits = Limits(rpm=wanted.rpm, tpm=wanted.tpm)
        spec = KeySpec(wanted.name, tier=wanted.tier, limits=limits, models=wanted.models)
        self._made[wanted.name] = await _create(access, endpoint, spec)

    async def change(self, access: AccessClient, endpoint: Endpoint, wanted: SetKey) -> None:
        key_id, secret = self._made[wanted.key]
        change = await access.set_key(key_id, wanted.set)
        limits = grant_of(change.after, await access.policy()).limits

        async def goes_by_them() -> bool:
            return await _limits_of(endpoint, secret) == (limits.rpm, limits.tpm)

        await _until(goes_by_them, wanted.key)

    async def put_back(self, access: AccessClient, own: str) -> None:
        """``own`` is the sandbox's key now: it may have been rotated.

        Keys that a lesson made are gone, and so are those of tiers that its learner did something to: they are made
        anew where they are needed. Raises Conflict where the sandbox's own is taken no more.
        """
        self._own = own
        for name in list(self._made):
            await self._revoke(access, name)
        told = await access.keys()
        if told.home_key is not None and told.home_key.lost(told.taken_unix):
            raise Conflict(f"the sandbox's own key is {told.home_key.state}")
        keys = {view.id: view for view in told.keys}
        for tier, (key_id, _) in list(self._tiers.items()):
            if not _as_made(keys.get(key_id), _of_tier(tier)):
                del self._tiers[tier]
                with contextlib.suppress(InferDeckError):
                    await access.revoke_key(key_id)

    async def _revoke(self, access: AccessClient, name: str) -> None:
        if name in self._made:
            with contextlib.suppress(InferDeckError):  # the learner may have done it
                await access.revoke_key(self._made.pop(name)[0])


def _of_tier(tier: str) -> KeySpec:
    return KeySpec(f"lesson-{tier}", tier=tier)


def _as_made(key: KeyView | None, spec: KeySpec) -> bool:
    return key is not None and key.spec == spec and key.rotated_unix is None and key.revoked_unix is None


async def _create(access: AccessClient, endpoint: Endpoint, spec: KeySpec) -> tuple[str, str]:
    """Its id, and its secret once the gateway takes it."""
    new = await access.create_key(spec)

    async def takes_it() -> bool:
        try:
            await offers_of(endpoint, ApiKey(spec.name, new.key))
        except InferDeckError:  # it is not known yet, or keys cannot be checked at the moment
            return False
        return True

    await _until(takes_it, spec.name)
    return new.view.id, new.key


async def _until(fact: Callable[[], Awaitable[bool]], name: str) -> None:
    """Raises Unavailable."""
    try:
        async with asyncio.timeout(HEARD_S):
            while True:
                if await fact():
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise Unavailable(f"the gateway has heard nothing of key {name!r} in {HEARD_S:.0f} s") from None


async def _limits_of(endpoint: Endpoint, secret: str) -> tuple[int | None, int | None]:
    """RPM and TPM that the gateway goes by now, None where there is none."""
    connections = Connections(endpoint)
    answer = Answer()
    try:
        await answer.run(connections, "/completions", secret, _NO_CALL)
    finally:
        connections.close()
    told = [answer.headers.get(f"x-ratelimit-limit-{name}") for name in ("requests", "tokens")]
    return (int(told[0]) if told[0] else None, int(told[1]) if told[1] else None)
