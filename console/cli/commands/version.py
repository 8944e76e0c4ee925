"""``version``: of InferDeck and of what it runs on."""

from __future__ import annotations

import platform

from console.cli.command import PLATFORM, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.cli.reach import Reach
from console.cli.version import version_of, vllm_version
from console.plain.terminal import out


@command("version", PLATFORM, Effect.LOOKS, Reach.HOME)
def version(place: Place, output: OutputOption = Format.TABLE) -> None:
    """Print versions."""
    running = place.home.running()
    data = {
        "inferdeck": version_of("inferdeck"),
        "python": platform.python_version(),
        "vllm": vllm_version() or None,
        "running": running.version if running else None,
    }
    if output in (Format.JSON, Format.YAML):
        write_data(data, output)
        return
    out(f"inferdeck {data['inferdeck']}")
    if output is not Format.NAME:
        out(f"python {data['python']}")
        out(f"vllm {data['vllm'] or 'is not installed'}")
        if running is not None and running.version != data["inferdeck"]:
            out(f"running {running.version}, in {place.home.shown}")
