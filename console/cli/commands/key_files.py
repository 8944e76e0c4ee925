"""``key``: where the keys are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from console.cli.command import USE, Place, Verbs
from console.cli.options import OutputOption
from console.cli.output import Format, write_data, write_rows
from console.home import read_key
from console.plain.data import plain
from console.plain.table import Column
from console.plain.terminal import out
from control_plane.contracts.errors import NotFound


@dataclass(frozen=True, slots=True)
class KeyFile:
    kind: str
    path: str
    opens: str


def key(
    place: Place,
    reveal: Annotated[bool, typer.Option("--reveal", help="Print the API key itself, and nothing else.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Callers' keys; without a verb, in which files the API key and the operator key are.

    For a client's environment: export OPENAI_API_KEY=$(inferdeck key --reveal)
    """
    state = place.home.state()
    api = place.home.own_key_path()
    operator = Path(state.operator_key_path) if state and state.operator_key_path else place.home.operator_key_path
    if reveal:
        out(read_key(api))
        return
    rows = [
        KeyFile(kind, str(path), opens)
        for kind, path, opens in (
            ("api", api, "the gateway"),
            ("operator", operator, "this command line and the console"),
        )
        if path.is_file()
    ]
    if not rows:
        raise NotFound(f"{place.home.shown} has no keys yet; the first start makes them", hint=place.home.up_command())
    if output in (Format.JSON, Format.YAML):
        write_data([plain(row) for row in rows], output)
    elif output is Format.NAME:
        for row in rows:
            out(f"key/{row.kind}")
    else:
        write_rows(
            rows,
            [
                Column("KEY", lambda row: row.kind, keep=9),
                Column("FILE", lambda row: row.path, keep=8),
                Column("OPENS", lambda row: row.opens, keep=1),
            ],
        )


KEY = Verbs("key", USE, "Callers' keys; without a verb, where the home's own are.", key)
