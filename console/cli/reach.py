"""Which of the options that say where the platform is a command has: those that mean something to it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Final

import typer

HomeOption = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The platform's folder. [$INFERDECK_HOME, ~/.inferdeck]")
]
ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="HOST:PORT", help="Operators' API, instead of the home's own.")
]
KeyFileOption = Annotated[
    str | None, typer.Option("--operator-key-file", metavar="FILE", help="Operator key, instead of the home's own.")
]
CertFileOption = Annotated[
    str | None,
    typer.Option("--operator-cert-file", metavar="FILE", help="Operator certificate, instead of the home's own."),
]

OPTIONS: Final[dict[str, Any]] = {
    "home": HomeOption,
    "server": ServerOption,
    "operator_key_file": KeyFileOption,
    "operator_cert_file": CertFileOption,
}


class Reach(Enum):
    HOME = "home"
    """It acts on a home of this machine, as its owner, or needs no platform at all."""

    OWN = "own"
    """It acts on a home of this machine, by the key that is named."""

    ANYWHERE = "anywhere"
    """It talks to an operators' API, wherever that is."""

    @property
    def options(self) -> dict[str, Any]:
        """By parameter."""
        names = {
            Reach.HOME: ("home",),
            Reach.OWN: ("home", "operator_key_file", "operator_cert_file"),
            Reach.ANYWHERE: tuple(OPTIONS),
        }[self]
        return {name: OPTIONS[name] for name in names}
