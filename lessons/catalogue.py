"""The lessons that there are, and how one is named."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.contracts.paths import expanded

CONTENT: Final = Path(__file__).parent / "content"
_TEMPLATE: Final = Path(__file__).parent / "template"
_NAME: Final = re.compile(r"\d\d-[a-z0-9]+(-[a-z0-9]+)*")


def folders() -> tuple[Path, ...]:
    """Those that come with the program, in their order."""
    return tuple(sorted(path.parent for path in CONTENT.glob("*/lesson.toml")))


def folder_of(name: str) -> Path:
    """By number, name, or a part of the name that only one has; or the path of a folder. Raises NotFound."""
    if "/" in name or name in (".", ".."):
        return expanded(name).absolute()
    known = {path.name: path for path in folders()}
    wanted = name.strip().lower()
    found = [path for each, path in known.items() if wanted == each or wanted == each.partition("-")[2]]
    if not found and wanted.isdecimal():
        found = [path for each, path in known.items() if int(each.partition("-")[0]) == int(wanted)]
    if not found and wanted:
        found = [path for each, path in known.items() if wanted in each]
    if len(found) == 1:
        return found[0]
    if found:
        meant = f"several are: {', '.join(path.name for path in found)}"
    else:
        words = {each.partition("-")[2]: each for each in known}
        near = get_close_matches(wanted.lstrip("0123456789-"), words, 1, 0.4)
        meant = (f"did you mean {words[near[0]]}? There are " if near else "there are ") + ", ".join(known)
    raise NotFound(f"no lesson {name!r}; {meant}", param="lesson", hint="inferdeck learn")


def write_new(name: str, into: Path) -> Path:
    """A lesson to start from, which plays and verifies as it is. Raises InvalidRequest for a wrong or taken name."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is not a lesson's name: two digits and words, like 12-my-lesson", param="name")
    folder = into / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InvalidRequest(f"{folder} is there already", param="name") from None
    except OSError as error:
        raise InvalidRequest(f"{folder} cannot be made: {error.strerror}", param="name") from None
    title = name.partition("-")[2].replace("-", " ").capitalize()
    for path in sorted(_TEMPLATE.iterdir()):
        (folder / path.name).write_text(path.read_text(encoding="utf-8").replace("TITLE", title), encoding="utf-8")
    return folder
