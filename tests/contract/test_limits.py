"""What calls are promised of their limits, whether one process counts or several share a server.

The minute is a real one of one and a half seconds where a test waits for its end, and sixty seconds elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from control_plane.contracts.errors import InferDeckError, Throttled
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.limits import limiter
from control_plane.gateway.limits.limiter import Admission, Limiter
from control_plane.gateway.limits.shared import SharedCounts
from control_plane.gateway.limits.verdict import BUSY_S
from tests.unit.gateway.fakes import until
from tests.valkey_server import ValkeyServer, valkey_server

SHORT_S = 1.5
PATIENT_S = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as started:
        yield started


class Counting:
    """Limiters of ``count`` gateways: all the same one in process, one each with a server."""

    def __init__(self, limiters: list[Limiter], tenant: str) -> None:
        self.limiters = limiters
        self.tenant = tenant

    def grant(self, key: str = "k", tenant_limits: Limits | None = None, **limits: int) -> Grant:
        return Grant(key, self.tenant, limits=Limits(**limits), tenant_limits=tenant_limits or Limits())

    async def call(self, grant: Grant, tokens: int = 1, at: int = 0) -> Admission:
        """A call that has entered and reserved. Raises what it is told."""
        admission = await self.enter(grant, at)
        await answered(admission.reserve, tokens)
        return admission

    async def enter(self, grant: Grant, at: int = 0) -> Admission:
        admission = self.limiters[at % len(self.limiters)].admission(grant)
        await answered(admission.enter)
        return admission

    async def left(self, grant: Grant, at: int = 0) -> dict[str, str]:
        told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.limiters[at % len(self.limiters)].look(grant, told.set_result)
        return dict(line.split(": ") for line in (await told).decode().splitlines())

    async def remaining(self, grant: Grant, what: str = "tokens", at: int = 0) -> int:
        """As a gateway sees it: what it said itself before has been heard, what another one did may be under way."""
        return int((await self.left(grant, at))[f"x-ratelimit-remaining-{what}"])

    def idle(self) -> bool:
        return all(limiter.book.held == 0 and limiter.book.running == 0 for limiter in self.limiters)


async def answered(ask: Any, *arguments: Any) -> None:
    told: asyncio.Future[InferDeckError | None] = asyncio.get_running_loop().create_future()
    ask(*arguments, then=told.set_result)
    error = await told
    if error is not None:
        raise error


@asynccontextmanager
async def counting(kind: str, server: ValkeyServer, tenant: str, window_s: float = 60.0) -> AsyncIterator[Counting]:
    async with AsyncExitStack() as stack:
        limiters = []
        if kind == "in process":
            limiters = [Limiter(window_s=window_s)]
        else:
            for name in ("g1", "g2"):
                shared = SharedCounts(server.url, name=name, window_s=window_s, timeout_s=PATIENT_S)
                shared.start()
                stack.push_async_callback(shared.stop)
                limiters.append(Limiter(shared, name=name, window_s=window_s))
        yield Counting(limiters, tenant)


@pytest.fixture(params=["in process", "shared"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def counts(kind: str, server: ValkeyServer, request: pytest.FixtureRequest) -> AsyncIterator[Counting]:
    async with counting(kind, server, request.node.name) as made:
        yield made
        assert made.idle()


@pytest.fixture
async def short(kind: str, server: ValkeyServer, request: pytest.FixtureRequest) -> AsyncIterator[Counting]:
    async with counting(kind, server, request.node.name, SHORT_S) as made:
        yield made


async def test_requests_are_counted_up_to_their_limit(counts: Counting) -> None:
    grant = counts.grant(rpm=3)
    for number in range(3):
        (await counts.call(grant, at=number)).settle(1)
    with pytest.raises(Throttled) as refused:
        await counts.call(grant, at=1)
    assert "requests per minute of this API key: limit 3, used 3, asked 1" in refused.value.message
    assert refused.value.status.type == "requests"
    assert refused.value.retry_after_s is not None
    assert 50 < refused.value.retry_after_s <= 60
    assert await counts.remaining(grant, "requests") == 0


async def test_tokens_are_reserved_then_settled(counts: Counting) -> None:
    grant = counts.grant(tpm=100)
    first = await counts.call(grant, 60)
    with pytest.raises(Throttled) as refused:
        await counts.call(grant, 60, at=1)
    assert "tokens per minute of this API key: limit 100, used 60, asked 60" in refused.value.message
    assert refused.value.status.type == "tokens"
    assert await counts.remaining(grant) == 40
    first.settle(25)
    first.settle(99)
    assert await counts.remaining(grant) == 75
    second = await counts.call(grant, 75, at=1)
    second.settle(None)
    assert await counts.remaining(grant) == 75


async def test_simultaneous_calls_cannot_all_pass(counts: Counting) -> None:
    """L03: TPM 100, five calls at once of 60 tokens and more: one is admitted."""
    grant = counts.grant(tpm=100)
    results = await asyncio.gather(*(counts.call(grant, 62, at=n) for n in range(5)), return_exceptions=True)
    admitted = {at: result for at, result in enumerate(results) if isinstance(result, Admission)}
    assert len(admitted) == 1
    assert sum(isinstance(result, Throttled) for result in results) == 4
    ((at, admission),) = admitted.items()
    admission.settle(10)
    assert await counts.remaining(grant, at=at) == 90


async def test_a_key_has_room_but_its_tenant_has_not(counts: Counting) -> None:
    """All or none: what the tenant refuses is not counted for the key either."""
    together = Limits(rpm=10, tpm=100)
    first, second = (counts.grant(key, together, rpm=10, tpm=80) for key in ("a", "b"))
    held = await counts.call(first, 70)
    with pytest.raises(Throttled) as refused:
        await counts.call(second, 40, at=1)
    assert "tokens per minute of this API key's tenant: limit 100, used 70, asked 40" in refused.value.message
    assert await counts.remaining(second) == 30
    assert await counts.remaining(second, "requests") == 9
    held.settle(None)
    (await counts.call(second, 80, at=1)).settle(80)
    assert await counts.remaining(first) == 20


async def test_a_call_that_could_only_be_refused_later_is_refused_at_the_door(counts: Counting) -> None:
    grant = counts.grant(tpm=10)
    (await counts.call(grant, 10)).settle(10)
    with pytest.raises(Throttled) as refused:
        await counts.enter(grant, at=1)
    assert refused.value.status.type == "tokens"


async def test_a_call_refused_at_the_door_is_told_to_wait_for_all_that_it_may_need(short: Counting) -> None:
    """L02: retrying after Retry-After succeeds, also where only the fewest tokens of a call were known."""
    grant = short.grant(tpm=100)
    (await short.call(grant, 60)).settle(60)
    await asyncio.sleep(0.4)
    (await short.call(grant, 35, at=1)).settle(35)
    waits = {}
    for most in (20, 60, 400):
        with pytest.raises(Throttled) as refused:
            await answered(partial(short.limiters[0].admission(grant).enter, least=10, most=most))
        waits[most] = refused.value.retry_after_s or 0.0
    assert waits[20] - waits[60] < 0.2
    assert waits[400] - waits[60] > 0.2
    with pytest.raises(Throttled) as refused:
        await answered(partial(short.limiters[0].admission(grant).enter, least=101, most=101))
    assert refused.value.retry is False


async def test_what_can_never_fit_is_told_so_and_gives_its_request_back(counts: Counting) -> None:
    grant = counts.grant(rpm=5, tpm=100)
    with pytest.raises(Throttled) as refused:
        await counts.call(grant, 101)
    assert refused.value.retry is False
    assert await counts.remaining(grant, "requests") == 5


async def test_calls_at_one_time(counts: Counting) -> None:
    grant = counts.grant(concurrency=2)
    running = [await counts.call(grant, at=number) for number in range(2)]
    with pytest.raises(Throttled) as refused:
        await counts.enter(grant)
    assert "calls at one time of this API key: limit 2, used 2, asked 1" in refused.value.message
    running.pop().settle(1)
    running.append(await counts.call(grant, at=1))
    for admission in running:
        admission.settle(None)
    (await counts.call(grant)).settle(1)


async def test_what_a_call_takes_beyond_its_reservation_is_charged(counts: Counting) -> None:
    grant = counts.grant(tpm=100)
    (await counts.call(grant, 50)).settle(130)
    assert await counts.remaining(grant) == 0
    with pytest.raises(Throttled):
        await counts.enter(grant)


async def test_a_call_that_ends_before_it_is_answered_leaves_nothing(counts: Counting) -> None:
    grant = counts.grant(rpm=1, tpm=100, concurrency=1)
    admission = counts.limiters[0].admission(grant)
    told: list[object] = []
    admission.enter(told.append)
    admission.settle(None)
    again = counts.limiters[0].admission(grant)
    await answered(again.enter)
    again.reserve(50, told.append)
    again.settle(None)
    assert await counts.remaining(grant) == 100
    assert await counts.remaining(grant, "requests") == 1
    (await counts.call(grant, 100)).settle(0)


async def test_after_a_minute_the_whole_limit_is_back_and_waiting_for_it_was_right(short: Counting) -> None:
    """L02: retrying after Retry-After succeeds."""
    grant = short.grant(tpm=100, rpm=2)
    (await short.call(grant, 60)).settle(60)
    await asyncio.sleep(0.3)
    (await short.call(grant, 30, at=1)).settle(30)
    for tokens in (10, 50):
        with pytest.raises(Throttled) as refused:
            await short.call(grant, tokens)
        wait_s = refused.value.retry_after_s
        assert wait_s is not None
        assert wait_s < SHORT_S - 0.2
    await asyncio.sleep(wait_s)
    (await short.call(grant, 60, at=1)).settle(None)
    await asyncio.sleep(SHORT_S)
    left = await short.left(grant)
    assert left == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "0s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "0s",
    }


async def test_what_a_call_has_reserved_counts_as_long_as_it_runs(short: Counting) -> None:
    """Longer than a minute, over all gateways; what it took beyond counts from its end."""
    grant = short.grant(tpm=100, rpm=1)
    long = await short.call(grant, 80)
    await asyncio.sleep(1.2 * SHORT_S)
    assert await short.remaining(grant, "requests") == 1
    with pytest.raises(Throttled) as refused:
        await short.call(grant, 30, at=1)
    assert refused.value.retry_after_s == BUSY_S
    long.settle(95)
    assert await short.remaining(grant) == 85


async def test_a_call_that_is_ended_before_its_worker_has_said_what_it_took(
    counts: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that it reserved is charged until it does, and the rest comes back when it does."""
    monkeypatch.setattr(limiter, "_LAST_WORDS_S", 0.02)
    grant = counts.grant(tpm=100, concurrency=1)
    told = (await counts.call(grant, 80)).settle_when_told(10)
    assert await counts.remaining(grant) == 20
    await until(counts.idle)
    assert await counts.remaining(grant) == 20
    (await counts.call(grant, 5, at=1)).settle(None)
    for _ in range(2):
        told(7)
        assert await counts.remaining(grant) == 83


async def test_last_words_in_time(counts: Counting) -> None:
    grant = counts.grant(tpm=100)
    (await counts.call(grant, 80)).settle_when_told(10)(7)
    assert await counts.remaining(grant) == 83
    assert [(each.settled, each.refunded) for each in counts.limiters if each.settled] == [(17, 63)]


async def test_a_reservation_after_a_long_wait_counts_from_then(short: Counting) -> None:
    grant = short.grant(tpm=100, rpm=1)
    admission = await short.enter(grant)
    await asyncio.sleep(SHORT_S + 0.1)
    await answered(admission.reserve, 70)
    assert await short.remaining(grant) == 30
    assert await short.remaining(grant, "requests") == 0
    admission.settle(5)
    assert await short.remaining(grant) == 95


async def test_forty_calls_over_all_gateways_are_never_over_the_limit(short: Counting) -> None:
    """F7 in spirit: whatever the order, no rolling minute holds more than the limit, and all of it comes back."""
    grant, taken = short.grant(tpm=1000), list[tuple[float, int]]()
    clock = asyncio.get_running_loop().time

    async def one(number: int) -> bool:
        try:
            admission = await short.call(grant, 90, at=number)
        except Throttled:
            return False
        at = clock()
        await asyncio.sleep(0.01 * (number % 4))
        used = 30 + number
        admission.settle(used)
        taken.append((at, used))
        return True

    for _ in range(4):
        await asyncio.gather(*(one(number) for number in range(40)))
        await asyncio.sleep(0.4)
    for end, _ in taken:
        # What was reserved over the wire was counted a little before this process heard of it.
        inside = sum(tokens for at, tokens in taken if end - SHORT_S + 0.2 < at <= end)
        assert inside <= 1000
    assert len(taken) >= 22
    await asyncio.sleep(SHORT_S)
    assert await short.remaining(grant) == 1000
    await until(short.idle)


async def test_gateways_know_how_many_they_are(server: ValkeyServer) -> None:
    made = [SharedCounts(server.url, gateways=1, window_s=SHORT_S, timeout_s=PATIENT_S) for _ in range(3)]
    for one in made:
        one.start()
    await until(lambda: [one.gateways for one in made] == [3, 3, 3])
    await made.pop().stop()
    await until(lambda: [one.gateways for one in made] == [2, 2])
    for one in made:
        await one.stop()
    alone = SharedCounts(server.url, gateways=4, window_s=SHORT_S, timeout_s=PATIENT_S)
    alone.start()
    (await Counting([Limiter(alone)], "t").call(Grant("k", "t", limits=Limits(rpm=9)))).settle(1)
    assert alone.gateways == 4, "as many as the settings say, at least"
    await alone.stop()
