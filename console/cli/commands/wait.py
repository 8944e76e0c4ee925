"""``wait``: until something is so."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.reference import not_found, references, singular
from console.plain.terminal import out
from console.text import literal
from control_plane.contracts.errors import InvalidRequest, RequestTimeout

if TYPE_CHECKING:
    from control_plane.contracts.fleet import Snapshot


def conditions(kind: str) -> dict[str, Callable[[Any], bool]]:
    """What one can wait for, by the kind of object; the first is the default. ``gone`` is true of what is not there."""
    from control_plane.contracts.fleet import RequestPhase, WorkerPhase

    def phase(wanted: WorkerPhase) -> Callable[[Any], bool]:
        return lambda worker: worker.phase is wanted

    table: dict[str, dict[str, Callable[[Any], bool]]] = {
        "workers": {
            "ready": phase(WorkerPhase.READY),
            "cordoned": lambda worker: worker.cordoned,
            "uncordoned": lambda worker: not worker.cordoned,
            "drained": lambda worker: worker.drained or (worker.cordoned and worker.idle),
            "idle": lambda worker: worker.phase is WorkerPhase.READY and worker.idle,
            "asleep": phase(WorkerPhase.ASLEEP),
            "lost": phase(WorkerPhase.LOST),
            "failed": phase(WorkerPhase.FAILED),
        },
        "pools": {"ready": lambda pool: pool.ready == pool.observed == pool.desired},
        "gateways": {"ready": lambda gateway: gateway.ready},
        "models": {"ready": lambda model: model.ready_workers > 0},
        "requests": {
            "ended": lambda request: not request.phase.active,
            "dispatched": lambda request: request.phase is not RequestPhase.QUEUED,
            "decoding": lambda request: request.ttft_s > 0 or not request.phase.active,
        },
    }
    return {**table.get(kind, {}), "gone": lambda _: False}


@command("wait", OPERATE, Effect.LOOKS)
async def wait(
    place: Place,
    what: Annotated[str, typer.Argument(metavar="TYPE/NAME")],
    condition: Annotated[
        str,
        typer.Option(
            "--for", metavar="WORD", help="ready, drained, ended, gone, … [default: ready; ended for a request]"
        ),
    ] = "",
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Give up after; 0 has no end.")] = "60s",
) -> None:
    """Wait until something is so.

    A worker: ready, cordoned, uncordoned, drained, idle, asleep, lost, failed. A pool, gateway or model: ready. A
    request: ended, dispatched, decoding. Anything: gone. Exits 5 when the time is over, 3 when there is no such object.
    """
    import asyncio

    [(kind, name)] = references([what])
    if name is None:
        raise InvalidRequest(f"which {singular(kind)}?", param="name", hint=place.command(f"get {kind}"))
    if kind in ("keys", "operators", "audit"):
        raise InvalidRequest(f"there is nothing to wait for with a {singular(kind)}", param="name")
    known = conditions(kind)
    condition = condition or next(iter(known))
    if condition not in known:
        near = get_close_matches(condition, known, 1)
        meant = f"; did you mean {near[0]}?" if near else f"; a {singular(kind)} can be {', '.join(known)}"
        raise InvalidRequest(f"--for {condition}{meant}", param="for")
    limit = duration(timeout, "--timeout")
    async with place.client() as client:
        try:
            async with asyncio.timeout(limit or None):
                async for snapshot in client.watch(finished_requests=True):
                    if _met(place, snapshot, kind, name, condition, known[condition]):
                        break
        except TimeoutError:
            raise RequestTimeout(
                f"{singular(kind)}/{name} is not {condition} after {timeout}",
                hint=place.command("describe", f"{singular(kind)}/{name}"),
            ) from None
    out(f"{singular(kind)}/{literal(name)} {condition}")


def _met(place: Place, snapshot: Snapshot, kind: str, name: str, condition: str, test: Callable[[Any], bool]) -> bool:
    from console.plain.resources import RESOURCES

    resource = RESOURCES[kind]
    rows = {resource.name(row): row for row in resource.rows(snapshot)}
    if name not in rows:
        if condition == "gone":
            return True
        raise not_found(kind, name, rows, place.command(f"get {kind}"))
    return test(rows[name])
