"""The stack of screens: one base view at the bottom, and what was opened from it on top."""

from __future__ import annotations

from textual.app import App

from console.tui.route import Route
from console.tui.screens.catalogue import screen_for
from console.tui.screens.deck_screen import DeckScreen

HOME = Route("workers")
_MOST_ROUTES = 50


class Navigator:
    """Base views are kept, with their cursor and filter; what is opened on top ends when it is left."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._bases: dict[str, DeckScreen] = {}
        self._visited: list[Route] = []

    @property
    def current(self) -> DeckScreen | None:
        """The screen that is seen, maybe behind a dialog."""
        return next((s for s in reversed(self._app.screen_stack) if isinstance(s, DeckScreen)), None)

    def go(self, route: Route) -> None:
        self._visited = [*self._visited[-_MOST_ROUTES:], route]
        if route.base:
            self._show_base(route)
        elif not self._return_to(route):
            self._app.push_screen(screen_for(route))

    def back(self) -> None:
        """To what this was opened from; from a base view to the first one."""
        current = self.current
        if current is None:
            return
        if not current.route.base:
            self._app.pop_screen()
            if (now := self.current) is not None:
                self._visited.append(now.route)
        elif current.route != HOME:
            self.go(HOME)

    def previous(self) -> None:
        if len(self._visited) > 1:
            self.go(self._visited[-2])

    def _show_base(self, route: Route) -> None:
        while (current := self.current) is not None and not current.route.base:
            self._app.pop_screen()
        if route.view not in self._bases:
            self._bases[route.view] = screen_for(route)
            self._app.install_screen(self._bases[route.view], route.view)
        if current is None:
            self._app.push_screen(route.view)
        elif current.route != route:
            self._app.switch_screen(route.view)

    def _return_to(self, route: Route) -> bool:
        """Whether it is open already, below what is seen: then what lies on it is closed."""
        open_routes = [screen.route for screen in self._app.screen_stack if isinstance(screen, DeckScreen)]
        if route not in open_routes:
            return False
        while (current := self.current) is not None and current.route != route:
            self._app.pop_screen()
        return True
