"""``cordon`` and ``uncordon``: whether a worker is given new requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.effect import Effect
from console.cli.options import DryRunOption
from console.cli.reference import bare_name, not_found
from console.plain.terminal import out
from console.text import literal
from control_plane.contracts.errors import NotFound

if TYPE_CHECKING:
    from console.client import OperatorClient
    from control_plane.contracts.fleet import ActionResult

WorkersArgument = Annotated[list[str], typer.Argument(metavar="WORKER")]


@command("cordon", OPERATE, Effect.CHANGES)
async def cordon(place: Place, workers: WorkersArgument, dry_run: DryRunOption = False) -> None:
    """Give workers no new requests; what runs goes on."""
    async with place.client() as client:
        for worker in (bare_name(word, "workers") for word in workers):
            try:
                tell_result(await client.cordon(worker, dry_run=dry_run), dry_run)
            except NotFound as error:
                raise await unknown_worker(client, place, worker) from error


@command("uncordon", OPERATE, Effect.CHANGES)
async def uncordon(place: Place, workers: WorkersArgument, dry_run: DryRunOption = False) -> None:
    """Let cordoned or drained workers take requests again."""
    async with place.client() as client:
        for worker in (bare_name(word, "workers") for word in workers):
            try:
                tell_result(await client.uncordon(worker, dry_run=dry_run), dry_run)
            except NotFound as error:
                raise await unknown_worker(client, place, worker) from error


def tell_result(result: ActionResult, dry_run: bool = False) -> None:
    out(literal(result.message) + (" (dry run)" if dry_run else ""))


async def unknown_worker(client: OperatorClient, place: Place, name: str) -> NotFound:
    """The error for a worker that the control plane does not know, with the nearest one that it does."""
    snapshot = await client.get_snapshot()
    return not_found("workers", name, [worker.id for worker in snapshot.workers], place.command("get workers"))
