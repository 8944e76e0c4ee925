"""Keys as secrets: how they are made, and what of them is kept."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

API_KEY_PREFIX: Final = "sk-inferdeck-"
OPERATOR_KEY_PREFIX: Final = "op-inferdeck-"

_SHOWN: Final = 4


def new_key(prefix: str) -> str:
    """A fresh secret: the prefix and 32 characters that are safe in URLs (192 bits)."""
    return prefix + secrets.token_urlsafe(24)


def digest(key: str) -> str:
    """SHA-256 in hexadecimal: enough, for nobody can try out 192 random bits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def shown(key: str, prefix: str) -> str:
    """The part of a key by which people tell it from others."""
    return key[: len(prefix) + _SHOWN]
