"""The book of a rolling minute; ``tests/contract/test_limits_model.py`` has it against a model."""

from __future__ import annotations

import pytest

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.limits.book import Book, Charge
from control_plane.gateway.limits.scope import scopes_of
from control_plane.gateway.limits.verdict import BUSY_S, Refusal, Standing


def entered(book: Book, scopes: object, now: float, **fields: int) -> Charge:
    charge = book.enter(scopes, now, **fields)  # type: ignore[arg-type]
    assert isinstance(charge, Charge)
    return charge


def test_what_a_call_has_reserved_counts_as_long_as_it_runs() -> None:
    """Three minutes of an answer without max_tokens: the limit is held all the time, and no more than it took."""
    book, scopes = Book(), scopes_of(Grant("k", limits=Limits(rpm=9, tpm=100)))
    charge = entered(book, scopes, 0.0)
    assert book.reserve(scopes, charge, 80, 0.0) is None
    assert book.standing(scopes, 59.0) == (Standing(1, 80, 1.0, 1.0),)
    assert book.standing(scopes, 150.0) == (Standing(0, 80, 0.0, BUSY_S),)
    refusal = book.enter(scopes, 150.0, least=30, most=30)
    assert isinstance(refusal, Refusal)
    assert (refusal.used, refusal.wait_s) == (80, BUSY_S)
    book.settle(charge, 95, 180.0)
    assert book.standing(scopes, 180.0) == (Standing(0, 15, 0.0, 60.0),)
    assert book.standing(scopes, 240.0) == (Standing(),)


def test_a_call_that_took_fewer_than_it_was_settled_to() -> None:
    book, scopes = Book(), scopes_of(Grant("k", limits=Limits(tpm=100)))
    charge = entered(book, scopes, 0.0)
    assert book.reserve(scopes, charge, 80, 0.0) is None
    book.lower(charge, 5, 1.0)
    assert book.standing(scopes, 1.0)[0].tokens == 80, "it has not ended"
    book.settle(charge, 80, 2.0)
    for tokens in (30, 50):
        book.lower(charge, tokens, 3.0)
        assert book.standing(scopes, 3.0)[0].tokens == 30
    book.lower(charge, 5, 61.0)
    assert book.standing(scopes, 61.0)[0].tokens == 0


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
    assert book.standing(scopes, 0.0)[0] == Standing(2, 16, 60.0, 60.0)


def test_accounts_that_nobody_uses_are_forgotten() -> None:
    book = Book()
    for number in range(3000):
        charge = book.enter(scopes_of(Grant(f"k{number}", limits=Limits(rpm=1))), number * 1.0)
        assert isinstance(charge, Charge)
        book.settle(charge, 0, number * 1.0)
    assert len(book._accounts) <= 1100
