"""``route``: which model a prompt would go to, and why."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from console import figures
from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import ApiKeyEnvOption, ApiKeyFilesOption, CaOption, OutputOption, UrlOption
from console.cli.output import Format, write_data
from console.plain.terminal import out, paint, width
from console.text import fit, literal, pad
from control_plane.contracts.errors import InvalidRequest

_LABEL = 12


@command("route", LOOK, Effect.LOOKS)
async def route(
    place: Place,
    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="What would be asked; - or nothing reads it from stdin."),
    ] = None,
    model: Annotated[str, typer.Option("-m", "--model", help="The name that would be asked for.")] = "auto",
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Longest answer.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Whom for: a split keeps to its side for each.")] = None,
    override: Annotated[
        str | None, typer.Option("--override", metavar="NAME", help="As the header x-inferdeck-model: small, large, …")
    ] = None,
    url: UrlOption = None,
    ca: CaOption = None,
    api_key_file: ApiKeyFilesOption = None,
    api_key_env: ApiKeyEnvOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell which model a prompt would go to, and why, without running it.

    The gateway is asked, with a key's own rights: what it says is what a call would get.
    """
    from console.cli.calls import calls_of
    from console.model_choice import ask
    from console.plain.choice import choice_lines

    text = " ".join(prompt or ())
    if text in ("", "-"):
        text = sys.stdin.read()
    if not text.strip():
        raise InvalidRequest("what would be asked? Give a prompt, or pipe one in", param="prompt")
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
    body |= {name: value for name, value in (("max_tokens", max_tokens), ("user", user)) if value is not None}
    endpoint, [key, *_] = await calls_of(place, url, ca, api_key_file, api_key_env)
    would_be = await ask(endpoint, key.secret, body, override)
    choice = would_be.choice
    if output in (Format.JSON, Format.YAML):
        write_data(dict(would_be.data), output)
        return
    if output is Format.NAME:
        out(f"model/{literal(choice.model)}")
        return
    room = width(sys.stdout)
    lines = [("model", choice.model)]
    if choice.asked != choice.model:
        lines.append(("asked for", choice.asked))
    lines += choice_lines(choice)
    lines.append(("workers", f"{would_be.ready_workers} ready"))
    lines.append(("price", f"{figures.money(would_be.price_per_hour)} a worker and hour"))
    for label, words in lines:
        line = paint(pad(label, _LABEL), "quiet") + literal(words)
        out(line if room is None or "\x1b" in line else fit(line, room))
