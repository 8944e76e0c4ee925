"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` and ``~NAME`` replaced, where there is such a home; any other stays as it is written.

    ``Path.expanduser`` raises RuntimeError for a user that does not exist, and nobody who reads a setting expects that.
    """
    return Path(os.path.expanduser(path))
