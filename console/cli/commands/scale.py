"""``scale``: how many replicas a pool should have."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.commands.cordon import tell_result
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, YesOption
from console.cli.reference import bare_name, not_found
from console.leaving import nobody_left
from control_plane.contracts.errors import InvalidRequest

MOST = 1000


@command("scale", OPERATE, Effect.ENDS)
async def scale(
    place: Place,
    change: Annotated[str, typer.Argument(metavar="POOL=N")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Set how many workers a pool has.

    Fewer: the idlest workers are drained first, and end when nothing runs on them any more.
    """
    word, equals, number = change.rpartition("=")
    if not equals or not word or not number.isascii() or not number.isdigit() or int(number) > MOST:
        raise InvalidRequest(f"{change!r} is not POOL=N with N from 0 to {MOST}, for example smollm2=3", param="POOL=N")
    name, replicas = bare_name(word, "pools"), int(number)
    async with place.client() as client:
        pools = {pool.name: pool for pool in (await client.get_snapshot()).pools}
        if name not in pools:
            raise not_found("pools", name, pools, place.command("get pools"))
        plan = await client.scale(name, replicas, dry_run=True)
        if not plan.changed:
            tell_result(plan, dry_run)
            return
        fewer = replicas < pools[name].desired
        left = (nobody_left(pools[name].model),) if not replicas else ()
        leaving = f": {', '.join(plan.affected)} drained, then stopped" if fewer and plan.affected else ""
        told = Plan(client.target.context, plan.message + leaving, fewer, plan.in_flight, notes=left)
        if agreed(told, dry_run=dry_run, yes=yes, repeat=place.command("scale --yes", f"{name}={replicas}")):
            tell_result(await client.scale(name, replicas))
