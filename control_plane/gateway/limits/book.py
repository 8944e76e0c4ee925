"""The counts of one process: who has used what of the last minute. Pure: time is passed in, and never goes back.

::

    enter ──▶ reserve ──▶ settle       a request, then its tokens, then what it really took
      └──────────┴──────▶ settle(None) all of it is given back

A call is one ``Charge``, in the account of its key and in that of its tenant. All accounts have room, or none is
charged. As a request it counts for a minute from its reservation. The tokens that it has reserved count for a minute
too, and as long as it runs. When it ends, what it took of them counts to the end of that minute, if that is not over;
what it took beyond them counts for a minute from the end.
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
    """One call, or what one took beyond its reservation. ``at`` is seconds on the clock of whoever keeps the book;
    ``tokens`` what is reserved, then taken of it."""

    __slots__ = ("accounts", "at", "running", "tokens")

    def __init__(self, accounts: list[Account], at: float) -> None:
        self.accounts = accounts
        self.at = at
        self.tokens = 0
        self.running = True


class Account:
    """One scope: its ``requests`` of the last minute and what has ``spent`` tokens in it, both oldest first; calls that
    are ``overdue``, which hold tokens for longer than that; the sum of these ``tokens``, and how many calls run."""

    __slots__ = ("overdue", "requests", "running", "spent", "tokens")

    def __init__(self) -> None:
        self.requests: OrderedDict[Charge, None] = OrderedDict()
        self.spent: OrderedDict[Charge, None] = OrderedDict()
        self.overdue: dict[Charge, None] = {}
        self.tokens = 0
        self.running = 0

    def expire(self, horizon: float) -> None:
        """Forget what is as old as ``horizon``, unless it runs."""
        requests, spent = self.requests, self.spent
        while requests:
            charge = next(iter(requests))
            if charge.at > horizon:
                break
            del requests[charge]
        while spent:
            charge = next(iter(spent))
            if charge.at > horizon:
                return
            del spent[charge]
            if charge.running:
                self.overdue[charge] = None
            else:
                self.tokens -= charge.tokens

    def resize(self, charge: Charge, tokens: int) -> None:
        """What has ended took so many of the tokens that it had."""
        if charge in self.spent:
            self.tokens += tokens - charge.tokens
            if not tokens:
                del self.spent[charge]
        elif charge in self.overdue:
            # The minute of what it took is over, and it holds nothing any more.
            del self.overdue[charge]
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
                (rpm is not None and len(account.requests) >= rpm)
                or (tpm is not None and least and account.tokens + least > tpm)
                or (concurrency is not None and account.running >= concurrency)
            ):
                full = True
            accounts.append(account)
        if full and not force:
            return max(self._refusals(scopes, accounts, 1, least, most, 1, now), key=lambda refusal: refusal.longest)
        charge = Charge(accounts, now)
        for account in accounts:
            account.requests[charge] = None
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
            if rpm is not None and len(account.requests) >= rpm and charge not in account.requests:
                full = True
        if full and not force:
            again = 0 if charge in charge.accounts[0].requests else 1
            refusals = self._refusals(scopes, charge.accounts, again, tokens, tokens, 0, now)
            refusal = max(refusals, key=lambda refusal: refusal.longest)
            self.settle(charge, None, now)
            return refusal
        charge.at, charge.tokens = now, tokens
        for account in charge.accounts:
            account.requests[charge] = None
            account.requests.move_to_end(charge)
            account.spent[charge] = None
            account.tokens += tokens
        self.held += tokens
        return None

    def settle(self, charge: Charge, tokens: int | None, now: float) -> None:
        """The call has ended and took so many tokens; None: it counts as if it had never been. Only the first time."""
        if not charge.running:
            return
        horizon = now - self._window_s
        taken = tokens or 0
        kept = min(taken, charge.tokens)
        beyond: Charge | None = None
        if taken > kept:
            beyond = Charge(charge.accounts, now)
            beyond.tokens, beyond.running = taken - kept, False
        for account in charge.accounts:
            account.running -= 1
            account.expire(horizon)
            account.resize(charge, kept)
            if tokens is None:
                account.requests.pop(charge, None)
            if beyond is not None:
                account.spent[beyond] = None
                account.tokens += beyond.tokens
        charge.running = False
        self.held -= charge.tokens
        charge.tokens = kept

    def lower(self, charge: Charge, tokens: int, now: float) -> None:
        """A call that has ended took fewer tokens than it was settled to."""
        if charge.running or tokens >= charge.tokens:
            return
        for account in charge.accounts:
            account.expire(now - self._window_s)
            account.resize(charge, tokens)
        charge.tokens = tokens

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
        left_s = self._window_s - now
        requests, spent = account.requests, account.spent
        tokens_s = BUSY_S if account.overdue else 0.0
        if spent:
            tokens_s = max(tokens_s, next(reversed(spent)).at + left_s)
        requests_s = next(reversed(requests)).at + left_s if requests else 0.0
        return Standing(len(requests), account.tokens, requests_s, tokens_s)

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
            if not account.requests and not account.spent and not account.running:
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
            used = len(account.requests)
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
        for charge in account.requests:
            count -= 1
            if not count:
                return charge.at + self._window_s - now
        return None

    def _until_tokens(self, account: Account, count: int, now: float) -> float | None:
        """Seconds until so many tokens count no more, if calls that run have ended by then; None: there are not so
        many."""
        wait_s = 0.0
        for charge in account.overdue:
            wait_s = BUSY_S
            count -= charge.tokens
            if count <= 0:
                return wait_s
        for charge in account.spent:
            count -= charge.tokens
            if count <= 0:
                return max(wait_s, charge.at + self._window_s - now)
        return None
