"""The models as routers elsewhere tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from control_plane.contracts.fleet import ModelView
from control_plane.router import refusals


class ServedModels:
    """Implements ``selector.Served``. ``views`` is None while no router has spoken yet."""

    def __init__(self) -> None:
        self.views: Sequence[ModelView] | None = None
        self.names: frozenset[str] | None = None
        """The same object as long as the names are the same."""
        self._ready: dict[str, int] = {}

    def get(self, name: str) -> ModelView:
        """Raises NotFound, or Unavailable while no router has spoken yet."""
        if self.views is None:
            raise refusals.not_joined()
        view = next((view for view in self.views if view.name == name), None)
        if view is None:
            raise refusals.unknown_model(name)
        return view

    def merge(self, told: Iterable[Sequence[ModelView]]) -> None:
        """Take over what each router tells; where none does, what was served last is known and has no workers."""
        merged: dict[str, ModelView] = {}
        for views in told:
            for view in views:
                known = merged.get(view.name)
                if known is None or view.ready_workers > known.ready_workers:
                    merged[view.name] = view
        if merged:
            self._update(tuple(merged.values()))
        elif self.views is not None:
            self._update(tuple(replace(view, ready_workers=0) for view in self.views))

    def knows(self, name: str) -> bool:
        return name in self._ready

    def serves(self, name: str) -> bool:
        """Whether the router that spoke last reaches a worker of it."""
        return self._ready.get(name, 0) > 0

    def _update(self, views: Sequence[ModelView]) -> None:
        self.views = views
        self._ready = {view.name: view.ready_workers for view in views}
        if (names := frozenset(self._ready)) != self.names:
            self.names = names
