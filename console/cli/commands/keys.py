"""``key list|create|set|rotate|revoke``: callers' keys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import Place
from console.cli.commands.key_files import KEY
from console.cli.confirm import announce, confirm
from console.cli.durations import duration
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format, write_data
from console.cli.reference import bare_name
from console.plain.terminal import out, say
from console.text import literal

if TYPE_CHECKING:
    from control_plane.contracts.access import KeyView, NewKey

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, or its name.")]


@KEY.verb("list")
async def list_keys(
    place: Place,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those that are revoked, too.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List callers' keys, as get keys does."""
    from console.cli.listing import listings, write_all

    async with place.client() as client:
        told, _ = await listings(client, ["keys"], everything=everything, finished_requests=False)
    write_all(told["keys"], output)


@KEY.verb("create")
async def create(
    place: Place,
    name: Annotated[str, typer.Option("--name", help="What it is called, for people.")] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Whose it is; a tenant's keys share its limits.")] = "default",
    tier: Annotated[str, typer.Option("--tier", help="A tier of the policy.")] = "paid",
    rpm: Annotated[int | None, typer.Option("--rpm", help="Requests a minute. [the tier's]")] = None,
    tpm: Annotated[int | None, typer.Option("--tpm", help="Tokens a minute. [the tier's]")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", help="Calls at a time. [the tier's]")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="MODEL", help="It may call only these. [the tier's]")
    ] = None,
    expires: Annotated[str, typer.Option("--expires", metavar="DURATION", help="Ends after, like 30d. [never]")] = "",
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make a key and print it: it is shown this once.

    For a client's environment: export OPENAI_API_KEY=$(inferdeck key create --tier paid)
    """
    from control_plane.contracts.access import KeySpec
    from control_plane.contracts.policy import Limits

    expires_unix = time.time() + duration(expires, "--expires") if expires else None
    limits = Limits(
        rpm=_positive(rpm, "--rpm"), tpm=_positive(tpm, "--tpm"), concurrency=_positive(concurrency, "--concurrency")
    )
    spec = KeySpec(name or tenant, tenant, tier, limits, tuple(models or ()), expires_unix)
    async with place.client() as client:
        new = await client.access.create_key(spec, dry_run=dry_run)
    if dry_run:
        out(f"would create a key: {_words(new.view)} (dry run)")
        return
    _hand_over(new, output, f"key/{new.view.id} created: {_words(new.view)}")


def _positive(value: int | None, option: str) -> int | None:
    """The server says the rest; what the wire cannot carry is told here."""
    if value is not None and not 0 < value < 1 << 63:
        from control_plane.contracts.errors import InvalidRequest

        raise InvalidRequest(f"{option}: at least 1 is needed; leave it out for the tier's", param=option)
    return value


@KEY.verb("set")
async def set_key(
    place: Place,
    key: KeyArgument,
    assignments: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help="name, tenant, tier, rpm, tpm, concurrency, models, expires."),
    ],
    dry_run: DryRunOption = False,
) -> None:
    """Change what a key may do, within a second on every gateway: tier=free rpm=60 models=a,b expires=30d.

    none leaves a limit or the models to the tier, and takes an expiry away.
    """
    wanted = [_as_time(assignment) for assignment in assignments]
    async with place.client() as client:
        change = await client.access.set_key(bare_name(key, "keys"), wanted, dry_run=dry_run)
    if change.before == change.after:
        out(f"key/{change.after.id} is so already: {_words(change.after)}")
        return
    word = "would be" if dry_run else "is now"
    out(f"key/{change.after.id} {word}: {_words(change.after)}{' (dry run)' if dry_run else ''}")
    say(f"it was: {_words(change.before)}")


def _as_time(assignment: str) -> str:
    field, _, text = assignment.partition("=")
    if field != "expires":
        return assignment
    return f"expires_unix={text if text == 'none' else time.time() + duration(text, 'expires')}"


@KEY.verb("rotate")
async def rotate(
    place: Place,
    key: KeyArgument,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long the old secret is good, too.")
    ] = "0s",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give a key a new secret and print it: it is shown this once. The old one ends, at once or after a grace."""
    grace_s, name = duration(grace, "--grace"), bare_name(key, "keys")
    async with place.client() as client:
        plan = await client.access.rotate_key(name, grace_s, dry_run=True)
        ends = f"the old one is good for {grace}" if grace_s else "the old one ends at once"
        what = f"give key/{plan.view.id} ({_words(plan.view)}) a new secret; {ends}"
        if dry_run:
            out(f"would {what} (dry run)")
            return
        announce(client.target.context, what, 0)
        if not grace_s:
            confirm(f"rotate {plan.view.id}", yes=yes, repeat=place.command("key rotate --yes", key))
        new = await client.access.rotate_key(plan.view.id, grace_s)
    _hand_over(new, output, f"key/{new.view.id} rotated: {ends}")


@KEY.verb("revoke")
async def revoke(place: Place, key: KeyArgument, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """End a key for good, within a second on every gateway. Calls that run go on."""
    name = bare_name(key, "keys")
    async with place.client() as client:
        plan = await client.access.revoke_key(name, dry_run=True)
        view = plan.before
        if view.revoked_unix is not None:
            out(f"key/{view.id} is revoked already")
            return
        if dry_run:
            out(f"would revoke key/{view.id}: {_words(view)} (dry run)")
            return
        running = [r.id for r in (await client.get_snapshot()).requests if r.key_id == view.id and r.phase.active]
        announce(client.target.context, f"revoke key/{view.id} ({_words(view)})", len(running), tuple(running))
        confirm(f"revoke {view.id}", yes=yes, repeat=place.command("key revoke --yes", key))
        await client.access.revoke_key(view.id)
    out(f"key/{view.id} revoked")


def _hand_over(new: NewKey, output: Format, words: str) -> None:
    """The secret on stdout, alone, and the rest beside it."""
    if output in (Format.JSON, Format.YAML):
        from console.plain.access import key_data

        write_data({"key": new.key, **key_data(new.view, time.time())}, output)
        return
    say(literal(words))
    say("the key itself, shown this once:")
    out(new.key)


def _words(view: KeyView) -> str:
    from console import figures
    from console.plain.access import date, limits_of

    spec = view.spec
    limits = limits_of(spec.limits)
    parts = [f"name {spec.name}", f"tenant {spec.tenant}", f"tier {spec.tier}"]
    parts += [limits] if limits != figures.NONE else []
    parts += [f"models {', '.join(spec.models)}"] if spec.models else []
    parts += [f"until {date(spec.expires_unix)}"] if spec.expires_unix is not None else []
    return literal(", ".join(parts))
