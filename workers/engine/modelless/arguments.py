"""``engine_args`` as a dataclass of settings: every key known, every value of its default's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from control_plane.contracts.errors import SettingsError

T = TypeVar("T")


def read_arguments(settings: type[T], engine_args: Mapping[str, Any], engine: str) -> T:
    """Raises SettingsError that names the argument, and for an unknown one those that there are."""
    known = {field.name: type(field.default) for field in fields(settings)}  # type: ignore[arg-type]
    for name, value in engine_args.items():
        kind = known.get(name)
        if kind is None:
            raise SettingsError(
                f"the {engine} engine has no argument {name!r}; it has {', '.join(sorted(known))}",
                param=f"engine_args.{name}",
            )
        fits = isinstance(value, (int, float) if kind is float else list if kind is tuple else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise SettingsError(f"engine_args.{name} can't be {value!r}", param=f"engine_args.{name}")
    return settings(**engine_args)
