"""What calls pass: in process for one gateway, in a shared store for several.

The book of this process is kept in any case. With a store it only records, so that it knows this gateway's part when
the store is gone: it then grants its share of each limit, one of as many parts as there are gateways. For a minute
after the store's return it is obeyed too, since the store may have forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from control_plane.contracts.errors import DropReason, InferDeckError, Unavailable
from control_plane.contracts.grant import Grant
from control_plane.gateway.limits.answer import limit_headers, throttled
from control_plane.gateway.limits.book import MINUTE_S, Book, Charge
from control_plane.gateway.limits.rolling import GIVE_BACK, Reply
from control_plane.gateway.limits.scope import Scope, scopes_of, shares_of
from control_plane.gateway.limits.shared import SharedCounts
from control_plane.gateway.limits.spending import Wish
from control_plane.gateway.limits.verdict import Refusal, Standing

_GRANTS = 10_000

_LAST_WORDS_S = 1.0
"""For how long a call that was ended counts as one that runs while its worker does not tell what it had generated, in
seconds."""

_ALONE_S = 5.0
"""When to try again what fits into the limit, and not into this gateway's share of it: the store may be back."""

Then = Callable[[InferDeckError | None], None]


class Limiter:
    """``reserved``, ``settled`` and ``refunded`` are tokens since the start. ``name`` is unique among gateways."""

    def __init__(
        self,
        shared: SharedCounts | None = None,
        *,
        name: str = "",
        window_s: float = MINUTE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = Book(window_s)
        self.shared = shared
        self.clock = clock
        self.reserved = self.settled = self.refunded = 0
        self._name = name
        self._window_s = window_s
        self._calls = 0
        self._scopes: dict[str, tuple[Grant, tuple[Scope, ...]]] = {}

    @property
    def state(self) -> str:
        """Of the shared store: "up" or "down"; empty where there is none."""
        return "" if self.shared is None else "up" if self.shared.up else "down"

    @property
    def obeyed(self) -> bool:
        """Whether this process' own book decides too."""
        shared = self.shared
        return shared is None or not shared.up or self.clock() - shared.up_since < self._window_s

    def admission(self, grant: Grant) -> Admission:
        """For one call of this key."""
        self._calls += 1
        return Admission(self, grant, self.scopes(grant), f"{self._name}:{self._calls}")

    def look(self, grant: Grant, then: Callable[[bytes], None]) -> None:
        """The header lines of a key that asks for nothing that counts."""
        scopes = self.scopes(grant)
        if not scopes:
            then(b"")
        elif self.shared is None:
            then(limit_headers(scopes, self.book.standing(scopes, self.clock())))
        else:

            def told(reply: Reply | None) -> None:
                if reply is not None:
                    then(limit_headers(scopes, reply.standings))
                else:
                    then(limit_headers(self.share(scopes), self.book.standing(scopes, self.clock())))

            self.shared.ask("look", "", scopes, 0, told)

    def share(self, scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
        """What this gateway grants by itself."""
        return scopes if self.shared is None else shares_of(scopes, self.shared.gateways)

    def scopes(self, grant: Grant) -> tuple[Scope, ...]:
        known = self._scopes.get(grant.key_id)
        if known is not None and known[0] is grant:
            return known[1]
        if len(self._scopes) >= _GRANTS:
            self._scopes.clear()
        scopes = scopes_of(grant)
        self._scopes[grant.key_id] = (grant, scopes)
        return scopes


class Admission:
    """One call: enter, reserve, settle, in this order; settled once, whatever happens. ``wish`` is how its tokens come
    about, for the words of a refusal.

    ``then`` hears None or why not, at once where that is known at once, and nothing after the call was settled.
    Refused, a call is settled already.
    """

    __slots__ = (
        "_charge",
        "_grant",
        "_granting",
        "_held",
        "_limiter",
        "_name",
        "_open",
        "_scopes",
        "_standings",
        "wish",
    )

    def __init__(self, limiter: Limiter, grant: Grant, scopes: tuple[Scope, ...], name: str) -> None:
        self._limiter = limiter
        self._grant = grant
        self._scopes = scopes
        self._name = name
        self._charge: Charge | None = None
        self._held = 0
        self._open = True
        self._granting = scopes
        """What was last decided by: the limits, or this gateway's share of them."""
        self._standings: Sequence[Standing] | None = None
        self.wish: Wish | None = None

    def enter(self, then: Then, *, least: int = 1, most: int = 1) -> None:
        """One more request, which will reserve ``least`` to ``most`` tokens; 0: none, and it is not reserved for."""
        if not self._scopes:
            then(None)
        elif self._limiter.shared is None:
            then(self._enter_here(least, most, force=False))
        else:
            self._ask("enter", least, most, then, lambda *, force: self._enter_here(least, most, force=force))

    def reserve(self, tokens: int, then: Then) -> None:
        """So many tokens at most; refused, the call has ended."""
        limiter, scopes = self._limiter, self._scopes
        if not scopes:
            then(None)
            return
        for scope in scopes:
            if scope.limits.tpm is not None and tokens > scope.limits.tpm:
                then(self._refused_for_good(scope, tokens))
                return
        if limiter.shared is None:
            then(self._reserve_here(tokens, force=False))
        else:
            self._ask("reserve", tokens, tokens, then, lambda *, force: self._reserve_here(tokens, force=force))

    def settle(self, tokens: int | None) -> None:
        """The call has ended and took so many tokens; None: nothing ran, and it does not even count as a request."""
        if not self._open:
            return
        self._open = False
        limiter, taken = self._limiter, tokens or 0
        if not self._scopes:
            return
        if self._charge is not None:
            limiter.book.settle(self._charge, tokens, limiter.clock())
        if self._held or taken:
            limiter.settled += taken
            limiter.refunded += max(0, self._held - taken)
        if limiter.shared is not None:
            limiter.shared.ask("settle", self._name, self._scopes, GIVE_BACK if tokens is None else tokens, None)

    def settle_when_told(self, prompt: int) -> Callable[[int], None]:
        """The call has been ended, and its worker will say what it had generated. Until then, and for good where it
        never does, it is charged all that it has reserved: so much may have been generated."""
        most = max(prompt, self._held)
        timer = asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.settle, most)

        def told(generated: int) -> None:
            timer.cancel()
            if self._open:
                self.settle(prompt + generated)
            elif prompt + generated < most:
                self._lower(prompt + generated)

        return told

    def headers(self) -> bytes:
        """As things stood when this call was last decided on."""
        if not self._scopes:
            return b""
        limiter = self._limiter
        if self._standings is None or limiter.shared is None:
            self._standings = limiter.book.standing(self._granting, limiter.clock())
        return limit_headers(self._granting, self._standings)

    def whole_limit(self) -> int | None:
        """The fewest tokens a minute of key and tenant; None is no bound."""
        bounds = [scope.limits.tpm for scope in self._granting if scope.limits.tpm is not None]
        return min(bounds) if bounds else None

    def _ask(self, op: str, tokens: int, most: int, then: Then, here: Callable[..., InferDeckError | None]) -> None:
        """Ask the store, and this process' book where it is obeyed or the store is silent."""
        limiter = self._limiter
        assert limiter.shared is not None

        def told(reply: Reply | None) -> None:
            if not self._open:
                return
            if reply is None:
                self._granting, self._standings = limiter.share(self._scopes), None
                if self._grant.limit_store_down == "closed":
                    error: InferDeckError | None = Unavailable(
                        "Rate limits cannot be checked at the moment.", reason=DropReason.NO_CAPACITY
                    )
                    self.settle(None)
                else:
                    error = here(force=False)
            else:
                self._granting, self._standings = self._scopes, reply.standings
                error = self._ended(reply.refusal) if reply.refusal is not None else here(force=not limiter.obeyed)
            then(error)

        limiter.shared.ask(op, self._name, self._scopes, tokens, told, most=most)

    def _enter_here(self, least: int, most: int, *, force: bool) -> InferDeckError | None:
        limiter = self._limiter
        found = limiter.book.enter(self._granting, limiter.clock(), least=least, most=most, force=force)
        if isinstance(found, Refusal):
            return self._ended(found)
        self._charge = found
        return None

    def _reserve_here(self, tokens: int, *, force: bool) -> InferDeckError | None:
        limiter = self._limiter
        if self._charge is None:
            return None
        refusal = limiter.book.reserve(self._granting, self._charge, tokens, limiter.clock(), force=force)
        if refusal is not None:
            return self._ended(refusal)
        self._held = tokens
        limiter.reserved += tokens
        return None

    def _lower(self, tokens: int) -> None:
        """It was settled to what it had reserved, and took fewer."""
        limiter = self._limiter
        if not self._scopes:
            return
        if self._charge is not None:
            limiter.book.lower(self._charge, tokens, limiter.clock())
        limiter.refunded += max(0, self._held - tokens)
        if limiter.shared is not None:
            limiter.shared.ask("lower", self._name, self._scopes, tokens, None)

    def _ended(self, refusal: Refusal) -> InferDeckError:
        self.settle(None)
        if refusal.wait_s is None and refusal.scope.gateways > 1:
            whole = next(scope.limits for scope in self._scopes if scope.name == refusal.scope.name)
            if refusal.asked <= getattr(whole, refusal.limit):
                refusal = replace(refusal, wait_s=_ALONE_S)
        return throttled(refusal, self.wish)

    def _refused_for_good(self, scope: Scope, tokens: int) -> InferDeckError:
        limiter = self._limiter
        used = limiter.book.standing((scope,), limiter.clock())[0].tokens
        return self._ended(Refusal(scope, "tpm", used, tokens, None))
