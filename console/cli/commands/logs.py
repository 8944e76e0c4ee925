"""``logs``: what a worker, a gateway, a router or the control plane wrote."""

from __future__ import annotations

import codecs
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format
from console.cli.reference import bare_name, kind_of
from console.home import Home, Unreachable
from console.log_lines import parsed, readable
from console.plain.data import to_json, to_yaml
from console.plain.terminal import flush, out, say, width
from console.text import literal, wrap
from control_plane.contracts.errors import InvalidRequest, NotFound

CONTROL_PLANE = "control-plane"


@command("logs", LOOK, Effect.LOOKS)
async def logs(
    place: Place,
    of: Annotated[
        str, typer.Argument(metavar="NAME", help="A worker, a gateway, a router, or control-plane.")
    ] = CONTROL_PLANE,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new lines as they come.")] = False,
    tail: Annotated[int, typer.Option("--tail", metavar="N", min=1, max=1_000_000, help="The last lines.")] = 200,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print a log: the last lines, then new ones with -f.

    -o wide prints lines as they stand in the file, -o json one object a line. When the platform is down, the files it
    left are read instead.
    """
    name = target_of(of)
    try:
        client = place.client()
    except Unreachable:
        if place.server is not None:
            raise
        pieces = _file_pieces(_log_file(place, name), tail, follow)
        say(f"no platform is running in {place.home.shown}: reading what it left", "quiet")
        await _print(pieces, name, output)
        return
    async with client:
        try:
            await _print(client.logs(name, tail_lines=tail, follow=follow), name, output)
        except NotFound as error:
            snapshot = await client.get_snapshot()
            known = [worker.id for worker in snapshot.workers] + [gateway.id for gateway in snapshot.gateways]
            known += [*(router.id for router in snapshot.routers), CONTROL_PLANE]
            raise _unknown(name, known, place) from error


def target_of(word: str) -> str:
    kind, slash, _ = word.partition("/")
    if not slash:
        return word
    if kind_of(kind) not in ("workers", "gateways", "routers"):
        raise InvalidRequest(f"{word} has no log; workers, gateways, routers and {CONTROL_PLANE} have", param="name")
    return bare_name(word, kind_of(kind))


async def _print(pieces: AsyncIterator[bytes], name: str, output: Format) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    rest = ""
    async for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        for line in lines:
            _line(line, name, output)
        flush()
    if rest := rest + decoder.decode(b"", final=True):
        _line(rest, name, output)


def _line(line: str, name: str, output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        record = {"log": name, **(parsed(line) or {"message": line.removesuffix("\r")})}
        out(to_json(record, indent=None) if output is Format.JSON else to_yaml([record]))
    elif output is Format.NAME:
        out(literal(name))
    else:
        raw = output is Format.WIDE
        texts = [literal(line.removesuffix("\r"), keep="\t").expandtabs()] if raw else readable(line)
        room = width(sys.stdout)
        for text in texts:
            for part in [text] if room is None else wrap(text, room):
                out(part)


def log_files(home: Home) -> dict[str, Path]:
    """The logs that lie in a home, by the name of what wrote them."""
    found = {}
    for path in sorted(home.folder.logs.glob("*.log")):
        found[path.stem.removeprefix("worker-").removeprefix("gateway-").removeprefix("router-")] = path
    return found


def _log_file(place: Place, name: str) -> Path:
    files = log_files(place.home)
    if name not in files:
        raise (
            _unknown(name, list(files), place)
            if files
            else Unreachable(
                f"no platform is running in {place.home.shown}, and it left no logs", hint=place.home.up_command()
            )
        )
    return files[name]


def _unknown(name: str, known: list[str], place: Place) -> NotFound:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
    return NotFound(f"no log named {name}{meant}", hint=place.command("get workers -o name"))


async def _file_pieces(path: Path, tail: int, follow: bool) -> AsyncIterator[bytes]:
    import asyncio

    with path.open("rb") as file:
        yield b"".join(deque(file, tail))
        while follow:
            piece = file.read(1 << 16)
            if piece:
                yield piece
            else:
                await asyncio.sleep(0.25)
