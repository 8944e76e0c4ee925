"""``doctor``: can this machine run it, as it is configured?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.effect import Effect
from console.cli.exits import FAILED, Ended
from console.cli.options import ConfigOption, OutputOption
from console.cli.output import Format, write_data
from console.cli.reach import Reach
from console.plain.terminal import out, paint, width
from console.text import fit, literal, pad, wrap

_STYLES = {"ok": "good", "warn": "watch", "fail": "bad"}
_NAME = 20


@command("doctor", PLATFORM, Effect.LOOKS, Reach.HOME)
def doctor(
    place: Place,
    config: ConfigOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Don't import vLLM, which takes seconds.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check whether this machine can run it as it is configured.

    The machine, the packages, vLLM, the GPUs, the ports, the home, the settings and the models. Where a platform runs
    in the home, the settings are those that it runs with, unless --config names others. -o wide also lists every
    setting and where it comes from. Exits 1 when something would keep the platform from starting.
    """
    from console.doctor import Verdict, examine

    findings, settings = examine(place.home, config, quick=quick)
    if output in (Format.JSON, Format.YAML):
        data = {
            "checks": [asdict(finding) for finding in findings],
            "settings": [asdict(setting) for setting in settings.settings],
            "config": settings.path or None,
            "in_force": settings.running,
            "edited": list(settings.edited),
        }
        write_data(data, output)
    elif output is Format.NAME:
        for finding in findings:
            out(f"{finding.verdict}/{finding.name}")
    else:
        for finding in findings:
            _line(finding.verdict, finding.name, finding.detail)
            if finding.hint:
                _line("", "", f"hint: {finding.hint}")
        if output is Format.WIDE:
            out("")
            which = f"# {literal(settings.path or 'defaults')}"
            out(f"{which}, as the control plane that runs read it" if settings.running else which)
            for setting in settings.settings:
                value = json.dumps(setting.value, ensure_ascii=False)
                out(f"{literal(setting.key)} = {literal(value)}  # {literal(setting.source)}")
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise Ended(FAILED)


def _line(verdict: str, name: str, text: str) -> None:
    room = width(sys.stdout)
    head = f"{paint(pad(verdict, 4), _STYLES.get(verdict))}  "
    if room is None or room < _NAME + 30:
        line = f"{pad(literal(name), _NAME)} {literal(text)}"
        out(head + (line if room is None else fit(line, max(1, room - 6))))
        return
    first, *more = wrap(literal(text), room - _NAME - 7)
    out(f"{head}{pad(literal(name), _NAME)} {first}")
    for part in more:
        out(" " * (_NAME + 7) + part)
