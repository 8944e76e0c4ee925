"""The name of a KV block's content: 64 bits that stand for its tokens and for everything before them.

This is a wire format: workers tell routers which blocks they hold by these names, and a router makes the same names
from a prompt. Only full blocks have one.

    block  = BLAKE2b(the block's token ids as int32, little-endian; digest 8 bytes; salt: the parent's 8 bytes, and
             8 zero bytes; person "inferdeck-kv-1")
    parent = the block before it; of the first block: the root
    root   = BLAKE2b(the cache salt as UTF-8; digest 8 bytes; person "inferdeck-root-1")

A digest is read as an unsigned little-endian integer. The cache salt is in the root, so equal prompts under two salts
share no names. A salt is no secret: today it is the tenant's name. Two of n blocks are taken for one with a chance of
about n² / 2⁶⁵: one in 37 million for a million blocks.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

_BLOCK: Final = b"inferdeck-kv-1"
_ROOT: Final = b"inferdeck-root-1"
_BYTES: Final = 8
_TOKEN_BYTES: Final = 4


@lru_cache(4096)
def root_hash(salt: str) -> int:
    """The parent of the first block. Equal salts share their blocks; "" is a salt like any other."""
    return int.from_bytes(blake2b(salt.encode(), digest_size=_BYTES, person=_ROOT).digest(), "little")


def chained(parent: int, tokens: Sequence[int], block_size: int) -> list[int]:
    """The names of the full blocks that ``tokens`` fill after ``parent``.

    Raises OverflowError for a token id that is no int32.
    """
    return named(parent, packed(tokens), block_size).tolist()


def packed(tokens: Sequence[int]) -> bytes:
    """Token ids as they are hashed. Raises OverflowError for one that is no int32."""
    ids = array("I", tokens)  # from a list it takes a third of the time of "i"
    _little_endian(ids)
    data = ids.tobytes()
    if not data[_TOKEN_BYTES - 1 :: _TOKEN_BYTES].isascii():
        raise OverflowError("a token id is no int32")
    return data


def named(parent: int, data: bytes, block_size: int) -> array[int]:
    """The names of the full blocks in ``data``, which is ``packed``, after ``parent``."""
    size = block_size * _TOKEN_BYTES
    name = parent.to_bytes(_BYTES, "little")
    names = []
    for end in range(size, len(data) + 1, size):
        name = blake2b(data[end - size : end], digest_size=_BYTES, salt=name, person=_BLOCK).digest()
        names.append(name)
    numbers = array("Q", b"".join(names))
    _little_endian(numbers)
    return numbers


def block_hashes(tokens: Sequence[int], block_size: int, salt: str = "") -> list[int]:
    """The names of the blocks that a prompt fills, in their order."""
    return chained(root_hash(salt), tokens, block_size)


def extend_hashes(names: list[int], tokens: Sequence[int], block_size: int, salt: str) -> None:
    """Append the names of the blocks that ``tokens`` fill beyond those that ``names`` has already."""
    parent = names[-1] if names else root_hash(salt)
    names += chained(parent, tokens[len(names) * block_size :], block_size)


def _little_endian(numbers: array[int]) -> None:
    """Between that and the machine's own order, either way."""
    if sys.byteorder == "big":
        numbers.byteswap()
