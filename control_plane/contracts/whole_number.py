"""A whole number within bounds, out of a document that people write."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.errors import InvalidRequest


def whole(value: Any, path: str, least: int, most: int) -> int:
    """Raises InvalidRequest that names ``path``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(f"{path}: a whole number from {least:,} to {most:,} is needed", param=path)
    return value
