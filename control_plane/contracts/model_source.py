"""What is wrong with where a pool's model comes from, as far as it is known before anything is loaded or fetched."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from control_plane.contracts.paths import expanded

BUILTIN: Final = "builtin:"
BUILTIN_MODELS: Final = ("smollm2-135m",)
"""The models that come with InferDeck."""

WEIGHT_FILES: Final = ("*.safetensors", "*.bin", "*.pt")
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_YES: Final = ("1", "on", "yes", "true")


@dataclass(frozen=True, slots=True)
class SourceFault:
    """Why a source can never work; ``hint`` is what to do instead, "" where there is nothing to say."""

    message: str
    hint: str = ""


def source_fault(source: str) -> SourceFault | None:
    """Of "builtin:NAME", a folder or a hub id. Whether a hub has the id is not asked."""
    if source.startswith(BUILTIN):
        name = source.removeprefix(BUILTIN)
        if name in BUILTIN_MODELS:
            return None
        return SourceFault(f"there is no built-in model {name!r}", f"built in: {', '.join(BUILTIN_MODELS)}")
    if not is_folder(source):
        return None
    if source and os.path.exists(expanded(source)):  # which says no of a path that is none
        return folder_fault(expanded(source))
    return SourceFault(
        f"{expanded(source)}: there is no such folder",
        f"give {BUILTIN}{BUILTIN_MODELS[0]}, a folder with a Hugging Face checkpoint, or a hub id such as org/name",
    )


def is_folder(source: str) -> bool:
    """Whether it means a folder, whether or not that is there: what is no hub's id, and what exists."""
    named = source.startswith(("/", "./", "../", "~")) or not _HUB_ID.fullmatch(source)
    return named or os.path.exists(expanded(source))


def folder_fault(folder: Path) -> SourceFault | None:
    """Why no checkpoint in the Hugging Face format can be loaded from one that is there."""
    if not os.path.isfile(folder / "config.json"):
        return SourceFault(
            f"{folder} holds no Hugging Face checkpoint: it has no config.json",
            "a GGUF file alone cannot be served; give a folder with config.json, tokenizer and safetensors",
        )
    if not any(path for pattern in WEIGHT_FILES for path in folder.glob(pattern)):
        return SourceFault(f"{folder} holds no weights ({', '.join(WEIGHT_FILES)})")
    return None


def offline_fault(source: str, offline: bool, environ: Mapping[str, str] = os.environ) -> SourceFault | None:
    """Whether a hub's model is to be loaded without a network and has never been downloaded."""
    if source.startswith(BUILTIN) or is_folder(source) or downloaded(source, environ):
        return None
    return not_here(source) if is_offline(offline, environ) else None


def is_offline(offline: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether nothing may be downloaded: by a pool's setting, or as huggingface_hub/constants.py reads it."""
    return offline or environ.get("HF_HUB_OFFLINE", "").lower() in _YES


def not_here(source: str) -> SourceFault:
    """A hub's model that was not downloaded where nothing may be."""
    return SourceFault(
        f"{source} is not on this machine, and downloading is off",
        f"set offline = false, or once on a machine with a network: hf download {source}",
    )


def downloaded(source: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the hub's cache holds something of it. The cache's place as in huggingface_hub/constants.py."""
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or os.path.join(base, "huggingface")
    cache = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.expandvars(os.path.expanduser(cache))
    return os.path.isdir(os.path.join(folder, f"models--{source.replace('/', '--')}"))
