"""Callers' keys: whose they are and what they may do."""

from __future__ import annotations

from console.tui.render.figures import UNKNOWN, age, count
from console.tui.render.look import Look
from console.tui.render.spans import Spans
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.access import KeyView


def key_table() -> Table[KeyView]:
    return Table(COLUMNS, lambda key: key.id, _words, empty="no key", can_mark=False, name="keys")


def _words(key: KeyView) -> str:
    spec = key.spec
    return " ".join((key.id, key.prefix, spec.name, spec.tenant, spec.tier, *spec.models))


def _text(text: str, look: Look) -> Spans:
    return [(text, look.palette.unknown if text == UNKNOWN else look.palette.text)]


def _limits(key: KeyView) -> str:
    """Requests and tokens a minute, and calls at a time."""
    limits = key.spec.limits
    values = ((limits.rpm, "rpm"), (limits.tpm, "tpm"), (limits.concurrency, "calls"))
    return " ".join(f"{count(value)} {unit}" for value, unit in values if value is not None) or UNKNOWN


def _state(key: KeyView, at: Context) -> Spans:
    palette, glyphs = at.look.palette, at.look.glyphs
    state = key.state(at.view.now_unix)
    glyph, style = {
        "active": (glyphs.ready, palette.good),
        "expired": (glyphs.stopping, palette.watch),
        "revoked": (glyphs.failed, palette.bad),
    }[state]
    return [(f"{glyph} {state}", style)]


def _ends(key: KeyView, at: Context) -> Spans:
    now, expires = at.view.now_unix, key.spec.expires_unix
    if expires is None:
        return _text(UNKNOWN, at.look)
    return [(f"in {age(expires - now)}" if expires > now else "over", at.look.palette.text)]


def _rotation(key: KeyView, at: Context) -> Spans:
    """How long the secret before this one goes on."""
    now, old = at.view.now_unix, key.old_until_unix
    if old is None or old <= now:
        return _text(UNKNOWN, at.look)
    return [(f"for {age(old - now)}", at.look.palette.watch)]


COLUMNS: tuple[Column[KeyView], ...] = (
    Column("state", 9, _state),
    Column("key", 17, lambda key, at: [(key.prefix, at.look.palette.title)]),
    Column("name", 9, lambda key, at: _text(key.spec.name, at.look), grow=1),
    Column("tenant", 8, lambda key, at: _text(key.spec.tenant, at.look), grow=1),
    Column("tier", 10, lambda key, at: _text(key.spec.tier, at.look)),
    Column("own limits", 16, lambda key, at: _text(_limits(key), at.look), rank=1, grow=1),
    Column("models", 12, lambda key, at: _text(", ".join(key.spec.models) or UNKNOWN, at.look), rank=4, grow=1),
    Column("ends", 9, _ends, rank=2, right=True),
    Column("old secret", 10, _rotation, rank=5, right=True),
    Column("age", 6, lambda key, at: _text(age(at.view.now_unix - key.created_unix), at.look), rank=3, right=True),
    Column("id", 16, lambda key, at: _text(key.id, at.look), rank=6),
)
