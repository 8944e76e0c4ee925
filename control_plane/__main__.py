"""``python -m control_plane serve|gateway|router|settings|cert``: the processes that ``inferdeck`` starts.

Exit codes: 0 ended as asked, 1 could not run, 2 a setting or an argument is wrong. Whatever is wrong is told on stderr
as ``error: …`` and ``hint: …``, and in the log.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from control_plane.contracts.errors import InferDeckError
from control_plane.processes.complaint import exit_code, tell
from control_plane.settings import (
    Home,
    Settings,
    SettingSource,
    check_machine,
    load_settings,
    load_with_sources,
    simulated,
    sources_after,
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="run the control plane, which runs everything else")
    gateway = commands.add_parser("gateway", help="run one gateway with its router")
    router = commands.add_parser("router", help="run one router, which gateways share")
    settings = commands.add_parser("settings", help="print the settings and who chose them")
    cert = commands.add_parser("cert", help="show and make certificates of the home's own authority")
    for command in (serving, gateway, router, settings, cert):
        command.add_argument("--home", type=Path, help="folder of state, logs and keys")
        command.add_argument("--config", type=Path, help="TOML file; else config.toml in the home")
    serving.add_argument("--parent-fd", type=int, help="a pipe's read end: when it closes, everything is shut down")
    for command in (serving, settings):
        command.add_argument("--engine", choices=("sim",), help="simulate the pools: no model, no GPU, no vLLM")
        command.add_argument("--profile", default="", help="what is simulated, like h100-llama-3.1-8b")
    gateway.add_argument("--id", required=True)
    gateway.add_argument("--port", type=int, help="instead of the settings'; 0 is any free one")
    gateway.add_argument("--rather", type=int, default=0, help="the port to take where any will do and it is free")
    router.add_argument("--id", required=True)
    router.add_argument("--port", type=int, help="instead of the settings'; 0 is any free one")
    router.add_argument("--no-record", action="store_true", help="leave none: no control plane looks after it")
    settings.add_argument("--json", action="store_true")
    settings.add_argument("--retires", action="store_true", help="with the workers in the home that they don't want")
    cert.add_argument("action", choices=("show", "server", "client", "renew"))
    cert.add_argument("names", nargs="*")
    cert.add_argument("--out", type=Path)
    cert.add_argument("--days", type=float, default=30.0)
    cert.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    home = Home.resolve(options.home)
    if options.config is not None:
        options.config = options.config.absolute()
    try:
        if options.command == "settings":
            return _print_settings(home, options)
        if options.command == "cert":
            from control_plane.processes.certificates import certificates

            return certificates(home, options.action, options.names, options.out, options.days, dry_run=options.dry_run)
        # Each process loads what it runs, and no more.
        if options.command == "serve":
            from control_plane.processes.serve import serve
            from control_plane.processes.settings_file import told

            config, sources = _chosen(home, options)
            check_machine(config)
            return serve(home, config, options.parent_fd, told(config, sources, _changes(options)))
        config = load_settings(options.config, home)
        if options.command == "router":
            from control_plane.processes.router import run_router

            return run_router(home, config, options.id, options.port, record=not options.no_record)
        from control_plane.processes.gateway import run_gateway

        return run_gateway(home, config, options.id, options.port, options.rather)
    except InferDeckError as error:
        tell(error)
        return exit_code(error)


def _chosen(home: Home, options: argparse.Namespace) -> tuple[Settings, tuple[SettingSource, ...]]:
    """The settings of the file as the options change them, and who chose each."""
    settings, sources = load_with_sources(options.config, home)
    if not options.engine:
        return settings, sources
    settings = simulated(settings, options.profile)
    return settings, sources_after(settings, sources, f"--engine {options.engine}")


def _changes(options: argparse.Namespace) -> list[str]:
    """The arguments that change what the file says."""
    if not options.engine:
        return []
    return ["--engine", options.engine, *(["--profile", options.profile] if options.profile else [])]


def _print_settings(home: Home, options: argparse.Namespace) -> int:
    from control_plane.processes.settings_file import told

    settings, sources = _chosen(home, options)
    document = told(settings, sources, _changes(options))
    if options.retires:
        from control_plane.fleet.unwanted import unwanted

        document["retires"] = unwanted(home, settings)
    if options.json:
        print(json.dumps(document, indent=1))
        return 0
    for row in document["settings"]:
        print(f"{row['key']} = {json.dumps(row['value'])}  # {row['source']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
