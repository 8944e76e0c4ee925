"""``describe``: one object in full."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.cli.reference import not_found, references, singular
from console.plain.terminal import out, paint, width
from console.text import fit, literal, pad, wrap
from console.text import width as width_of
from control_plane.contracts.errors import InferDeckError, InvalidRequest, NotFound, RequestTimeout, Unavailable

if TYPE_CHECKING:
    from console.client import OperatorClient
    from control_plane.contracts.decision import DecisionView
    from control_plane.contracts.router_state import RouterState

_LABEL = 12


@command("describe", LOOK, Effect.LOOKS)
async def describe(
    place: Place,
    what: Annotated[
        list[str],
        typer.Argument(metavar="TYPE/NAME", help="worker/…, request/…, pool/…, key/…, conversation/… and the like."),
    ],
    output: OutputOption = Format.TABLE,
    steps: Annotated[bool, typer.Option("--steps", help="Of a request: every engine step, a line each.")] = False,
    content: Annotated[
        bool, typer.Option("--content", help="Of a conversation: what was said. For admins, and audited.")
    ] = False,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Of a worker: the block tables of its KV cache, now.")
    ] = False,
) -> None:
    """Tell everything about one worker, request, pool, key or the like.

    Also about a gateway, router, model, operator, conversation or entry of the audit.

    A router that is a process of its own is asked how it sees each worker. A request is shown with its stages as a
    waterfall, and with what its engine's steps say of each.
    """
    from console.cli.describe import describe as tell
    from console.cli.describe import related
    from console.cli.listing import listings
    from console.plain.decision import decision_data
    from console.plain.resources import data_of

    wanted = references(what)
    if any(name is None for _, name in wanted):
        kind = wanted[0][0]
        raise InvalidRequest(f"which {singular(kind)}?", param="name", hint=place.command(f"get {kind}"))
    if blocks:
        await _blocks(place, wanted, output)
        return
    if any(kind == "conversations" for kind, _ in wanted):
        await _conversations(place, wanted, output, content=content)
        return
    async with place.client() as client:
        kinds = ["requests", *(kind for kind, _ in wanted)]
        told, snapshot = await listings(client, kinds, everything=True, finished_requests=True)
        assert snapshot is not None
        there = {request.id for request in snapshot.requests}
        states = {name: await _state(client, name) for kind, name in wanted if kind == "routers" and name}
        timelines = {
            name: await client.timeline(name) for kind, name in wanted if kind == "requests" and name and name in there
        }
        explained = {name: await _explained(client, name) for name in timelines}
    documents = []
    for number, (kind, name) in enumerate(wanted):
        listing = told[kind]
        found = listing.named(name or "")
        if not found:
            known = map(listing.name, listing.rows)
            listed = place.command(f"get {kind}{' --all' if kind == 'requests' else ''}")
            raise not_found(kind, name or "", known, listed)
        if len(found) > 1 and listing.name(found[0]) != name:
            ids = ", ".join(map(listing.name, found[:5]))
            raise InvalidRequest(
                f"{len(found)} {kind} have the name {name!r}: {ids}",
                param="name",
                hint=place.command("describe", f"{singular(kind)}/{listing.name(found[0])}"),
            )
        row = found[-1]
        timeline = timelines.get(name or "") if kind == "requests" else None
        if output in (Format.JSON, Format.YAML):
            extra: dict[str, Any] = {
                other: [data_of(entry) for entry in entries] for other, entries in related(kind, row, snapshot).items()
            }
            if kind == "routers" and (state := states[name or ""]) is not None:
                extra["seen"] = data_of(state)
            if timeline is not None:
                extra["spans"] = [data_of(span) for span in timeline.spans]
                extra["decisions"] = [decision_data(decision) for decision in explained[name or ""][0]]
            documents.append({**listing.data(row), **extra})
            continue
        if output is Format.NAME:
            out(f"{singular(kind)}/{literal(listing.name(row))}")
            continue
        if number:
            out("")
        room = width(sys.stdout)
        state = states.get(name or "") if kind == "routers" else None
        _write(tell(kind, row, snapshot, room, timeline, steps=steps, state=state), room)
        if kind == "requests" and name in explained:
            out("")
            _write(_why_there(place, name, *explained[name]), room)
    if documents:
        write_data(documents[0] if len(wanted) == 1 else documents, output)


async def _explained(client: OperatorClient, name: str) -> tuple[Sequence[DecisionView], str]:
    """The decisions about a request, or why they cannot be told: the rest of it can."""
    try:
        return (await client.decisions.explain(name)).decisions, ""
    except (NotFound, RequestTimeout, Unavailable) as error:
        return (), error.message


def _why_there(place: Place, name: str, decisions: Sequence[DecisionView], trouble: str) -> Iterator[tuple[str, str]]:
    from console.plain.decision import short_lines

    if trouble:
        yield "why there", trouble
    for number, decision in enumerate(decisions):
        for line in short_lines(decision):
            yield "" if number else "why there", line
    if decisions:
        yield "", place.command("explain", name)


async def _state(client: OperatorClient, name: str) -> RouterState | None:
    """How a router sees its endpoints; None where it does not answer: what is known of it is told all the same."""
    try:
        return await client.router(name)
    except InferDeckError:
        return None


def _write(lines: Iterable[tuple[str, str] | str], room: int | None) -> None:
    lines = list(lines)
    label_width = max([_LABEL, *(width_of(line[0]) + 1 for line in lines if not isinstance(line, str))])
    for line in lines:
        if isinstance(line, str):
            out(line if room is None or "\x1b" in line else fit(line, room))
        else:
            label, text = line
            for part in _labelled(label, literal(text), room, label_width):
                out(part)


async def _conversations(place: Place, wanted: list[tuple[str, str | None]], output: Format, *, content: bool) -> None:
    from console.cli.describe_history import conversation_lines
    from console.plain.history import detail_data

    if other := next((kind for kind, _ in wanted if kind != "conversations"), None):
        raise InvalidRequest(f"describe conversations by themselves, without a {singular(other)}", param="type")
    documents = []
    async with place.client() as client:
        for number, (_, name) in enumerate(wanted):
            detail = await client.history.conversation(name or "", content=content)
            if output in (Format.JSON, Format.YAML):
                documents.append(detail_data(detail, content=content))
            elif output is Format.NAME:
                out(f"conversation/{literal(name or '')}")
            else:
                if number:
                    out("")
                room = width(sys.stdout)
                _write(conversation_lines(detail, room, content=content), room)
    if documents:
        write_data(documents[0] if len(wanted) == 1 else documents, output)


async def _blocks(place: Place, wanted: list[tuple[str, str | None]], output: Format) -> None:
    from console.plain.blocks import block_lines
    from console.plain.data import plain

    if other := next((kind for kind, _ in wanted if kind != "workers"), None):
        raise InvalidRequest(f"only a worker has blocks, no {singular(other)}", param="blocks")
    documents = []
    async with place.client() as client:
        for number, (_, name) in enumerate(wanted):
            snapshot = await client.blocks(name or "")
            if output in (Format.JSON, Format.YAML):
                documents.append({"worker_id": name, **plain(snapshot)})
                continue
            if number:
                out("")
            for line in block_lines(snapshot, literal(name or ""), width(sys.stdout)):
                out(line)
    if documents:
        write_data(documents[0] if len(wanted) == 1 else documents, output)


def _labelled(label: str, text: str, room: int | None, label_width: int) -> list[str]:
    """The label and its text; on a terminal wrapped, so that a path can still be read whole."""
    head = pad(label, label_width)
    if room is None:
        return [head + text]
    if room < 3 * label_width:
        return [paint(fit(label, room), "quiet"), *wrap(text, room)]
    first, *more = wrap(text, room - label_width)
    return [f"{paint(head, 'quiet')}{first}", *(" " * label_width + line for line in more)]
