from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncIterator

import pytest

from control_plane.contracts.errors import Unauthenticated, Unavailable
from control_plane.contracts.grant import Grant
from control_plane.gateway import auth
from control_plane.gateway.auth import KeyGate
from tests.unit.gateway.fakes import until


class Keys:
    def __init__(self) -> None:
        self.granted: dict[str, Grant] = {"good": Grant("key-1")}
        self.readings = 0
        self.broken = False
        self.hold: threading.Event | None = None

    def grants(self) -> dict[bytes, Grant]:
        self.readings += 1
        if self.hold is not None:
            self.hold.wait(10)
        if self.broken:
            raise OSError("disk")
        return {hashlib.sha256(key.encode()).digest(): grant for key, grant in self.granted.items()}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.unix = 1_700_000_000.0

    def time(self) -> float:
        return self.unix

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(auth, "time", clock)
    return clock


class Rig:
    def __init__(self) -> None:
        self.keys = Keys()
        self.gate = KeyGate(self.keys)

    def now(self, header: bytes | None) -> str:
        """What a request hears at once: a key's id, or "later"."""
        grant = self.gate.check(header, lambda: None)
        return grant.key_id if grant is not None else "later"

    async def ask(self, header: bytes | None) -> str:
        """What a request hears in the end."""
        heard = asyncio.Event()
        grant = self.gate.check(header, heard.set)
        if grant is None:
            async with asyncio.timeout(10):
                await heard.wait()
            grant = self.gate.check(header, heard.set)
        assert grant is not None
        return grant.key_id

    async def quiet(self) -> None:
        """Wait for a reading in the background."""
        await until(lambda: not self.gate.reading)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    rig.gate.stop()


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer ", b"Basic x", b"good", b"Bearer " + b"x" * 600, b"Bearer \xff", b"Bearer wrong"],
)
async def test_everything_that_is_wrong_is_told_in_the_same_words(rig: Rig, header: bytes | None) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await rig.ask(header)
    assert caught.value.message == (
        "The API key is missing, wrong, expired or revoked. Send one as 'Authorization: Bearer KEY'."
    )
    assert caught.value.param is None


@pytest.mark.parametrize("header", [b"Bearer good", b"bearer good", b"BEARER   good "])
async def test_a_good_key(rig: Rig, header: bytes) -> None:
    assert await rig.ask(header) == "key-1"


async def test_the_store_is_read_twice_a_second_at_most_and_nobody_waits_for_that(rig: Rig, clock: Clock) -> None:
    await rig.ask(b"Bearer good")
    for _ in range(100):
        assert rig.now(b"Bearer good") == "key-1"
    assert rig.keys.readings == 1
    clock.now += 0.6
    assert rig.now(b"Bearer good") == "key-1"
    await rig.quiet()
    assert rig.keys.readings == 2
    clock.now += 0.6
    assert rig.now(b"Bearer good") == "key-1"


async def test_many_that_ask_at_once_share_a_reading(rig: Rig) -> None:
    assert await asyncio.gather(*(rig.ask(b"Bearer good") for _ in range(50))) == ["key-1"] * 50
    assert rig.keys.readings == 1


async def test_a_revoked_key_ends_within_a_second(rig: Rig, clock: Clock) -> None:
    await rig.ask(b"Bearer good")
    del rig.keys.granted["good"]
    clock.now += auth.FRESH_S + 0.01
    with pytest.raises(Unauthenticated):
        await rig.ask(b"Bearer good")


async def test_a_key_ends_at_the_moment_it_expires_whatever_was_read(rig: Rig, clock: Clock) -> None:
    rig.keys.granted["good"] = Grant("key-1", expires_unix=clock.unix + 5.0)
    assert await rig.ask(b"Bearer good") == "key-1"
    clock.unix += 4.999
    assert rig.now(b"Bearer good") == "key-1"
    clock.unix += 0.001
    with pytest.raises(Unauthenticated):
        rig.now(b"Bearer good")
    rig.keys.granted["good"] = Grant("key-1", expires_unix=clock.unix + 5.0)
    clock.now += auth.UNKNOWN_S + 0.01
    assert await rig.ask(b"Bearer good") == "key-1"


async def test_an_expired_key_is_refused_while_the_store_fails(rig: Rig, clock: Clock) -> None:
    rig.keys.granted["good"] = Grant("key-1", expires_unix=clock.unix + 5.0)
    assert await rig.ask(b"Bearer good") == "key-1"
    rig.keys.broken = True
    clock.now += auth.FRESH_S + 0.01
    assert await rig.ask(b"Bearer good") == "key-1"
    clock.unix += 5.0
    with pytest.raises(Unavailable):
        await rig.ask(b"Bearer good")


async def test_a_new_key_works_within_a_moment(rig: Rig, clock: Clock) -> None:
    with pytest.raises(Unauthenticated):
        await rig.ask(b"Bearer new")
    rig.keys.granted["new"] = Grant("key-2")
    with pytest.raises(Unauthenticated):
        rig.now(b"Bearer new")
    clock.now += auth.UNKNOWN_S + 0.01
    assert await rig.ask(b"Bearer new") == "key-2"


async def test_a_flood_of_wrong_keys_reads_the_store_a_few_times_a_second(rig: Rig, clock: Clock) -> None:
    await rig.ask(b"Bearer good")
    for turn in range(10):
        for index in range(200):
            with pytest.raises(Unauthenticated):
                await rig.ask(b"Bearer wrong-%d-%d" % (turn, index))
            clock.now += 0.001
    assert rig.keys.readings <= 2 + 2.0 / auth.UNKNOWN_S
    assert rig.now(b"Bearer good") == "key-1"


async def test_of_many_wrong_keys_at_once_few_wait(rig: Rig, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.ask(b"Bearer good")
    monkeypatch.setattr(auth, "_WAITING", 5)
    rig.keys.hold = threading.Event()
    try:
        clock.now += auth.UNKNOWN_S + 0.01
        for index in range(5):
            assert rig.now(b"Bearer wrong-%d" % index) == "later"
        with pytest.raises(Unauthenticated):
            rig.now(b"Bearer wrong-6")
        clock.now += auth.FRESH_S - auth.UNKNOWN_S
        assert rig.now(b"Bearer good") == "key-1"
    finally:
        rig.keys.hold.set()
    await rig.quiet()


async def test_no_more_than_a_few_wait_for_a_store_that_hangs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_WAITING", 5)
    rig.keys.hold = threading.Event()
    try:
        for index in range(5):
            assert rig.now(b"Bearer wrong-%d" % index) == "later"
        with pytest.raises(Unavailable):
            rig.now(b"Bearer wrong-6")
    finally:
        rig.keys.hold.set()
    await rig.quiet()


async def test_a_store_that_fails_leaves_known_keys_good_for_a_while(
    rig: Rig, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.ask(b"Bearer good")
    rig.keys.broken = True
    clock.now += auth.FRESH_S + 0.01
    with caplog.at_level(logging.ERROR):
        assert await rig.ask(b"Bearer good") == "key-1"
    assert "good" not in caplog.text
    with pytest.raises(Unavailable):
        await rig.ask(b"Bearer wrong")
    clock.now += auth.STALE_S
    with pytest.raises(Unavailable):
        await rig.ask(b"Bearer good")
    rig.keys.broken = False
    clock.now += auth.FRESH_S + 0.01
    assert await rig.ask(b"Bearer good") == "key-1"


async def test_a_store_that_hangs_stalls_nobody(rig: Rig, clock: Clock) -> None:
    await rig.ask(b"Bearer good")
    rig.keys.hold = threading.Event()
    try:
        clock.now += 0.6
        assert rig.now(b"Bearer good") == "key-1"
        clock.now += 5.0
        assert rig.now(b"Bearer good") == "key-1"
        with pytest.raises(Unavailable):
            rig.now(b"Bearer wrong")
        clock.now += auth.STALE_S
        with pytest.raises(Unavailable):
            rig.now(b"Bearer good")
    finally:
        rig.keys.hold.set()
    await rig.quiet()
    assert rig.now(b"Bearer good") == "key-1"


async def test_those_that_wait_for_a_store_are_not_kept_waiting(rig: Rig, clock: Clock) -> None:
    await rig.ask(b"Bearer good")
    rig.keys.hold = threading.Event()
    heard = asyncio.Event()
    try:
        clock.now += auth.FRESH_S + 0.1
        assert rig.gate.check(b"Bearer good", heard.set) is None
        async with asyncio.timeout(10):
            await heard.wait()
        clock.now += 1.0
        assert rig.now(b"Bearer good") == "key-1"
    finally:
        rig.keys.hold.set()
    await rig.quiet()


async def test_whoever_comes_before_the_first_reading_waits_for_it(rig: Rig, clock: Clock) -> None:
    rig.keys.hold = threading.Event()
    heard = asyncio.Event()
    try:
        assert rig.gate.check(b"Bearer good", heard.set) is None
        clock.now += 5.0
        assert rig.now(b"Bearer good") == "later"
        clock.now += auth.FIRST_S
        with pytest.raises(Unavailable):
            rig.now(b"Bearer good")
    finally:
        rig.keys.hold.set()
    async with asyncio.timeout(10):
        await heard.wait()
    assert rig.now(b"Bearer good") == "key-1"
