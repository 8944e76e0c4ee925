"""Which screen shows which route."""

from __future__ import annotations

from console.tui.route import Route
from console.tui.screens.decisions import DecisionsScreen
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.engine import EngineScreen
from console.tui.screens.events import EventsScreen
from console.tui.screens.explain import ExplainScreen
from console.tui.screens.keys import KeysScreen
from console.tui.screens.logs import LogsScreen
from console.tui.screens.policy import PolicyScreen
from console.tui.screens.pools import PoolsScreen
from console.tui.screens.request import RequestScreen
from console.tui.screens.requests import RequestsScreen
from console.tui.screens.system import SystemScreen
from console.tui.screens.worker import WorkerScreen

_SCREENS: dict[str, type[DeckScreen]] = {
    "workers": SystemScreen,
    "requests": RequestsScreen,
    "pools": PoolsScreen,
    "events": EventsScreen,
    "keys": KeysScreen,
    "decisions": DecisionsScreen,
    "policy": PolicyScreen,
    "worker": WorkerScreen,
    "engine": EngineScreen,
    "request": RequestScreen,
    "explain": ExplainScreen,
    "logs": LogsScreen,
}


def screen_for(route: Route) -> DeckScreen:
    return _SCREENS[route.view](route)
