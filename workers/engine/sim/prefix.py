"""Names for the content of KV blocks: a block's key stands for its tokens and everything before them.

vLLM chains a cryptographic hash, since its keys leave the process. Where these do, as KV events, they are those of
``contracts/block_hash.py``. Else some 62 bits are enough, and many times cheaper: two prefixes are taken for one with a
chance of about n² / 2⁶³ among n blocks. Python's own hash gives them, or, several times faster where it is compiled, a
multiplication with carry for each token. Keys are compared, never kept: which of the two it is changes nothing else.
"""

from __future__ import annotations

from typing import Final

from workers.engine.sim import core
from workers.engine.sim.native import i64

_COMPILED: Final = core.COMPILED is not None
_LOW: Final = 0xFFFF_FFFF
_HIGH: Final = 0x3FFF_FFFF
_TOP: Final = 1 << 62
_ROOT: Final = 0x2545_F491_4F6C_DD1D
_FACTOR: Final = 0x3A8F_05C5


def extend_keys(keys: list[int], tokens: list[int], block_size: int, salt: str) -> None:
    """Append the keys of the blocks that ``tokens`` fill beyond those that ``keys`` names already.

    Only full blocks have a key. The salt is part of the first, and by the chain of all.
    """
    key = keys[-1] if keys else root_key(salt)
    if _COMPILED:
        _mix(keys, tokens, block_size, key)
    else:
        _hash(keys, tokens, block_size, key)


def root_key(salt: str) -> int:
    """What the first block's key follows from. Not 0: from there a token 0 would lead nowhere."""
    return hash(("salt", salt)) >> 2 if salt else _ROOT


def _hash(keys: list[int], tokens: list[int], block_size: int, key: int) -> None:
    for start in range(len(keys) * block_size, len(tokens) - block_size + 1, block_size):
        key = hash((key, tuple(tokens[start : start + block_size])))
        keys.append(key)


def _mix(keys: list[int], tokens: list[int], size: i64, key: i64) -> None:
    start: i64 = len(keys) * size
    low: i64 = key & _LOW
    high: i64 = key >> 32 & _HIGH
    known: i64 = len(tokens)
    while start + size <= known:
        for at in range(start, start + size):
            token: i64 = tokens[at]
            mixed: i64 = ((low ^ token) & _LOW) * _FACTOR + high
            high = mixed >> 32
            low = (mixed ^ high << 1) & _LOW
        keys.append(_TOP | high << 32 | low)
        start += size
