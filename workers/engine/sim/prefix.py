"""Names for the content of KV blocks: a block's key stands for its tokens and everything before them.

vLLM chains a cryptographic hash, since its keys leave the process. Where these do, as KV events, they are those of
``contracts/block_hash.py``. Else Python's own hash, 64 bits wide
and several times cheaper, is enough: two prefixes are taken for one with a chance of about n² / 2⁶⁵ among n blocks.
"""

from __future__ import annotations

from collections.abc import Sequence


def extend_keys(keys: list[int], tokens: Sequence[int], block_size: int, salt: str) -> None:
    """Append the keys of the blocks that ``tokens`` fill beyond those that ``keys`` names already.

    Only full blocks have a key. The salt is part of the first, and by the chain of all.
    """
    key = keys[-1] if keys else hash(("salt", salt)) if salt else 0
    for start in range(len(keys) * block_size, len(tokens) - block_size + 1, block_size):
        key = hash((key, tuple(tokens[start : start + block_size])))
        keys.append(key)
