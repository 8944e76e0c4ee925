"""The ``config.json`` of a model that is on this machine: a folder, the file itself, or the Hugging Face cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.paths import expanded

LARGEST = 4 << 20  # bytes; published ones are a few KiB


def local_config(source: str) -> tuple[str, dict[str, Any]] | None:
    """The model's name and its config; None where ``source`` names nothing on this machine.

    Raises InvalidRequest for a folder without a config or a file that is none.
    """
    path = expanded(source)
    try:
        if path.is_dir():
            return path.resolve().name, _read(path / "config.json")
        if path.is_file():
            path = path.absolute()
            return path.parent.name if path.name == "config.json" else path.stem, _read(path)
    except (OSError, ValueError) as error:  # a name too long for a path, or with a NUL
        if "/" in source or source.endswith(".json"):
            raise InvalidRequest(f"{source}: {getattr(error, 'strerror', None) or error}", param="model") from None
        return None
    cached = _cached(source)
    return (source.rsplit("/", 1)[-1], _read(cached)) if cached is not None else None


def _cached(repo: str) -> Path | None:
    """Where the hub's cache holds the repository's config; the network is never asked."""
    if repo.count("/") != 1 or repo.startswith((".", "/", "~")):
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(repo, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise InvalidRequest(f"{path} is no config.json: it is larger than 4 MiB", param="model")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidRequest(
            f"{path.parent} has no config.json", param="model", hint="name the folder of a model in Hugging Face form"
        ) from None
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}", param="model") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{path} is not JSON", param="model") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path}: expected an object", param="model")
    return value
