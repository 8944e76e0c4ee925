"""``cancel``: end one request."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.commands.cordon import tell_result
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, YesOption
from console.cli.reference import bare_name, not_found
from control_plane.contracts.errors import NotFound


@command("cancel", OPERATE, Effect.ENDS)
async def cancel(
    place: Place,
    request: Annotated[str, typer.Argument(metavar="REQUEST")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """End a request, wherever it is. Its client hears request_cancelled.

    Cancelling what has ended already changes nothing and succeeds.
    """
    name = bare_name(request, "requests")
    async with place.client() as client:
        try:
            plan = await client.cancel(name, dry_run=True)
            if not plan.changed:
                tell_result(plan, dry_run)
                return
            told = Plan(client.target.context, plan.message, True, plan.in_flight)
            if agreed(told, dry_run=dry_run, yes=yes, repeat=place.command("cancel --yes", name)):
                tell_result(await client.cancel(name))
        except NotFound as error:
            known = [entry.id for entry in (await client.get_snapshot()).requests]
            raise not_found("requests", name, known, place.command("get requests --all")) from error
