"""The models that are configured, and how far each can be served now."""

from __future__ import annotations

from dataclasses import replace

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import ModelView, WorkerPhase
from control_plane.router import refusals
from control_plane.router.targets import Targets


class Catalogue:
    """What the fleet said last about models, seen together with the targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._models: dict[str, ModelView] | None = None
        self.names: frozenset[str] | None = None
        """The same object as long as the names are the same; None while the fleet has not spoken yet."""

    def update(self, models: tuple[ModelView, ...]) -> None:
        self._models = {view.name: view for view in models}
        if (names := frozenset(self._models)) != self.names:
            self.names = names

    def knows(self, name: str) -> bool:
        """Whether a model of this name is configured."""
        return name in (self._models or ())

    def serves(self, name: str) -> bool:
        """Whether at least one endpoint of the model can be picked."""
        return any(
            candidate.ready and candidate.connected and not candidate.cordoned
            for candidate in self._targets.candidates(name)
        )

    def price(self, name: str) -> float:
        """Of one worker for an hour; 0 where nobody says."""
        view = (self._models or {}).get(name)
        return view.price_per_hour if view is not None else 0.0

    @property
    def known(self) -> bool:
        """Whether the fleet has spoken."""
        return self._models is not None

    def all(self) -> tuple[ModelView, ...]:
        """Every model, with the workers that are ready and connected."""
        ready = {
            name: sum(candidate.ready and candidate.connected for candidate in self._targets.candidates(name))
            for name in self._models or ()
        }
        return tuple(replace(view, ready_workers=ready[name]) for name, view in (self._models or {}).items())

    def get(self, name: str) -> ModelView:
        """Raises NotFound, or Unavailable while the fleet has not spoken yet."""
        if self._models is None:
            raise refusals.not_joined()
        view = self._models.get(name)
        if view is None:
            raise refusals.unknown_model(name)
        return view

    def check_fits(self, call: RoutedCall) -> None:
        """Raise InvalidRequest for a call that none of its model's endpoints could ever hold, in its context or in its
        whole KV cache. Raises like ``get``."""
        refusals.check_fits(call, self.most_tokens(call.model))

    def most_tokens(self, name: str) -> int:
        """Tokens of prompt and output that some endpoint of the model can hold; 0 where nobody says. Raises like
        ``get``."""
        view, most = self.get(name), 0
        for candidate in self._targets.candidates(name):
            bounds = [bound for bound in (candidate.max_context, candidate.capacity_tokens) if bound]
            if not bounds:
                most = 0
                break
            most = max(most, min(bounds))
        known = [bound for bound in (most, view.max_context) if bound]
        return min(known, default=0)

    def any_ready(self) -> bool:
        """Whether at least one endpoint can be picked."""
        return any(self.serves(name) for name in self._models or ())

    def why_not(self, model: str, waited_s: float) -> InferDeckError:
        """What to tell one who has waited for the model in vain."""
        targets = self._targets.serving(model)
        if any(t.candidate.ready and t.candidate.connected and not t.candidate.cordoned for t in targets):
            return refusals.all_busy(model, waited_s)
        if any(t.endpoint.phase is WorkerPhase.STARTING for t in targets):
            return refusals.still_loading(model, waited_s)
        if any(t.candidate.cordoned for t in targets):
            return refusals.no_worker(model, waited_s, "they are cordoned")
        if any(t.endpoint.phase is WorkerPhase.ASLEEP for t in targets):
            return refusals.no_worker(model, waited_s, "they are asleep")
        return refusals.no_worker(model, waited_s, "none can be reached" if targets else "there are none")
