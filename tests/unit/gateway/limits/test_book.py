"""The book of a rolling minute, against a model of it that forgets nothing and counts everything anew."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.limits.book import Book, Charge
from control_plane.gateway.limits.scope import Scope, scopes_of
from control_plane.gateway.limits.verdict import Refusal, Standing

TENANT = Limits(rpm=6, tpm=150, concurrency=3)
GRANTS = (
    Grant("a", "t", limits=Limits(rpm=4, tpm=100, concurrency=2), tenant_limits=TENANT),
    Grant("b", "t", limits=Limits(tpm=60), tenant_limits=TENANT),
    Grant("c", "t", tenant_limits=TENANT),
    Grant("d", "u", limits=Limits(rpm=1)),
)
SCOPES = tuple({scope.name: scope for grant in GRANTS for scope in scopes_of(grant)}.values())


@dataclass(eq=False)
class Call:
    scopes: tuple[Scope, ...]
    at: float
    charge: Charge
    tokens: int = 0
    running: bool = True


@dataclass
class Model:
    calls: list[Call] = field(default_factory=list)

    def used(self, scope: Scope, now: float) -> tuple[int, int, int]:
        """Requests, tokens and running calls of a scope in the minute that ends now."""
        mine = [call for call in self.calls if scope in call.scopes]
        recent = [call for call in mine if call.at > now - 60]
        return len(recent), sum(call.tokens for call in recent), sum(call.running for call in mine)

    def room(self, scopes: tuple[Scope, ...], requests: int, tokens: int, running: int, now: float) -> bool:
        for scope in scopes:
            used = self.used(scope, now)
            limits = (scope.limits.rpm, scope.limits.tpm, scope.limits.concurrency)
            for have, asked, limit in zip(used, (requests, tokens, running), limits, strict=True):
                if limit is not None and asked and have + asked > limit:
                    return False
        return True

    def counts(self, call: Call, now: float) -> bool:
        return call.at > now - 60


class BookMachine(RuleBasedStateMachine):
    """Whole seconds, so that sums of times are exact."""

    entered: Bundle[Call] = Bundle("entered")
    reserved: Bundle[Call] = Bundle("reserved")

    def __init__(self) -> None:
        super().__init__()
        self.book, self.model, self.now = Book(), Model(), 1000.0

    @rule(seconds=st.sampled_from([0, 1, 7, 29, 30, 59, 60, 61]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(target=entered, grant=st.sampled_from(GRANTS))
    def enter(self, grant: Grant) -> object:
        scopes = scopes_of(grant)
        room = self.model.room(scopes, 1, 1, 1, self.now)
        found = self.book.enter(scopes, self.now)
        if isinstance(found, Refusal):
            assert not room
            self.check_wait(found, scopes, (1, 1, 1))
            return multiple()
        assert room
        call = Call(scopes, self.now, found)
        self.model.calls.append(call)
        return call

    @rule(target=reserved, call=consumes(entered), tokens=st.integers(1, 120))
    def reserve(self, call: Call, tokens: int) -> object:
        again = 0 if self.model.counts(call, self.now) else 1
        room = self.model.room(call.scopes, again, tokens, 0, self.now)
        refusal = self.book.reserve(call.scopes, call.charge, tokens, self.now)
        if refusal is not None:
            assert not room
            self.model.calls.remove(call)
            self.check_wait(refusal, call.scopes, (1, tokens, 0))
            return multiple()
        assert room
        call.at, call.tokens = self.now, tokens
        return call

    @rule(call=consumes(reserved), part=st.integers(0, 100), twice=st.booleans())
    def settle(self, call: Call, part: int, twice: bool) -> None:
        tokens = call.tokens * part // 100
        for _ in range(1 + twice):
            self.book.settle(call.charge, tokens, self.now)
        call.tokens, call.running = tokens, False

    @rule(call=consumes(entered) | consumes(reserved))
    def give_back(self, call: Call) -> None:
        self.book.settle(call.charge, None, self.now)
        self.model.calls.remove(call)

    def check_wait(self, refusal: Refusal, scopes: tuple[Scope, ...], asked: tuple[int, int, int]) -> None:
        """After the wait there is room, and not a second earlier; none is told only where there never is."""
        if refusal.limit == "concurrency":
            return
        if refusal.wait_s is None:
            assert refusal.asked > refusal.bound
            return
        requests, tokens, _ = asked
        at = self.now + refusal.wait_s
        assert self.model.room(scopes, requests, tokens, 0, at)
        assert not self.model.room(scopes, requests, tokens, 0, at - 1)
        assert 0 < refusal.wait_s <= 60

    @invariant()
    def nothing_is_over_its_limit(self) -> None:
        for scope in SCOPES:
            requests, tokens, running = self.model.used(scope, self.now)
            limits = scope.limits
            assert limits.rpm is None or requests <= limits.rpm
            assert limits.tpm is None or tokens <= limits.tpm
            assert limits.concurrency is None or running <= limits.concurrency

    @invariant()
    def the_book_says_the_same(self) -> None:
        for scope, standing in zip(SCOPES, self.book.standing(SCOPES, self.now), strict=True):
            assert (standing.requests, standing.tokens) == self.model.used(scope, self.now)[:2]
            assert (standing.reset_s > 0) == (standing.requests > 0)
        assert self.book.held == sum(call.tokens for call in self.model.calls if call.running)

    def teardown(self) -> None:
        for call in self.model.calls:
            self.book.settle(call.charge, call.tokens, self.now)
        assert self.book.held == 0
        assert self.book.running == 0
        assert self.book.standing(SCOPES, self.now + 60) == (Standing(),) * len(SCOPES)


TestBook = BookMachine.TestCase


def test_what_a_call_takes_beyond_its_reservation_counts_too() -> None:
    book, scopes = Book(), scopes_of(Grant("k", limits=Limits(tpm=100)))
    charge = book.enter(scopes, 0.0)
    assert isinstance(charge, Charge)
    assert book.reserve(scopes, charge, 50, 0.0) is None
    book.settle(charge, 130, 1.0)
    refusal = book.enter(scopes, 2.0)
    assert isinstance(refusal, Refusal)
    assert (refusal.used, refusal.wait_s) == (130, 58.0)


def test_the_longest_wait_of_all_limits_is_told() -> None:
    scopes = scopes_of(Grant("k", "t", limits=Limits(rpm=2), tenant_limits=Limits(rpm=1)))
    book = Book()
    book.enter(scopes, 0.0)
    book.enter(scopes_of(Grant("other", "t", limits=Limits(rpm=2))), 3.0)
    refusal = book.enter(scopes, 5.0)
    assert isinstance(refusal, Refusal)
    assert (refusal.scope.kind, refusal.wait_s) == ("tenant", 55.0)


@pytest.mark.parametrize("limits", [Limits(rpm=0), Limits(tpm=0), Limits(concurrency=0)])
def test_a_limit_of_nothing_never_has_room(limits: Limits) -> None:
    refusal = Book().enter(scopes_of(Grant("k", limits=limits)), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.wait_s is None


def test_a_call_that_is_forced_counts() -> None:
    book, scopes = Book(), scopes_of(Grant("k", limits=Limits(rpm=1, tpm=10)))
    for _ in range(2):
        charge = book.enter(scopes, 0.0, force=True)
        assert isinstance(charge, Charge)
        assert book.reserve(scopes, charge, 8, 0.0, force=True) is None
    assert book.standing(scopes, 0.0)[0] == Standing(2, 16, 60.0)


def test_accounts_that_nobody_uses_are_forgotten() -> None:
    book = Book()
    for number in range(3000):
        charge = book.enter(scopes_of(Grant(f"k{number}", limits=Limits(rpm=1))), number * 1.0)
        assert isinstance(charge, Charge)
        book.settle(charge, 0, number * 1.0)
    assert len(book._accounts) <= 1100
