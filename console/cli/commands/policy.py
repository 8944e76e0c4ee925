"""``policy get|set|history``: tiers and limits as data."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from console.cli.command import OPERATE, Place, Verbs
from console.cli.effect import Effect
from console.cli.options import DryRunOption, OutputOption
from console.cli.output import Format, write_data, write_rows
from console.plain.terminal import is_terminal, out, paint, say, width
from console.text import literal
from control_plane.contracts.errors import InvalidRequest, NotFound

POLICY = Verbs("policy", OPERATE, "Tiers and limits, as data that can be changed while everything runs.")


class Document(StrEnum):
    TOML = "toml"
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@POLICY.verb("get", Effect.LOOKS)
async def get(
    place: Place,
    version: Annotated[int | None, typer.Option("--version", help="An earlier one. [the one in force]")] = None,
    output: Annotated[Document, typer.Option("-o", "--output", help="How to print it.")] = Document.TOML,
) -> None:
    """Print the policy: edit it, and give it to policy set -f. -o table shows every part of it as a table."""
    from console.plain.policy_toml import to_toml
    from control_plane.contracts.policy_document import document_of

    async with place.client() as client:
        document = document_of(await client.access.policy(_version(version)))
    if output is Document.TOML:
        out(to_toml(document))
    elif output is Document.TABLE:
        _tables(document)
    else:
        write_data(document, Format(output.value))


@POLICY.verb("set", Effect.CHANGES)
async def set_policy(
    place: Place,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH=VALUE...",
            help="tiers.free.rpm=10, tenants.acme.tpm=5000, routing.models.smart.target=MODEL; none takes it away.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="A whole policy: TOML, JSON or YAML; - is stdin."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="The version that is to be changed. [a file's own]")
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change the policy, within a second on every gateway, and print what is different.

    tiers.NAME=none takes a tier away, as long as no key has it. Another version in force than the one that was looked
    at is an error.
    """
    from control_plane.contracts.policy_document import differences, policy_of

    if bool(assignments) == (file is not None):
        raise InvalidRequest(
            "what is to be set? Either PATH=VALUE or -f FILE", param="PATH=VALUE", hint=place.command("policy get")
        )
    document, looked_at = None, _version(version)
    if file is not None:
        values = _read(file)
        policy_of(values)
        if looked_at is None and "version" in values:
            looked_at = values["version"]
        document = json.dumps(values)
    async with place.client() as client:
        change = await client.access.set_policy(
            assignments or (), document=document, version=looked_at, dry_run=dry_run
        )
    lines = differences(change.before, change.after)
    for line in lines:
        out(literal(line))
    for warning in change.warnings:
        say(f"warning: {literal(warning)}", "watch")
    if not lines:
        say(f"nothing is different from version {change.before.version}")
    elif dry_run:
        say(f"would become version {change.after.version} (dry run)")
    else:
        say(f"version {change.after.version} is in force")


@POLICY.verb("history", Effect.LOOKS)
async def history(place: Place, output: OutputOption = Format.TABLE) -> None:
    """List the versions of the policy; policy get --version N prints one."""
    from console.plain.access import date
    from console.plain.data import plain
    from console.plain.table import Column

    async with place.client() as client:
        versions = await client.access.policy_history()
    if output in (Format.JSON, Format.YAML):
        write_data([plain(version) for version in versions], output)
    elif output is Format.NAME:
        for version in versions:
            out(f"policy/{version.version}")
    elif not versions:
        say("the policy is the one that came with the program: version 0")
    else:
        write_rows(
            versions,
            [
                Column("VERSION", lambda v: str(v.version), right=True, keep=9),
                Column("TIME", lambda v: date(v.at_unix), keep=7),
                Column("BY", lambda v: v.by, keep=8),
                Column("CHANGE", lambda v: "; ".join(v.differences), keep=6),
            ],
        )


def _tables(document: dict[str, Any]) -> None:
    """Every part under its name."""
    from console.plain.policy_table import Section, sections
    from console.plain.table import Column, table

    def columns(section: Section) -> list[Column[tuple[str, ...]]]:
        return [
            Column(title, lambda row, at=index: row[at], keep=len(section.columns) - index)  # type: ignore[misc]
            for index, title in enumerate(section.columns)
        ]

    room, dropped = width(sys.stdout), 0
    for number, section in enumerate(sections(document)):
        if number:
            out("")
        if section.name:
            out(paint(f"{literal(section.name)}:", "strong"))
        indent = "  " if section.name else ""
        if not section.rows:
            out(f"{indent}nothing is set")
            continue
        section = section.fitted(room and max(1, room - len(indent)))
        made = table(section.rows, columns(section), room and max(1, room - len(indent)))
        dropped += made.dropped
        for line in made.lines:
            out(indent + line)
    if dropped and is_terminal(sys.stderr):
        say(f"{dropped} columns did not fit: -o toml has everything", "quiet")


def _version(version: int | None) -> int | None:
    if version is not None and not 0 <= version < 1 << 32:
        raise InvalidRequest("--version: a version's number is needed", param="version")
    return version


def _read(file: Path) -> dict[str, Any]:
    """A policy's document as plain values. YAML reads JSON, too."""
    import yaml

    from control_plane.contracts.toml_text import TomlWrong

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise NotFound(f"{file} cannot be read: {why}", param="file") from None
    try:
        values = yaml.safe_load(text) if file.suffix in (".json", ".yaml", ".yml") else _guess(text)
    except (TomlWrong, yaml.YAMLError) as error:
        raise InvalidRequest(f"{file} is no TOML, JSON or YAML: {' '.join(str(error).split())}", param="file") from None
    except (ValueError, RecursionError) as error:
        # YAML's reader lets the interpreter's errors through: a date that is none, a number or a nesting too large.
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidRequest(f"{file} cannot be read: {why}", param="file") from None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{file} holds no policy", param="file", hint="inferdeck policy get")
    return values


def _guess(text: str) -> Any:
    import yaml

    from control_plane.contracts.toml_text import TomlWrong, read_toml

    try:
        return read_toml(text)[0]
    except TomlWrong as wrong_toml:
        try:
            values = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            values = None
        if isinstance(values, dict):
            return values
        raise wrong_toml
