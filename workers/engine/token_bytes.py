"""The bytes that each token of a model stands for.

A tokenizer file spells them in one of two ways: byte-level BPE maps every byte to a printable character (GPT-2's
table), SentencePiece writes a space as ``▁`` and a byte without a character as ``<0xE2>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 stands for itself, every other byte for a character from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in table.values()]
    table.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return table


class TokenBytes:
    """``spelling`` gives a token's text in the tokenizer file (None for an unknown id); ``special`` are literal."""

    def __init__(self, spelling: Callable[[int], str | None], *, byte_level: bool, special: Sequence[int]) -> None:
        self._spelling = spelling
        self._byte_level = byte_level
        self._special = frozenset(special)
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token_id: int) -> bytes:
        found = self._known.get(token_id)
        if found is None:
            found = self._known[token_id] = self._bytes(token_id)
        return found

    def _bytes(self, token_id: int) -> bytes:
        text = self._spelling(token_id)
        if text is None:
            return b""
        if token_id in self._special:
            return text.encode()
        if self._byte_level:
            table = _byte_of_character()
            if all(character in table for character in text):
                return bytes(table[character] for character in text)
            return text.encode()
        if byte := _BYTE.fullmatch(text):
            return bytes([int(byte[1], 16)])
        return text.replace("▁", " ").encode()


def unfinished_bytes(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that is not complete: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 2 if 0xC2 <= byte <= 0xDF else 3 if byte & 0xF0 == 0xE0 else 4 if 0xF0 <= byte <= 0xF4 else 0
        return back if size > back else 0
    return 0
