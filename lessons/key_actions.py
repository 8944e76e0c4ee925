"""What a lesson may do to the keys of callers; see ``actions``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class MakeKey:
    """A key of this name, which calls then name. One that had the name before is revoked, so that nothing is used of
    the new one's limits. A limit that is not given, and no ``models``, are the tier's."""

    word: ClassVar[str] = "key"
    lasting: ClassVar[bool] = True

    name: str
    tier: str = "paid"
    rpm: int | None = None
    tpm: int | None = None
    models: tuple[str, ...] = ()

    def told(self) -> str:
        limits = {"rpm": self.rpm, "tpm": self.tpm}
        words = [f"inferdeck key create --name {self.name} --tier {self.tier}"]
        words += [f"--{name} {limit}" for name, limit in limits.items() if limit is not None]
        words += [f"--model {model}" for model in self.models]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class SetKey:
    """``FIELD=VALUE`` assignments to the key of this name, as ``inferdeck key set`` takes them; goes on when the
    gateway goes by them."""

    word: ClassVar[str] = "set_key"
    lasting: ClassVar[bool] = True

    key: str
    set: tuple[str, ...]

    def told(self) -> str:
        return f"inferdeck key set {self.key} {' '.join(self.set)}"
