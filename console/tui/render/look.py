"""How the console looks on this terminal: the colour of each meaning, and the glyph of each shape.

Colours carry a meaning: good, watch, busy, bad, unknown. Each has a shape beside it, for sixteen colours, for none, and
for eyes that don't see red. The hues alone carry an identity, and always beside a letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.style import Style

from console.tui.render.hues import FEW_HUES, HUES, Hue


@dataclass(frozen=True, slots=True)
class Palette:
    text: Style
    dim: Style
    faint: Style
    title: Style
    accent: Style
    key: Style
    good: Style
    watch: Style
    busy: Style
    bad: Style
    unknown: Style
    series: Style
    cursor: Style
    cursor_blurred: Style
    mark: Style
    edge: Style
    titles: Style
    hues: tuple[Hue, ...]


@dataclass(frozen=True, slots=True)
class Glyphs:
    ready: str
    starting: str
    cordoned: str
    draining: str
    drained: str
    asleep: str
    lost: str
    failed: str
    stopping: str
    done: str
    queued: str
    sent: str
    decoding: str
    cancelled: str
    watch: str
    busy: str
    full: str
    mark: str
    crumb: str
    arrow: str
    back_arrow: str
    up_arrow: str
    bar: str
    bar_empty: str
    bar_eighths: str
    dot: str
    ellipsis: str
    corners: str
    across: str
    down: str
    down_left: str
    tee_down: str
    marker: str
    sparse_marker: str
    chunk: str
    last_chunk: str
    decode: str
    preempted: str
    waiting: str
    held: str
    gap: str
    pointer: str
    levels: str
    cached_free: str
    free: str


UNICODE = Glyphs(
    ready="●",
    starting="◌",
    cordoned="⊘",
    draining="◔",
    drained="○",
    asleep="◑",
    lost="?",
    failed="✗",
    stopping="▽",
    done="✓",
    queued="◌",
    sent="▷",
    decoding="▶",
    cancelled="⊘",
    watch="▵",
    busy="▲",
    full="■",
    mark="▌",
    crumb="▸",
    arrow="▶",
    back_arrow="◀",
    up_arrow="▲",
    bar="━",
    bar_empty="─",
    bar_eighths="▏▎▍▌▋▊▉█",
    dot="·",
    ellipsis="…",
    corners="╭╮╰╯",
    across="─",
    down="│",
    down_left="╯",
    tee_down="┬",
    marker="braille",
    sparse_marker="braille",
    chunk="░",
    last_chunk="▒",
    decode="█",
    preempted="×",
    waiting="·",
    held="╌",
    gap="┊",
    pointer="▼",
    levels="▁▂▃▄▅▆▇█",
    cached_free="◌",
    free="·",
)

# What the fonts of consoles without a graphics driver hold: code page 437.
PLAIN = Glyphs(
    ready="o",
    starting="~",
    cordoned="/",
    draining="v",
    drained="O",
    asleep="z",
    lost="?",
    failed="x",
    stopping="v",
    done="=",
    queued="~",
    sent=">",
    decoding=">",
    cancelled="/",
    watch="~",
    busy="!",
    full="X",
    mark="*",
    crumb=">",
    arrow=">",
    back_arrow="<",
    up_arrow="^",
    bar="█",
    bar_empty="░",
    bar_eighths="▌█",
    dot="·",
    ellipsis="~",
    corners="┌┐└┘",
    across="─",
    down="│",
    down_left="┘",
    tee_down="┬",
    marker="*",
    sparse_marker=".",
    chunk="░",
    last_chunk="▒",
    decode="█",
    preempted="x",
    waiting="·",
    held="-",
    gap="│",
    pointer="v",
    levels="_▄█",
    cached_free="°",
    free="·",
)

RICH_COLOURS = Palette(
    text=Style(color="#c9d1d9"),
    dim=Style(color="#8b949e"),
    faint=Style(color="#5b636d"),
    title=Style(color="#f0f6fc", bold=True),
    accent=Style(color="#58a6ff"),
    key=Style(color="#79c0ff", bold=True),
    good=Style(color="#3fb950"),
    watch=Style(color="#e3b341"),
    busy=Style(color="#f0883e"),
    bad=Style(color="#ff6b63"),
    unknown=Style(color="#8b949e"),
    series=Style(color="#39c5cf"),
    cursor=Style(bgcolor="#1c3450"),
    cursor_blurred=Style(bgcolor="#1b222c"),
    mark=Style(color="#e3b341", bold=True),
    edge=Style(color="#4b5563"),
    titles=Style(bgcolor="#12171f"),
    hues=HUES,
)

SIXTEEN_COLOURS = Palette(
    text=Style(color="default"),
    dim=Style(color="default"),
    faint=Style(color="bright_black"),
    title=Style(color="bright_white", bold=True),
    accent=Style(color="bright_blue"),
    key=Style(color="bright_cyan"),
    good=Style(color="bright_green"),
    watch=Style(color="yellow"),
    busy=Style(color="bright_yellow", bold=True),
    bad=Style(color="bright_red", bold=True),
    unknown=Style(color="bright_black"),
    series=Style(color="bright_cyan"),
    cursor=Style(color="bright_white", bgcolor="blue", bold=True),
    cursor_blurred=Style(underline=True),
    mark=Style(color="bright_yellow", bold=True),
    edge=Style(color="bright_black"),
    titles=Style(underline=True),
    hues=FEW_HUES,
)


@dataclass(frozen=True, slots=True)
class Look:
    """``theme`` is what Textual's own widgets wear; ``plain`` is for terminals with few glyphs."""

    palette: Palette
    glyphs: Glyphs
    theme: str

    @property
    def plain(self) -> bool:
        return self.glyphs is PLAIN


RICH_LOOK = Look(RICH_COLOURS, UNICODE, "inferdeck")


def look_for(environ: Mapping[str, str], color_system: str | None, encoding: str) -> Look:
    """The look that this terminal can draw. ``color_system`` is Rich's word for what it found."""
    utf8 = encoding.lower().replace("-", "") == "utf8"
    plain = environ.get("TERM", "") in ("linux", "vt100", "vt220", "ansi") or not utf8
    few = color_system in (None, "standard")
    return Look(
        SIXTEEN_COLOURS if few else RICH_COLOURS, PLAIN if plain else UNICODE, "ansi-dark" if few else "inferdeck"
    )
