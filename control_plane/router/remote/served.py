"""The models as routers elsewhere tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.contracts.fleet import ModelView


class ServedModels:
    """Implements ``selector.Served``. ``views`` is None while no router has spoken yet."""

    def __init__(self) -> None:
        self.views: Sequence[ModelView] | None = None
        self.names: frozenset[str] | None = None
        """The same object as long as the names are the same."""
        self._ready: dict[str, int] = {}

    def update(self, views: Sequence[ModelView]) -> None:
        self.views = views
        self._ready = {view.name: view.ready_workers for view in views}
        if (names := frozenset(self._ready)) != self.names:
            self.names = names

    def knows(self, name: str) -> bool:
        return name in self._ready

    def serves(self, name: str) -> bool:
        """Whether the router that spoke last reaches a worker of it."""
        return self._ready.get(name, 0) > 0
