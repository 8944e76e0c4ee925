"""Sending one call to the endpoint that the profile picks, and keeping why."""

from __future__ import annotations

import logging
from collections.abc import Callable

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InternalError
from control_plane.contracts.worker import Done
from control_plane.router.decisions import Decisions
from control_plane.router.expectation import Expectation
from control_plane.router.ledger import Ledger
from control_plane.router.migration import continued
from control_plane.router.requests import Request
from control_plane.router.scheduling.candidate import Ask
from control_plane.router.scheduling.kept import Attempt
from control_plane.router.scheduling.profile import Decision, Profile
from control_plane.router.scheduling.shortlist import shortlist
from control_plane.router.sessions import Sessions
from control_plane.router.targets import Targets

_log = logging.getLogger(__name__)

LOOKED_AT = 256
"""Where a model has more endpoints than this, only so many of them are weighed by several scorers."""


class Placement:
    """``decisions`` are the last ones. The profile may be exchanged."""

    def __init__(self, profile: Profile, ledger: Ledger, clock: Callable[[], float]) -> None:
        self.profile = profile
        self.decisions = Decisions()
        self.targets = Targets(lambda model: self._expectation(model).whole)
        self._ledger = ledger
        self._clock = clock
        self._expectations: dict[str, Expectation] = {}
        self._sessions = Sessions()
        self._number = 0

    def place(self, request: Request) -> Decision:
        """Send it to the best endpoint; ``chosen`` is None if there is none, and nothing has changed then.

        Raises InternalError for a call that cannot be sent, or that no endpoint can be chosen for because a part of the
        profile fails on it; no endpoint holds it then.
        """
        call, chosen_mono = continued(request.call, request.said), self._clock()
        try:
            ask, decision = self._choose(request, call, chosen_mono)
        except Exception as error:
            # What a scorer trips over is this call, and it would do so whenever those that wait are looked at.
            _log.exception("no endpoint could be chosen", extra={"request_id": call.request_id})
            raise InternalError("No worker could be chosen for the call.") from error
        if decision.chosen is not None:
            target = self.targets.of(decision.chosen)
            assert target.link is not None
            self._number += 1
            request.charge = ask.expected_tokens
            request.prompt_tokens = ask.prompt_tokens
            request.block_names = request.blocks.names(call.prompt_token_ids, decision.chosen.block_size)
            request.predicted_tokens = ask.cached_at(decision.chosen) if decision.chosen.block_size else None
            request.shelf, request.block_size = target.shelf, decision.chosen.block_size
            request.dispatched(self._number, target, self._ledger.meter(target.worker_id), chosen_mono, self._clock())
            target.attach(self._number, request, chosen_mono)
            try:
                target.link.generate(self._number, call)
            except Exception as error:
                _log.exception("a call could not be sent", extra={"request_id": call.request_id})
                target.detach(request, self._clock())
                request.target = None
                request.returned(self._clock())
                raise InternalError("The call could not be sent to a worker.") from error
            self._sessions.settle(call.session, target.instance_id, chosen_mono)
        return decision

    def expected(self, request: Request) -> float:
        """Tokens that it will probably hold at its end."""
        call = request.call
        return self._expectation(call.model).of(len(call.prompt_token_ids), call.sampling.max_tokens, request.choices)

    def _choose(self, request: Request, call: RoutedCall, now: float) -> tuple[Ask, Decision]:
        """``call`` is the request's as it goes on now. Raises whatever a part of the profile does."""
        prompt, output = len(call.prompt_token_ids), call.sampling.max_tokens - call.resumed
        charge = self._expectation(call.model).of(prompt, output, request.choices)
        cached = self.targets.cached(call.model, call.prompt_token_ids, request.blocks)
        home = self._sessions.home(call.session, now)
        ask = Ask(
            call.model, prompt, prompt + output, charge, request.choices, call.priority, request.tried, cached, home
        )
        decision = self._decide(ask, now)
        self.decisions.keep(self._attempt(request, now), self.profile, ask, decision, now)
        return ask, decision

    def _decide(self, ask: Ask, now: float) -> Decision:
        candidates = self.targets.candidates(ask.model)
        if len(candidates) > LOOKED_AT and len(self.profile.scorers) > 1:
            some = shortlist(ask, candidates, self.targets.by_slot, self._number, LOOKED_AT)
            decision = self.profile.decide(ask, some, now)
            if decision.chosen is not None:
                return decision
        return self.profile.decide(ask, candidates, now)

    def learn(self, request: Request, done: Done) -> None:
        """A call ended well: the next ones are expected to be like it, and what it had cached was so."""
        self._expectation(request.model).learn(done.prompt_tokens, done.output_tokens, request.choices)
        shelf = request.shelf
        if shelf is not None:
            shelf.found(request.predicted_tokens or 0, done.cached_tokens)
            if not shelf.told and request.choices == 1:
                tokens = [*request.call.prompt_token_ids, *request.said[:-1]]
                shelf.grown(request.blocks.names(tokens, request.block_size))

    def _attempt(self, request: Request, now: float) -> Attempt:
        call, looks = request.call, self.decisions.looks(request.call.request_id)
        at_unix = call.arrival_unix + (now - call.arrival_mono)
        waited_s = now - request.queued_mono
        return Attempt(call.request_id, request.attempts + 1, at_unix, waited_s, looks, len(request.said))

    def _expectation(self, model: str) -> Expectation:
        expectation = self._expectations.get(model)
        if expectation is None:
            expectation = self._expectations[model] = Expectation()
        return expectation
