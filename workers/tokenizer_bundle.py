"""The tokenizer's files as one thing with one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from workers.engine.base import TokenizerFile


def tokenizer_hash(files: Sequence[TokenizerFile]) -> str:
    """sha256 over the files in order of their names: name, a zero byte, the size as 8 bytes big-endian, the bytes."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.name.encode() + b"\0" + len(file.data).to_bytes(8, "big"))
        digest.update(file.data)
    return digest.hexdigest()
