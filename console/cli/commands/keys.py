"""``key list|create|set|rotate|revoke``: callers' keys."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console.cli.command import Place
from console.cli.commands.key_files import KEY
from console.cli.confirm import Plan, agreed
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.hand_over import OutOption, hand_over, secret_file
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format
from console.cli.reference import bare_name
from console.home import shown_path
from console.home_key import REPLACE
from console.plain.terminal import out, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from console.client import OperatorClient
    from control_plane.contracts.access import KeyList, KeyView, NewKey

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, or its name.")]

FIELDS = ("name", "tenant", "tier", "rpm", "tpm", "concurrency", "models", "expires")


@KEY.verb("list", Effect.LOOKS)
async def list_keys(
    place: Place,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those that are revoked, too.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List callers' keys, as get keys does."""
    from console.cli.listing import list_all

    await list_all(place, "keys", everything=everything, output=output)


@KEY.verb("create", Effect.ENDS)
async def create(
    place: Place,
    name: Annotated[str, typer.Option("--name", help="What it is called, for people. [the tenant]")] = "",
    tenant: Annotated[
        str, typer.Option("--tenant", help="Whose it is; a tenant's keys share its limits. [default]")
    ] = "",
    tier: Annotated[str, typer.Option("--tier", help="A tier of the policy. [paid]")] = "",
    rpm: Annotated[int | None, typer.Option("--rpm", help="Requests a minute. [the tier's]")] = None,
    tpm: Annotated[int | None, typer.Option("--tpm", help="Tokens a minute. [the tier's]")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", help="Calls at a time. [the tier's]")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="MODEL", help="It may call only these. [the tier's]")
    ] = None,
    expires: Annotated[str, typer.Option("--expires", metavar="DURATION", help="Ends after, like 30d. [never]")] = "",
    out_file: OutOption = None,
    replace_home_key: Annotated[
        bool,
        typer.Option(
            "--replace-home-key", help="Into the home's api.key, in the place of what is there; else like that key."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make a key and print it: it is shown this once. Better, --out FILE keeps it where only you can read it.

    For a client's environment: export OPENAI_API_KEY=$(inferdeck key create --tier paid)
    """
    from control_plane.contracts.access import KeySpec
    from control_plane.contracts.policy import DEFAULT_TENANT, DEFAULT_TIER, Limits

    if replace_home_key and (place.server is not None or out_file is not None):
        raise InvalidRequest(
            "--replace-home-key is about the home's own file: it goes without --server and --out", param="out"
        )
    expires_unix = time.time() + duration(expires, "--expires") if expires else None
    given = Limits(
        rpm=_positive(rpm, "--rpm"), tpm=_positive(tpm, "--tpm"), concurrency=_positive(concurrency, "--concurrency")
    )
    async with place.client() as client:
        told = await client.access.keys()
        known = [key for key in told.keys if key.state(time.time()) == "active"]
        was = _home_key(told) if replace_home_key else None
        # What was the home's key says what its successor may, where nothing else is said.
        base = was.spec if was is not None else KeySpec("", DEFAULT_TENANT, DEFAULT_TIER)
        spec = KeySpec(
            name or base.name or tenant or base.tenant,
            tenant or base.tenant,
            tier or base.tier,
            Limits(
                **{limit: value if value is not None else getattr(base.limits, limit) for limit, value in _each(given)}
            ),
            tuple(models or base.models),
            expires_unix,
        )
        with _as_typed(f"--expires {expires}"):
            planned = await client.access.create_key(spec, dry_run=True)
        what = f"create a key: {_words(planned.view)}"
        if replace_home_key:
            what = f"put a new key into {shown_path(place.home.own_key_path())}: {_words(planned.view)}"
        lost = was is not None and was.state(time.time()) == "active"
        notes = (f"key/{was.id} stays valid, and its secret will be nowhere any more",) if was and lost else ()
        plan = Plan(client.target.context, what, lost, notes=notes)
        repeat = place.command(f"{REPLACE} --yes")
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat, output=output):
            return
        path = place.home.own_key_path() if replace_home_key else out_file
        with secret_file(path, replaces=replace_home_key) as file:
            new = await client.access.create_key(spec)
            same = [key.id for key in known if key.spec.name == spec.name] if name else []
            if same:
                which = ", ".join(f"key/{key}" for key in same)
                say(f"{literal(which)} has the name {literal(name)} too: tell them apart by their ids", "watch")
            await _warn_of_models(client, spec.models if models else ())
            hand_over(new.key, file, f"key/{new.view.id} created: {_words(new.view)}", _data(new), output)


def _each(limits: Any) -> list[tuple[str, int | None]]:
    return [(field.name, getattr(limits, field.name)) for field in dataclasses.fields(limits)]


def _positive(value: int | None, option: str) -> int | None:
    """The server says the rest; what the wire cannot carry is told here."""
    if value is not None and not 0 < value < 1 << 63:
        raise InvalidRequest(f"{option}: at least 1 is needed; leave it out for the tier's", param=option)
    return value


@KEY.verb("set", Effect.CHANGES)
async def set_key(
    place: Place,
    key: KeyArgument,
    assignments: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help=f"{', '.join(FIELDS[:-1])}, {FIELDS[-1]}."),
    ],
    dry_run: DryRunOption = False,
) -> None:
    """Change what a key may do, within a second on every gateway: tier=free rpm=60 models=a,b expires=30d.

    none leaves a limit or the models to the tier, and takes an expiry away.
    """
    wanted = [_assignment(assignment) for assignment in assignments]
    typed = next((each for each in reversed(assignments) if each.partition("=")[0].strip() == "expires"), "")
    async with place.client() as client:
        with _as_typed(typed):
            change = await client.access.set_key(bare_name(key, "keys"), wanted, dry_run=dry_run)
        if change.before.spec.models != change.after.spec.models:
            await _warn_of_models(client, change.after.spec.models)
    if change.before == change.after:
        out(f"key/{change.after.id} is so already: {_words(change.after)}")
        return
    word = "would be" if dry_run else "is now"
    out(f"key/{change.after.id} {word}: {_words(change.after)}{' (dry run)' if dry_run else ''}")
    say(f"it was: {_words(change.before)}")


async def _warn_of_models(client: OperatorClient, models: Sequence[str]) -> None:
    """A key may name a model that is to come; whoever has mistyped one learns it here."""
    known = {model.name for model in (await client.get_snapshot()).models} if models else set()
    for model in models:
        if model not in known:
            say(f"warning: models: nothing serves {literal(model)} at present", "watch")


@contextmanager
def _as_typed(expiry: str) -> Iterator[None]:
    """An expiry is a time to the platform, and a duration here: what is wrong with it is told of what was typed."""
    try:
        yield
    except InvalidRequest as error:
        if error.param != "expires_unix":
            raise
        what = error.message.removeprefix("expires_unix: ")
        raise InvalidRequest(f"{expiry}: {what}", param=expiry.partition("=")[0].partition(" ")[0]) from None


def _assignment(typed: str) -> str:
    """FIELD=VALUE as the platform takes it: an expiry is a time there, and a duration here."""
    field, equals, text = (part.strip() for part in typed.partition("="))
    if not equals:
        raise InvalidRequest(f"{typed!r} is not FIELD=VALUE, for example rpm=60", param="FIELD=VALUE")
    if field not in FIELDS:
        near = get_close_matches(field, FIELDS, 1)
        meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(FIELDS)}"
        raise InvalidRequest(f"a key has no field {field!r}{meant}", param=field)
    if field != "expires":
        return f"{field}={text}"
    return f"expires_unix={text if text == 'none' else time.time() + duration(text, 'expires')}"


@KEY.verb("rotate", Effect.ENDS)
async def rotate(
    place: Place,
    key: KeyArgument,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long the secret that it has now is good, too.")
    ] = "0s",
    out_file: OutOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give a key a new secret and print it: it is shown this once.

    With a grace the secret before is good for that long, and one from an earlier rotation for as long as it was given.
    Without, every older secret ends at once.
    """
    grace_s, name = duration(grace, "--grace"), bare_name(key, "keys")
    async with place.client() as client:
        planned = await client.access.rotate_key(name, grace_s, dry_run=True)
        view = planned.view
        known = {each.id: each for each in (await client.access.keys()).keys}
        ends = _old_secrets(known.get(view.id, view), grace if grace_s else "")
        plan = Plan(
            client.target.context, f"give key/{view.id} ({_words(view)}) a new secret; {ends}", ends=not grace_s
        )
        repeat = place.command("key rotate --yes", key, *(["--out", out_file] if out_file else []))
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat, output=output):
            return
        with secret_file(out_file) as file:
            new = await client.access.rotate_key(view.id, grace_s)
            hand_over(new.key, file, f"key/{new.view.id} rotated: {ends}", _data(new), output)


def _old_secrets(before: KeyView, grace: str) -> str:
    """What becomes of the secrets that a key has before it is rotated."""
    from console.plain.access import date

    now = f"the one that it has now is good for {grace}" if grace else "the one that it has now ends at once"
    if not before.old_ends_unix:
        return now
    times = " and ".join(date(end) for end in before.old_ends_unix)
    one = len(before.old_ends_unix) == 1
    if grace:
        return f"{now}; {'an older one stays' if one else 'older ones stay'} good until {times}"
    older = "so does an older one that was" if one else "so do older ones that were"
    return f"{now}, and {older} to be good until {times}"


@KEY.verb("revoke", Effect.ENDS)
async def revoke(place: Place, key: KeyArgument, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """End a key for good, within a second on every gateway. Calls that run go on."""
    name = bare_name(key, "keys")
    way_out = place.command(REPLACE) if place.server is None else f"inferdeck {REPLACE}, on its machine,"
    async with place.client() as client:
        view = (await client.access.revoke_key(name, dry_run=True)).before
        if view.revoked_unix is not None:
            out(f"key/{view.id} is revoked already")
            return
        running = [r.id for r in (await client.get_snapshot()).requests if r.key_id == view.id and r.phase.active]
        own = (await client.access.keys()).home_key
        homes = own is not None and own.key_id == view.id
        notes = ("it is the home's own key: chat, load and whoever reads api.key call with it",) if homes else ()
        plan = Plan(
            client.target.context, f"revoke key/{view.id} ({_words(view)})", True, len(running), tuple(running), notes
        )
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=place.command("key revoke --yes", key)):
            return
        await client.access.revoke_key(view.id)
    out(f"key/{view.id} revoked")
    if homes:
        say(f"the home has no key of its own any more: {literal(way_out)} makes one", "watch")


def _home_key(told: KeyList) -> KeyView | None:
    own = told.home_key.key_id if told.home_key is not None else ""
    return next((key for key in told.keys if key.id == own), None)


def _data(new: NewKey) -> dict[str, Any]:
    from console.plain.access import key_data

    return key_data(new.view, time.time())


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
