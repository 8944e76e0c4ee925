"""``down``: stop everything of a home, whatever state it is in."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.options import DryRunOption, YesOption
from console.cli.reach import Reach
from console.plain.terminal import interactive, out, say
from console.text import literal
from control_plane.contracts.errors import Forbidden, InferDeckError, Unauthenticated

GRACE = "30s"


@command("down", PLATFORM, Effect.ENDS, Reach.OWN)
async def down(
    place: Place,
    now: Annotated[bool, typer.Option("--now", help="End what runs at once.")] = False,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long running requests may go on.")
    ] = GRACE,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Stop the platform and everything that belongs to it.

    Gateways first, then routers, workers and the control plane. Requests that run may end by themselves within the
    grace; where any do, a terminal is asked first, and without one to cut them off at once (--now) needs --yes. Cleans
    up after a control plane that was killed, and succeeds when nothing is left to stop.
    """
    from console.stopping import stop

    home = place.home
    grace_s = 0.0 if now else duration(grace, "--grace")
    running = home.running()
    living = running or home.unannounced()
    left = home.leftovers()
    parts = [f"control plane (pid {living.pid})"] if living else []
    parts += [f"{entry.name} (pid {entry.pid})" for entry in left]
    if not parts:
        if not dry_run:
            await stop(home, grace_s=0.0)
        say(f"nothing is running in {literal(home.shown)}")
        return
    in_flight = await _in_flight(place) if running else None
    plan = f"stop {', '.join(parts)}"
    where = f"{home.shown} ({running.api_address})" if running else home.shown
    how = f"what runs is cut off after {grace_s:g} s" if grace_s else "what runs is cut off at once"
    notes = (how,) if in_flight != 0 else ()
    if in_flight is None:
        notes = ("what is in flight cannot be told: no control plane answers", *notes)
    asks = in_flight != 0 and (not grace_s or interactive())
    if not asks and not dry_run:
        say(f"on {literal(where)}: {literal(plan)}")
    repeat = place.command(f"down --yes{' --now' if now else f' --grace {grace}' if grace != GRACE else ''}")
    if not agreed(Plan(where, plan, asks, in_flight or 0, notes=notes), dry_run=dry_run, yes=yes, repeat=repeat):
        return
    # Without a control plane, or with the home's own key, this is its owner's business.
    target = place.target() if running and place.operator_key_file else None
    await stop(home, grace_s=grace_s, say=lambda line: say(f"  {literal(line)}"), target=target)
    out(f"{literal(home.shown)} is down")


async def _in_flight(place: Place) -> int | None:
    """Requests that run or wait; None where nobody can tell. Raises Forbidden or Unauthenticated."""
    try:
        async with place.client() as client:
            snapshot = await client.get_snapshot()
    except (Forbidden, Unauthenticated):
        raise
    except InferDeckError:
        return None
    return len([request for request in snapshot.requests if request.phase.active])
