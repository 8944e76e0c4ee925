"""How much may be stored of what callers say: a part of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MOST_CONVERSATIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Keeping:
    """``conversations``: how many a tenant may have; ``tenants``: how many those named may have instead."""

    conversations: int = MOST_CONVERSATIONS
    tenants: Mapping[str, int] = field(default_factory=dict)

    def conversations_of(self, tenant: str) -> int:
        return self.tenants.get(tenant, self.conversations)
