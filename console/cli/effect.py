"""What a verb does to the platform, and what it therefore has to offer: the README promises it for every verb."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum


class Effect(Enum):
    LOOKS = "looks"
    """It changes nothing."""

    RUNS = "runs"
    """It starts something that its caller ends, or writes a file that its caller names, and nothing else."""

    CHANGES = "changes"
    """What it changes goes on meanwhile, and can be changed back."""

    ENDS = "ends"
    """It can end, cut off or lose something."""

    @property
    def parameters(self) -> frozenset[str]:
        """What a verb with this effect takes."""
        return {
            Effect.CHANGES: frozenset({"dry_run"}),
            Effect.ENDS: frozenset({"dry_run", "yes"}),
        }.get(self, frozenset())


def check(name: str, effect: Effect, parameters: Collection[str]) -> None:
    """Raises TypeError for a verb that does not take what its effect asks for."""
    if missing := effect.parameters - set(parameters):
        raise TypeError(f"{name} {effect.value} something and takes no {', '.join(sorted(missing))}")
