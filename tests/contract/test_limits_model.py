"""The counts of a rolling minute, in process and in a server, against a model of them that forgets nothing and counts
everything anew. Time is the test's: whole seconds, so that sums of times are exact."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
import valkey
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.limits.book import Book, Charge
from control_plane.gateway.limits.rolling import GIVE_BACK, SCRIPT, Step, arguments, reply_of
from control_plane.gateway.limits.scope import Scope, scopes_of
from control_plane.gateway.limits.verdict import BUSY_S, Refusal, Standing
from tests.fuzz.bounds import bounded
from tests.valkey_server import ValkeyServer, valkey_server

TENANT = Limits(rpm=6, tpm=150, concurrency=3)
LIMITS = (
    ("a", "t", Limits(rpm=4, tpm=100, concurrency=2), TENANT),
    ("b", "t", Limits(tpm=60), TENANT),
    ("c", "t", Limits(), TENANT),
    ("d", "u", Limits(rpm=1), Limits()),
)
MINUTE_S = 60
STEPS = 40
LEASE_S = 10_000.0

Scopes = tuple[Scope, ...]


@dataclass(eq=False)
class Call:
    """``at`` is when it reserved, or entered. ``tokens`` are reserved, then taken of that; ``beyond`` taken beyond, at
    ``ended``."""

    name: str
    scopes: Scopes
    at: float
    tokens: int = 0
    running: bool = True
    beyond: int = 0
    ended: float = 0.0
    charge: Charge | None = None
    began: float = 0.0
    reserved: int = 0


class Counts(Protocol):
    """What is tested."""

    def enter(self, call: Call, now: float, least: int, most: int) -> Refusal | None: ...

    def reserve(self, call: Call, tokens: int, now: float) -> Refusal | None: ...

    def settle(self, call: Call, tokens: int | None, now: float) -> None: ...

    def lower(self, call: Call, tokens: int, now: float) -> None: ...

    def standing(self, scopes: Scopes, now: float) -> tuple[Standing, ...]: ...


class InProcess:
    def __init__(self) -> None:
        self.book = Book()

    def enter(self, call: Call, now: float, least: int, most: int) -> Refusal | None:
        found = self.book.enter(call.scopes, now, least=least, most=most)
        if isinstance(found, Refusal):
            return found
        call.charge = found
        return None

    def reserve(self, call: Call, tokens: int, now: float) -> Refusal | None:
        assert call.charge is not None
        return self.book.reserve(call.scopes, call.charge, tokens, now)

    def settle(self, call: Call, tokens: int | None, now: float) -> None:
        assert call.charge is not None
        self.book.settle(call.charge, tokens, now)

    def lower(self, call: Call, tokens: int, now: float) -> None:
        assert call.charge is not None
        self.book.lower(call.charge, tokens, now)

    def standing(self, scopes: Scopes, now: float) -> tuple[Standing, ...]:
        return self.book.standing(scopes, now)


class InServer:
    """The script, with the test's time for the server's clock. Leases do not end: the test renews no call."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sha = client.script_load(SCRIPT)

    def _do(self, step: Step, now: float) -> Any:
        told = arguments(step, now, window_s=MINUTE_S, lease_s=LEASE_S, server_us=int(now * 1e6))
        return reply_of(step, self._client.evalsha(self._sha, *told))

    def enter(self, call: Call, now: float, least: int, most: int) -> Refusal | None:
        call.began = now
        refusal: Refusal | None = self._do(Step("enter", call.name, call.scopes, least, most), now).refusal
        return refusal

    def reserve(self, call: Call, tokens: int, now: float) -> Refusal | None:
        call.began, call.reserved = now, tokens
        refusal: Refusal | None = self._do(Step("reserve", call.name, call.scopes, tokens, tokens), now).refusal
        return refusal

    def settle(self, call: Call, tokens: int | None, now: float) -> None:
        taken = GIVE_BACK if tokens is None else tokens
        self._do(Step("settle", call.name, call.scopes, taken, 0, call.reserved, call.began, now), now)

    def lower(self, call: Call, tokens: int, now: float) -> None:
        self._do(Step("lower", call.name, call.scopes, tokens), now)

    def standing(self, scopes: Scopes, now: float) -> tuple[Standing, ...]:
        return tuple(self._do(Step("look", "", (scope,)), now).standings[0] for scope in scopes)


class Minute(RuleBasedStateMachine):
    """``make`` gives the counts under test."""

    entered: Bundle[Call] = Bundle("entered")
    reserved: Bundle[Call] = Bundle("reserved")
    ended: Bundle[Call] = Bundle("ended")
    examples = itertools.count()

    def __init__(self, make: Callable[[], Counts]) -> None:
        super().__init__()
        self.counts = make()
        self.now = 1_000_000.0
        self.calls: list[Call] = []
        self.numbers = itertools.count()
        # Whatever the server still has of other examples is of other tenants.
        example = next(self.examples)
        self.grants = [
            Grant(key, f"{tenant}{example}", limits=own, tenant_limits=all_of) for key, tenant, own, all_of in LIMITS
        ]
        self.scopes = tuple({scope.name: scope for grant in self.grants for scope in scopes_of(grant)}.values())

    # the model

    def used(self, scope: Scope, now: float) -> tuple[int, int, int]:
        """Requests, tokens and running calls of a scope in the minute that ends now, if those that run have not ended
        by then."""
        mine = [call for call in self.calls if scope in call.scopes]
        tokens = sum(call.tokens for call in mine if call.running or call.at > now - MINUTE_S)
        tokens += sum(call.beyond for call in mine if call.ended > now - MINUTE_S)
        return sum(call.at > now - MINUTE_S for call in mine), tokens, sum(call.running for call in mine)

    def later(self, scope: Scope, at: float) -> tuple[int, int, int]:
        """The same, if all that run have ended by then, and taken all that they have."""
        running = [call for call in self.calls if call.running]
        for call in running:
            call.running = False
        try:
            return self.used(scope, at)
        finally:
            for call in running:
                call.running = True

    def room(self, scopes: Scopes, asked: tuple[int, int, int], used: Callable[[Scope], tuple[int, int, int]]) -> bool:
        return all(
            limit is None or not more or have + more <= limit
            for scope in scopes
            for have, more, limit in zip(
                used(scope), asked, (scope.limits.rpm, scope.limits.tpm, scope.limits.concurrency), strict=True
            )
        )

    def room_now(self, scopes: Scopes, *asked: int) -> bool:
        requests, tokens, running = asked
        return self.room(scopes, (requests, tokens, running), lambda scope: self.used(scope, self.now))

    def overdue(self, scopes: Scopes) -> bool:
        return any(
            call.running and call.tokens and call.at <= self.now - MINUTE_S and scope in call.scopes
            for call in self.calls
            for scope in scopes
        )

    def check_wait(self, refusal: Refusal, scopes: Scopes, requests: int, tokens: int) -> None:
        """After the wait there is room, and where no call is overdue not a second earlier; none is told only where
        there never is."""
        if refusal.limit == "concurrency":
            return
        if refusal.wait_s is None:
            assert refusal.asked > refusal.bound
            return
        at = self.now + refusal.wait_s
        assert 0 < refusal.wait_s <= MINUTE_S
        assert self.room(scopes, (requests, tokens, 0), lambda scope: self.later(scope, at))
        if not self.overdue(scopes):
            assert not self.room(scopes, (requests, tokens, 0), lambda scope: self.later(scope, at - 1))
        else:
            assert refusal.wait_s >= BUSY_S

    # what happens

    @rule(seconds=st.sampled_from([0, 1, 7, 29, 30, 59, 60, 61]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(target=entered, who=st.integers(0, len(LIMITS) - 1), least=st.integers(0, 40), more=st.integers(0, 20))
    def enter(self, who: int, least: int, more: int) -> object:
        scopes = scopes_of(self.grants[who])
        call = Call(f"c{next(self.numbers)}", scopes, self.now)
        room = self.room_now(scopes, 1, least, 1)
        refusal = self.counts.enter(call, self.now, least, least + more)
        assert (refusal is None) is room
        if refusal is not None:
            self.check_enter(refusal, scopes, least, least + more)
            return multiple()
        self.calls.append(call)
        return call

    def check_enter(self, refusal: Refusal, scopes: Scopes, least: int, most: int) -> None:
        """Told to wait for room for the most, where the least is not there. A limit that has room for the least is not
        waited for, so the one that refuses is looked at alone."""
        only = tuple(scope for scope in scopes if scope == refusal.scope)
        if refusal.limit == "rpm":
            self.check_wait(refusal, only, 1, 0)
        elif refusal.limit == "tpm":
            self.check_wait(refusal, only, 0, min(most, refusal.bound))

    @rule(target=reserved, call=consumes(entered), tokens=st.integers(1, 120))
    def reserve(self, call: Call, tokens: int) -> object:
        again = 0 if call.at > self.now - MINUTE_S else 1
        room = self.room_now(call.scopes, again, tokens, 0)
        refusal = self.counts.reserve(call, tokens, self.now)
        assert (refusal is None) is room
        if refusal is not None:
            self.calls.remove(call)
            self.check_wait(refusal, call.scopes, 1, tokens)
            return multiple()
        call.at, call.tokens = self.now, tokens
        return call

    @rule(target=ended, call=consumes(reserved), part=st.integers(0, 160), twice=st.booleans())
    def settle(self, call: Call, part: int, twice: bool) -> Call:
        taken = call.tokens * part // 100
        for _ in range(1 + twice):
            self.counts.settle(call, taken, self.now)
        call.running, call.ended = False, self.now
        call.beyond = max(0, taken - call.tokens)
        call.tokens = min(taken, call.tokens)
        return call

    @rule(call=consumes(entered))
    def settle_what_reserved_nothing(self, call: Call) -> None:
        self.counts.settle(call, 0, self.now)
        call.running = False

    @rule(call=consumes(ended), part=st.integers(0, 99))
    def lower(self, call: Call, part: int) -> None:
        tokens = call.tokens * part // 100
        self.counts.lower(call, tokens, self.now)
        call.tokens = min(tokens, call.tokens)

    @rule(call=consumes(entered) | consumes(reserved))
    def give_back(self, call: Call) -> None:
        self.counts.settle(call, None, self.now)
        self.calls.remove(call)

    # what holds

    @invariant()
    def the_counts_say_the_same(self) -> None:
        for scope, standing in zip(self.scopes, self.counts.standing(self.scopes, self.now), strict=True):
            assert (standing.requests, standing.tokens) == self.used(scope, self.now)[:2]
            assert (standing.requests_reset_s > 0) == (standing.requests > 0)
            assert (standing.tokens_reset_s > 0) == (standing.tokens > 0)
            assert self.later(scope, self.now + standing.requests_reset_s)[0] == 0
            assert self.later(scope, self.now + standing.tokens_reset_s)[1] == 0

    def teardown(self) -> None:
        for call in self.calls:
            self.counts.settle(call, call.tokens, self.now)
        if isinstance(self.counts, InProcess):
            assert self.counts.book.held == 0
            assert self.counts.book.running == 0
        nothing = self.counts.standing(self.scopes, self.now + MINUTE_S)
        assert nothing == (Standing(),) * len(self.scopes)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as started:
        yield started


def test_in_process() -> None:
    bounds = settings(bounded(100), stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: Minute(InProcess), settings=bounds)  # type: ignore[no-untyped-call]


def test_in_a_server(server: ValkeyServer) -> None:
    with valkey.Valkey.from_url(server.url) as client:
        bounds = settings(bounded(60), stateful_step_count=STEPS)
        run_state_machine_as_test(lambda: Minute(lambda: InServer(client)), settings=bounds)  # type: ignore[no-untyped-call]


KEY = Grant("k", "alone", limits=Limits(rpm=9, tpm=100, concurrency=9))


class Told:
    """A server at a certain time, whose gateways tell it what they know."""

    def __init__(self, client: Any, tenant: str) -> None:
        self._client = client
        self._sha = client.script_load(SCRIPT)
        self.scopes = scopes_of(dataclasses.replace(KEY, tenant=tenant))

    def do(self, now: float, op: str, tokens: int = 0, *, lease_s: float = 30.0, **fields: Any) -> Any:
        step = Step(op, "c", self.scopes, tokens, tokens, **fields)
        told = arguments(step, now, window_s=MINUTE_S, lease_s=lease_s, server_us=int(now * 1e6))
        return reply_of(step, self._client.evalsha(self._sha, *told))

    def used(self, now: float) -> tuple[int, int]:
        standing = self.do(now, "look").standings[0]
        return standing.requests, standing.tokens


@pytest.fixture
def told(server: ValkeyServer, request: pytest.FixtureRequest) -> Iterator[Told]:
    with valkey.Valkey.from_url(server.url) as client:
        yield Told(client, request.node.name)


def test_an_end_that_the_server_never_saw_begin_is_added_when_it_was(told: Told) -> None:
    """Reserved at 1000 and ended at 1030, told at 1040: what was reserved counts to 1060, what came beyond to 1090."""
    for _ in range(2):
        told.do(1040.0, "settle", 70, reserved=50, began_mono=1000.0, asked_mono=1030.0)
        assert told.used(1040.0) == (1, 70)
    assert told.used(1060.0) == (0, 20)
    assert told.used(1090.0) == (0, 0)


def test_an_end_that_is_told_too_late_counts_no_more(told: Told) -> None:
    told.do(1095.0, "settle", 70, reserved=50, began_mono=1000.0, asked_mono=1030.0)
    assert told.used(1095.0) == (0, 0)


def test_a_call_that_the_server_never_saw_begin_is_made_known_while_it_runs(told: Told) -> None:
    for at in (1040.0, 1050.0):
        told.do(at, "renew", reserved=50, began_mono=1000.0)
        assert told.used(at) == (1, 50)
    assert told.used(1060.0) == (0, 50), "it runs, and holds what it has reserved"
    told.do(1065.0, "renew", reserved=50, began_mono=1000.0)
    told.do(1070.0, "settle", 60, reserved=50, began_mono=1000.0, asked_mono=1070.0)
    assert told.used(1070.0) == (0, 10)


def test_what_a_dead_gateway_had_reserved_ends_with_the_minute_or_with_its_lease(told: Told) -> None:
    told.do(1000.0, "enter")
    told.do(1000.0, "reserve", 50)
    assert told.used(1059.0) == (1, 50)
    assert told.used(1060.0) == (0, 0)
    told.do(1100.0, "enter")
    told.do(1100.0, "reserve", 50)
    told.do(1150.0, "renew", reserved=50, began_mono=1100.0)
    assert told.used(1179.0) == (0, 50)
    assert told.used(1180.0) == (0, 0)
