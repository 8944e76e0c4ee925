"""Colours that tell requests apart where each has a letter too: as many as eyes tell apart, none of them an alarm."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

_BACKGROUND = "#0d1117"


@dataclass(frozen=True, slots=True)
class Hue:
    """One colour in its uses: what is looked at, what is around it, what has ended, a cell of a map, one picked out."""

    bright: Style
    muted: Style
    past: Style
    field: Style
    picked: Style


def _hue(colour: str) -> Hue:
    return Hue(
        bright=Style(color=colour),
        muted=Style(color=_blend(colour, 0.52)),
        past=Style(color=_blend(colour, 0.28)),
        field=Style(color=_blend(colour, 0.85), bgcolor=_blend(colour, 0.2)),
        picked=Style(color=_BACKGROUND, bgcolor=colour, bold=True),
    )


def _blend(colour: str, share: float) -> str:
    """So much of the colour, the rest is background."""
    pairs = [(int(colour[at : at + 2], 16), int(_BACKGROUND[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(front * share + back * (1 - share)):02x}" for front, back in pairs)


def _few(colour: str) -> Hue:
    plain = Style(color=colour)
    return Hue(plain, plain, plain, plain, plain + Style(reverse=True))


# Nine and seven have no divisor in common with 26: a letter that comes again comes in another colour.
HUES = tuple(
    map(
        _hue,
        ("#58a6ff", "#6bc46d", "#b392f0", "#39c5cf", "#e68fc3", "#d9b77e", "#9ecbff", "#b5d66b", "#8f95e8"),
    )
)
FEW_HUES = tuple(map(_few, ("bright_blue", "bright_green", "bright_magenta", "bright_cyan", "blue", "cyan", "magenta")))
