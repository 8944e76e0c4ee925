"""The first bytes of a recording: what it is, which format it has, and what was recorded. Pure.

The magic, the two version numbers, the length and the checksum keep their places in every version, so that any version
can say which one a file needs.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from control_plane.contracts.errors import InvalidRequest

MAGIC: Final = b"\x89DECK\r\n\x1a"
MAJOR: Final = 1
"""A reader refuses a file with a greater one."""
MINOR: Final = 0
"""Grows with what older readers can leave out."""
MOST_JSON_BYTES: Final = 1 << 20

_PREFIX: Final = struct.Struct("<8sHHII")
PREFIX_BYTES: Final = _PREFIX.size


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a recorder. ``recorded`` names what it followed: snapshots, requests, events, steps."""

    inferdeck: str = ""
    control_plane_id: str = ""
    place: str = ""
    started_unix: float = 0.0
    recorded: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Session:
        """What is missing or of another kind is left at its default; what is unknown is left out."""
        values = json_object(data)
        known: dict[str, Any] = {
            field.name: values[field.name]
            for field in fields(cls)
            if isinstance(values.get(field.name), str if field.type == "str" else (int, float))
        }
        recorded = values.get("recorded")
        names = tuple(str(name) for name in recorded) if isinstance(recorded, list) else ()
        return cls(**{**known, "recorded": names})


@dataclass(frozen=True, slots=True)
class FileHeader:
    """``length`` is where the first frame begins; ``intact`` is false where only the places of things are sure."""

    major: int
    minor: int
    session: Session
    length: int
    intact: bool = True


def file_header(session: Session) -> bytes:
    body = session.to_json()
    head = _PREFIX.pack(MAGIC, MAJOR, MINOR, len(body), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head + body)) + body


def read_file_header(data: bytes, name: str) -> FileHeader:
    """From the first ``PREFIX_BYTES + MOST_JSON_BYTES`` of a file, or all of it.

    Raises InvalidRequest where it is no recording, or one of a newer format. A header that is damaged behind its magic
    is told by ``intact``: the frames can be read without it.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise InvalidRequest(f"{name} is not a recording", param="file", hint="inferdeck record FILE makes one")
    if len(data) < PREFIX_BYTES:
        raise InvalidRequest(f"{name} ends within its first bytes: nothing was recorded", param="file")
    _, major, minor, length, crc = _PREFIX.unpack_from(data)
    body = data[PREFIX_BYTES : PREFIX_BYTES + length]
    if zlib.crc32(data[: PREFIX_BYTES - 4] + body) != crc or len(body) != length:
        if PREFIX_BYTES + length > len(data) and length <= MOST_JSON_BYTES and data[PREFIX_BYTES:].find(b"\xf7DFr") < 0:
            raise InvalidRequest(f"{name} ends within its first bytes: nothing was recorded", param="file")
        return FileHeader(MAJOR, MINOR, Session(), PREFIX_BYTES, intact=False)
    if major > MAJOR:
        raise InvalidRequest(
            f"{name} has format {major}.{minor}; this InferDeck reads up to {MAJOR}",
            param="file",
            hint="open it with a newer InferDeck",
        )
    return FileHeader(major, minor, Session.from_json(body), PREFIX_BYTES + length)


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in the bytes; an empty one where there is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
