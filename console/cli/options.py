"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.cli.output import Format

OutputOption = Annotated[Format, typer.Option("-o", "--output", help="How to print it.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do it without asking.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, with the same plan; do nothing.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings (TOML). [default: config.toml in the home]")
]
UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="An OpenAI endpoint. [default: the platform's gateway]")
]
CaOption = Annotated[str | None, typer.Option("--ca", metavar="FILE", help="Whom to trust (PEM), with an https --url.")]
ApiKeyFilesOption = Annotated[
    list[str] | None, typer.Option("--api-key-file", metavar="FILE", help="API key; give several to take turns.")
]
ApiKeyEnvOption = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="An environment variable that holds the API key.")
]
