"""The names of the blocks that a call's prompt fills, made once and kept with the call. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.router.named_runs import NamedRuns

_RUNS: Final = NamedRuns()
"""Of all prompts: what two of them have in common is named once."""


class PromptBlocks:
    """A prompt only grows (by the answer so far, when a call goes on elsewhere): then the new blocks are named, and no
    others. Workers of one model may have blocks of different sizes."""

    __slots__ = ("_by_size", "_salt")

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._by_size: dict[int, list[int]] = {}

    def names(self, tokens: Sequence[int], block_size: int) -> list[int]:
        """Those of the full blocks, in their order; none where the block size (tokens) is 0, which is unknown."""
        if not block_size:
            return []
        names = self._by_size.setdefault(block_size, [])
        if len(names) < len(tokens) // block_size:
            _RUNS.extend(names, tokens, block_size, self._salt)
        return names
