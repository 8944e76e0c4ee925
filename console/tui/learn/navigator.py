"""The stack of screens of a lesson: whatever is opened lies on it, and going back ends there."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App

from console.tui.learn.lesson_screen import LessonScreen
from console.tui.navigator import Navigator
from console.tui.route import Route
from console.tui.screens.catalogue import screen_for


class LessonNavigator(Navigator):
    """``leave`` is what going back from the lesson, or from the list, does."""

    def __init__(self, app: App[int], leave: Callable[[], None]) -> None:
        super().__init__(app)
        self._leave = leave

    @property
    def lesson(self) -> LessonScreen | None:
        """The lesson that is open, maybe below something."""
        return next((screen for screen in self._app.screen_stack if isinstance(screen, LessonScreen)), None)

    def go(self, route: Route) -> None:
        if self.lesson is not None and not self._return_to(route):
            self._app.push_screen(screen_for(route))

    def back(self) -> None:
        current = self.current
        if current is None or current is self.lesson or self.lesson is None:
            self._leave()
        else:
            self._app.pop_screen()

    def previous(self) -> None:
        if self.current is not self.lesson:
            self.back()

    def close(self) -> None:
        """The lesson, and all that lies on it."""
        while self.lesson is not None:
            self._app.pop_screen()
