"""``cert``: the home's own certificate authority, and what it signed."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from console.cli.command import USE, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format, write_data, write_rows
from console.cli.reach import Reach
from console.home import shown_path
from console.plain.table import Column
from console.plain.terminal import out, say
from control_plane.contracts.errors import InferDeckError, InvalidRequest
from control_plane.contracts.paths import expanded

_ACTIONS = ("show", "server", "client", "renew")
_USAGE = 2


@dataclass(frozen=True, slots=True)
class Certificate:
    """``not_after`` is Unix time in seconds."""

    kind: str
    name: str
    path: str
    names: tuple[str, ...]
    not_after: float
    made: bool


@command("cert", USE, Effect.ENDS, Reach.HOME)
def cert(
    place: Place,
    action: Annotated[str, typer.Argument(metavar="[ACTION]", help="show, server, client or renew.")] = "show",
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAMES]...", help="Host names and addresses; a client's name; ca.")
    ] = None,
    out_file: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Where a client's goes.")] = None,
    days: Annotated[float, typer.Option("--days", help="How long a client's is good.")] = 30.0,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show and make certificates of the home's own authority (CA).

    show lists them, and makes the authority where there is none. server NAMES makes the gateways' for these host names
    and addresses ([gateway] tls = "local"). client NAME --out FILE makes what an operator elsewhere needs beside the
    operator key (--operator-cert-file FILE). renew makes all anew; renew ca the authority too, with the same key. What
    runs takes up new files by itself, without a restart. A server's certificate that would lose names which it has is
    asked for.
    """
    if action not in _ACTIONS:
        raise InvalidRequest(f"cert {action}: there are {', '.join(_ACTIONS)}", param="action")
    client = str(expanded(out_file).absolute()) if out_file else None
    wanted = list(names or ())
    planned = _ask(place, action, wanted, client, days, dry_run=True) if dry_run or action == "server" else None
    if planned is not None:
        lost = ", ".join(planned["drops"])
        notes = (f"callers who come by {lost} are refused from then on",) if lost else ()
        plan = Plan(place.home.shown, planned["would"], bool(lost), notes=notes)
        repeat = place.command("cert server --yes", *wanted)
        if planned["would"] and not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat, output=output):
            return
    told = planned if planned is not None and dry_run else _ask(place, action, wanted, client, days)
    rows = [
        Certificate(row["kind"], row["name"], row["path"], tuple(row["names"]), row["not_after"], row["made"])
        for row in told["certificates"]
        if (row["kind"] == "client") == (told["client"] is not None)
    ]
    if output in (Format.JSON, Format.YAML):
        write_data([{name: getattr(row, name) for name in row.__slots__} for row in rows], output)
    elif output is Format.NAME:
        for row in rows:
            out(f"cert/{row.name}")
    else:
        write_rows(
            rows,
            [
                Column("CERT", lambda row: row.name, keep=9),
                Column("EXPIRES", lambda row: expiry(row.not_after), keep=8),
                Column("FOR", lambda row: ", ".join(row.names) or "signing", keep=4),
                Column("FILE", lambda row: shown_path(Path(row.path)), keep=6),
            ],
        )
    if told["client"]:
        say(f"made: {shown_path(Path(told['client']))}, private: whoever has it and an operator key operates", "quiet")
    elif made := [row.name for row in rows if row.made]:
        say(f"made: {', '.join(made)}", "quiet")


def expiry(unix: float) -> str:
    left = (unix - time.time()) / 86_400
    when = dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%d")
    return f"{when} ({left:.0f}d)" if left > 0 else f"{when} (expired)"


def _ask(
    place: Place, action: str, names: list[str], client: str | None, days: float, *, dry_run: bool = False
) -> dict[str, Any]:
    """The control plane's own program does it: keys are none of the console's business."""
    words = [sys.executable, "-m", "control_plane", "cert", action, *names, "--home", str(place.home.path)]
    words += ["--days", repr(days), *(["--out", client] if client else [])]
    words += ["--dry-run"] if dry_run else []
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONSAFEPATH": "1"}
    )
    if ran.returncode == 0:
        told: dict[str, Any] = json.loads(ran.stdout)
        return told
    lines = ran.stderr.splitlines()
    message = "; ".join(line.removeprefix("error: ") for line in lines if line.startswith("error: "))
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    if ran.returncode == _USAGE:
        raise InvalidRequest(
            message or (lines[-1] if lines else "not understood"), hint=hint or "inferdeck cert --help"
        )
    raise InferDeckError(message or "certificates could not be made", hint=hint)
