"""The rows of a kind, wherever they come from, and how they are listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.cli.output import Format, write_data, write_rows
from console.cli.reference import singular
from console.plain import access, history
from console.plain.table import Column
from console.plain.terminal import out, say
from console.text import literal

if TYPE_CHECKING:
    from console.cli.command import Place
    from console.client import OperatorClient
    from control_plane.contracts.fleet import Snapshot

MOST_AUDIT = 10_000
MOST_CONVERSATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Listing:
    kind: str
    rows: Sequence[Any]
    name: Callable[[Any], str]
    columns: Sequence[Column[Any]]
    data: Callable[[Any], dict[str, Any]]
    called: Callable[[Any], str] = lambda row: ""
    """What people call it, beside its name."""

    past: Callable[[Any], bool] = lambda row: False
    """Whether it is no more, so that what people call it means another one."""

    def named(self, name: str) -> list[Any]:
        """The rows with this name; those that are called so where none has it, and of these what is no more only where
        nothing else is left."""
        if exact := [row for row in self.rows if self.name(row) == name]:
            return exact
        called = [row for row in self.rows if self.called(row) == name]
        return [row for row in called if not self.past(row)] or called


async def listings(
    client: OperatorClient, kinds: Iterable[str], *, everything: bool, finished_requests: bool
) -> tuple[dict[str, Listing], Snapshot | None]:
    """What the platform has of these kinds now; the snapshot where one of them is in it. ``everything``: with keys and
    operators that are revoked, and all of the audit."""
    from console.plain.resources import RESOURCES, data_of

    wanted, snapshot = list(dict.fromkeys(kinds)), None
    if any(kind in RESOURCES for kind in wanted):
        snapshot = await client.get_snapshot(finished_requests=finished_requests)
    found: dict[str, Listing] = {}
    for kind in wanted:
        if kind in _STORED:
            found[kind] = await _STORED[kind](client, everything)
        elif snapshot is not None:
            resource = RESOURCES[kind]
            rows, columns = resource.rows(snapshot), resource.columns(snapshot)
            found[kind] = Listing(kind, rows, resource.name, columns, data_of)
    return found, snapshot


async def _keys(client: OperatorClient, everything: bool) -> Listing:
    told = await client.access.keys()
    now = told.taken_unix
    rows = [key for key in told.keys if everything or key.revoked_unix is None]
    return Listing(
        "keys",
        rows,
        lambda k: k.id,
        access.key_columns(now),
        lambda k: access.key_data(k, now),
        lambda k: k.spec.name,
        lambda k: k.revoked_unix is not None,
    )


async def _operators(client: OperatorClient, everything: bool) -> Listing:
    told = await client.access.operators()
    now = told.taken_unix
    rows = [operator for operator in told.operators if everything or operator.revoked_unix is None]
    return Listing(
        "operators",
        rows,
        lambda o: o.id,
        access.operator_columns(now),
        lambda o: access.operator_data(o, now),
        lambda o: o.name,
        lambda o: o.revoked_unix is not None,
    )


async def _audit(client: OperatorClient, everything: bool) -> Listing:
    told = await client.access.audit(MOST_AUDIT if everything else 0)
    now = told.taken_unix
    return Listing(
        "audit", told.entries, lambda e: str(e.seq), access.audit_columns(now), lambda e: access.audit_data(e, now)
    )


async def _conversations(client: OperatorClient, everything: bool) -> Listing:
    told = await client.history.conversations(MOST_CONVERSATIONS if everything else 0)
    columns = history.conversation_columns(told.taken_unix)
    return Listing("conversations", told.conversations, lambda c: c.id, columns, history.conversation_data)


_STORED: dict[str, Callable[[OperatorClient, bool], Awaitable[Listing]]] = {
    "keys": _keys,
    "operators": _operators,
    "audit": _audit,
    "conversations": _conversations,
}


def write(listing: Listing, rows: Sequence[Any], output: Format) -> None:
    """A table, or names, not JSON or YAML."""
    if output is Format.NAME:
        for row in rows:
            out(f"{singular(listing.kind)}/{literal(listing.name(row))}")
    elif rows:
        write_rows(rows, listing.columns, wide=output is Format.WIDE)
    else:
        say(f"no {listing.kind} right now")


async def list_all(place: Place, kind: str, *, everything: bool, output: Format) -> None:
    """All of one kind, in any format."""
    async with place.client() as client:
        told, _ = await listings(client, [kind], everything=everything, finished_requests=False)
    listing = told[kind]
    if output in (Format.JSON, Format.YAML):
        write_data([listing.data(row) for row in listing.rows], output)
    else:
        write(listing, listing.rows, output)
