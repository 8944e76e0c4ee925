"""TOML that somebody wrote, as a tree; whatever is wrong with it is one error that says where.

``tomllib`` has an error of its own for what is no TOML. For what is, but is nested too deeply for the interpreter's
stack, or holds a number with more digits than it converts, it lets the interpreter's errors through.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from control_plane.contracts.toml_places import KeyPath, Place, key_places

_TOLD = re.compile(r"(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)
_MARK = "\ufeff"


class TomlWrong(ValueError):
    """Not TOML that can be read: ``place`` where, ``what`` why, in words that go on a sentence."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(f"line {place.line}: {what}")
        self.place = place
        self.what = what


def read_toml(text: str) -> tuple[dict[str, Any], dict[KeyPath, Place]]:
    """The tree, and where each key of it stands. A byte order mark, which Windows' editors write, is passed over.

    Raises TomlWrong.
    """
    text = text.removeprefix(_MARK)
    try:
        return tomllib.loads(text), key_places(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlWrong(*_of_syntax(text, str(error))) from None
    except RecursionError:
        raise TomlWrong(_where_it_begins(text), "it is nested too deeply") from None
    except ValueError:
        raise TomlWrong(_where_it_begins(text), "it holds a number with too many digits") from None


def _of_syntax(text: str, message: str) -> tuple[Place, str]:
    found = _TOLD.fullmatch(message)
    what = found["what"] if found else message
    lines = text.splitlines() or [""]
    place = Place(len(lines), len(lines[-1]) + 1)
    if found and found["line"]:
        place = Place(int(found["line"]), int(found["column"]))
    return place, f"{what[:1].lower()}{what[1:]}"


def _where_it_begins(text: str) -> Place:
    """The line without which, and without all that follow, the interpreter has nothing against the text.

    A text that is cut off is at most wrong TOML; so the first lines that are more than that end with the one to blame.
    """
    lines = text.splitlines(keepends=True)
    low, high = 1, max(1, len(lines))
    while low < high:
        middle = (low + high) // 2
        if _is_refused("".join(lines[:middle])):
            high = middle
        else:
            low = middle + 1
    return Place(low, 1)


def _is_refused(text: str) -> bool:
    try:
        tomllib.loads(text)
        key_places(text)
    except tomllib.TOMLDecodeError:
        return False
    except (RecursionError, ValueError):
        return True
    return False
