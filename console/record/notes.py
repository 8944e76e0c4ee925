"""What a recorder says of the recording itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from console.record.file_header import json_object

EVENTS: Final = "events"
"""The subject of a gap in which events are not heard. No worker's id: those end with a number."""

DECISIONS: Final = "decisions"
"""The subject of a gap in which the routers' decisions are not heard."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Why nothing is known from here on, until the next record about the same."""

    reason: str

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Gap:
        return cls(str(json_object(data).get("reason", "")))


@dataclass(frozen=True, slots=True)
class End:
    """Why the recorder ended."""

    reason: str

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> End:
        return cls(str(json_object(data).get("reason", "")))
