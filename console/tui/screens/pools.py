"""Pools, the models they serve, the gateways in front, and routers that are processes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.order import Verb
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.lines import Lines
from console.tui.widgets.pool_tables import gateway_table, model_table, pool_table, router_table
from console.tui.widgets.table import Table

_TABLES = ("pools", "models", "gateways", "routers")


class PoolsScreen(DeckScreen):
    hints = (("Tab", "next table"),)
    order_hints = (("^s", "scale"),)
    BINDINGS: ClassVar[list[BindingType]] = [("tab", "next(1)", ""), ("shift+tab", "next(-1)", "")]

    def body(self) -> Iterator[Widget]:
        tables: tuple[Widget, ...] = (pool_table(), model_table(), gateway_table(), router_table())
        for name, table in zip(_TABLES, tables, strict=True):
            yield Lines(name=f"{name}-title")
            yield table

    def _table(self, name: str) -> Table[object]:
        return self.query_one(f"#{name}", Table)

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def focus_body(self) -> None:
        self._table("pools").focus()

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        snapshot = view.snapshot
        items: dict[str, Sequence[object]] = {
            "pools": view.pools,
            "models": snapshot.models if snapshot else (),
            "gateways": snapshot.gateways if snapshot else (),
            "routers": snapshot.routers if snapshot else (),
        }
        for widget in (self.query_one("#routers-title", Lines), self._table("routers")):
            widget.display = bool(items["routers"])
        for name in _TABLES:
            self.query_one(f"#{name}-title", Lines).put([[(f" {name}", palette.title)]])
            self._table(name).show(items[name], view)

    def action_next(self, by: int) -> None:
        tables = [table for name in _TABLES if (table := self._table(name)).display]
        focused = [table.has_focus for table in tables]
        index = focused.index(True) if True in focused else 0
        tables[(index + by) % len(tables)].focus()

    def filter(self, needle: str) -> None:
        for name in _TABLES:
            self._table(name).filter(needle)

    def targets(self, verb: Verb) -> Sequence[str]:
        return self._table("pools").selection if verb is Verb.SCALE else []
