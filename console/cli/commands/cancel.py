"""``cancel``: end requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.commands.cordon import tell_result
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, YesOption
from console.cli.reference import bare_name, not_found
from console.plain.terminal import flush
from control_plane.contracts.errors import NotFound

if TYPE_CHECKING:
    from console.client import OperatorClient


@command("cancel", OPERATE, Effect.ENDS)
async def cancel(
    place: Place,
    requests: Annotated[list[str], typer.Argument(metavar="REQUEST")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """End requests, wherever they are. Their clients hear request_cancelled.

    Several are ended at once, and each is told when it is over. Cancelling what has ended already changes nothing and
    succeeds; where one is not known, none is cancelled.
    """
    from console.at_once import at_once

    names = list(dict.fromkeys(bare_name(word, "requests") for word in requests))
    async with place.client() as client:
        try:
            plans = await at_once(lambda name: client.cancel(name, dry_run=True), names)
        except NotFound as error:
            raise (await _unknown(client, place, names) or error) from None
        for plan in plans:
            if not plan.changed:
                tell_result(plan, dry_run)
        going = [name for name, plan in zip(names, plans, strict=True) if plan.changed]
        if not going:
            return
        what = next(plan.message for plan in plans if plan.changed)
        told = Plan(client.target.context, what, True, 1)
        if len(going) > 1:
            told = Plan(client.target.context, f"cancel {len(going)} requests", True, len(going), tuple(going))
        if not agreed(told, dry_run=dry_run, yes=yes, repeat=place.command("cancel --yes", *going)):
            return

        async def end(name: str) -> bool:
            """False for one that nobody knows any more: it has ended meanwhile, long ago."""
            try:
                tell_result(await client.cancel(name))
            except NotFound:
                return False
            flush()
            return True

        if not all(await at_once(end, going)) and (unknown := await _unknown(client, place, going)):
            raise unknown


async def _unknown(client: OperatorClient, place: Place, names: list[str]) -> NotFound | None:
    """The error for the first of these that the control plane does not know; None where it knows them all."""
    known = [entry.id for entry in (await client.get_snapshot(finished_requests=True)).requests]
    name = next((name for name in names if name not in known), None)
    return None if name is None else not_found("requests", name, known, place.command("get requests --all"))
