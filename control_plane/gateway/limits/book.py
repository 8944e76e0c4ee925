"""The counts of one process: who has used what of the last minute. Pure: time is passed in, and never goes back.

::

    enter ──▶ reserve ──▶ settle       a request, then its tokens, then what it really took
      └──────────┴──────▶ settle(None) all of it is given back

A call is one ``Charge``, in the account of its key and in that of its tenant. It counts for a minute from its
reservation, however long it runs: so it is known when there will be room. All accounts have room, or none is charged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from control_plane.gateway.limits.scope import Scope
from control_plane.gateway.limits.verdict import BUSY_S, Refusal, Standing

MINUTE_S: Final = 60.0
_SWEEP: Final = 1024


class Charge:
    """One call. ``at`` is seconds on the clock of whoever keeps the book; ``tokens`` what is reserved, then taken."""

    __slots__ = ("accounts", "at", "running", "tokens")

    def __init__(self, accounts: list[Account], at: float) -> None:
        self.accounts = accounts
        self.at = at
        self.tokens = 0
        self.running = True


class Account:
    """One scope's charges of the last minute, oldest first, the sum of their tokens, and the calls that run."""

    __slots__ = ("charges", "running", "tokens")

    def __init__(self) -> None:
        self.charges: OrderedDict[Charge, None] = OrderedDict()
        self.tokens = 0
        self.running = 0

    def expire(self, horizon: float) -> None:
        """Forget what is as old as ``horizon``."""
        charges = self.charges
        while charges:
            charge = next(iter(charges))
            if charge.at > horizon:
                return
            del charges[charge]
            self.tokens -= charge.tokens


class Book:
    """``held``: tokens that are reserved by calls that run. ``window_s``: the minute, shorter in tests."""

    def __init__(self, window_s: float = MINUTE_S) -> None:
        self._window_s = window_s
        self._accounts: dict[str, Account] = {}
        self._sweep_at = _SWEEP
        self.held = 0

    def enter(
        self, scopes: Sequence[Scope], now: float, *, least: int = 1, most: int = 1, force: bool = False
    ) -> Charge | Refusal:
        """One more request that runs. Refused also where ``least`` tokens are not left, of which it will need more; it
        is then told to wait until there is room for ``most``; one that needs none passes whatever is used up. ``force``
        counts it whatever the limits say."""
        accounts, full = [], False
        horizon = now - self._window_s
        for scope in scopes:
            account = self._account(scope, now)
            account.expire(horizon)
            limits = scope.limits
            rpm, tpm, concurrency = limits.rpm, limits.tpm, limits.concurrency
            if (
                (rpm is not None and len(account.charges) >= rpm)
                or (tpm is not None and least and account.tokens + least > tpm)
                or (concurrency is not None and account.running >= concurrency)
            ):
                full = True
            accounts.append(account)
        if full and not force:
            return max(self._refusals(scopes, accounts, 1, least, most, 1, now), key=lambda refusal: refusal.longest)
        charge = Charge(accounts, now)
        for account in accounts:
            account.charges[charge] = None
            account.running += 1
        return charge

    def reserve(
        self, scopes: Sequence[Scope], charge: Charge, tokens: int, now: float, *, force: bool = False
    ) -> Refusal | None:
        """Tokens for a call that has entered. Refused, all of the call is given back."""
        full = False
        horizon = now - self._window_s
        for scope, account in zip(scopes, charge.accounts, strict=True):
            account.expire(horizon)
            rpm, tpm = scope.limits.rpm, scope.limits.tpm
            if tpm is not None and account.tokens + tokens > tpm:
                full = True
            # It may have waited for longer than its request counted.
            if rpm is not None and len(account.charges) >= rpm and charge not in account.charges:
                full = True
        if full and not force:
            again = 0 if charge in charge.accounts[0].charges else 1
            refusals = self._refusals(scopes, charge.accounts, again, tokens, tokens, 0, now)
            refusal = max(refusals, key=lambda refusal: refusal.longest)
            self.settle(charge, None, now)
            return refusal
        charge.at, charge.tokens = now, tokens
        for account in charge.accounts:
            account.charges[charge] = None
            account.charges.move_to_end(charge)
            account.tokens += tokens
        self.held += tokens
        return None

    def settle(self, charge: Charge, tokens: int | None, now: float) -> None:
        """The call has ended and took so many tokens; None: it counts as if it had never been. Only the first time."""
        if not charge.running:
            return
        charge.running = False
        self.held -= charge.tokens
        horizon = now - self._window_s
        for account in charge.accounts:
            account.running -= 1
            account.expire(horizon)
            if charge in account.charges:
                account.tokens += (tokens or 0) - charge.tokens
                if tokens is None:
                    del account.charges[charge]
        charge.tokens = tokens or 0

    def standing(self, scopes: Sequence[Scope], now: float) -> tuple[Standing, ...]:
        """What each scope has used."""
        return tuple([self._standing(scope, now) for scope in scopes])

    @property
    def running(self) -> int:
        """Calls that run, counted once in each account."""
        return sum(account.running for account in self._accounts.values())

    def _standing(self, scope: Scope, now: float) -> Standing:
        account = self._accounts.get(scope.name)
        if account is None:
            return Standing()
        account.expire(now - self._window_s)
        charges = account.charges
        if not charges:
            return Standing()
        return Standing(len(charges), account.tokens, next(reversed(charges)).at + self._window_s - now)

    def _account(self, scope: Scope, now: float) -> Account:
        account = self._accounts.get(scope.name)
        if account is None:
            if len(self._accounts) >= self._sweep_at:
                self._sweep(now)
            account = self._accounts[scope.name] = Account()
        return account

    def _sweep(self, now: float) -> None:
        """Forget the accounts of those that do not call any more."""
        for name, account in tuple(self._accounts.items()):
            account.expire(now - self._window_s)
            if not account.charges and not account.running:
                del self._accounts[name]
        self._sweep_at = max(_SWEEP, 2 * len(self._accounts))

    def _refusals(
        self,
        scopes: Sequence[Scope],
        accounts: Sequence[Account],
        requests: int,
        tokens: int,
        most: int,
        running: int,
        now: float,
    ) -> Iterator[Refusal]:
        """Every limit that so many more would break."""
        for scope, account in zip(scopes, accounts, strict=True):
            limits = scope.limits
            used = len(account.charges)
            if limits.rpm is not None and requests and used + requests > limits.rpm:
                wait_s = self._until_requests(account, used + requests - limits.rpm, now)
                yield Refusal(scope, "rpm", used, requests, wait_s)
            if limits.tpm is not None and tokens and account.tokens + tokens > limits.tpm:
                wait_s = None
                if tokens <= limits.tpm:
                    wait_s = self._until_tokens(account, account.tokens + min(most, limits.tpm) - limits.tpm, now)
                yield Refusal(scope, "tpm", account.tokens, tokens, wait_s)
            if limits.concurrency is not None and running and account.running + running > limits.concurrency:
                yield Refusal(scope, "concurrency", account.running, running, BUSY_S if limits.concurrency else None)

    def _until_requests(self, account: Account, count: int, now: float) -> float | None:
        """Seconds until so many requests count no more; None: there are not so many."""
        for charge in account.charges:
            count -= 1
            if not count:
                return charge.at + self._window_s - now
        return None

    def _until_tokens(self, account: Account, count: int, now: float) -> float | None:
        """Seconds until so many tokens count no more; None: there are not so many."""
        for charge in account.charges:
            count -= charge.tokens
            if count <= 0:
                return charge.at + self._window_s - now
        return None
