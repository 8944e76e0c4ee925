"""How full a pool is, in words: its band and saturation, and who waits for it."""

from __future__ import annotations

from typing import Final

from console import figures
from control_plane.contracts.fleet import Pool

STYLES: Final = {"good": "good", "watch": "watch", "busy": "watch", "reject": "bad"}


def band_words(pool: Pool) -> str:
    """``busy 84 %``; the figure is saturation, where 100 % is full."""
    return f"{pool.band} {figures.full(pool.saturation)}" if pool.band else figures.NONE


def queue_words(pool: Pool, *, tiers: bool = False) -> str:
    """How many calls wait at the routers, and of which tiers."""
    waiting = str(sum(pool.queued.values()))
    shown = ", ".join(f"{tier or figures.NONE} {count}" for tier, count in sorted(pool.queued.items()))
    return f"{waiting} ({shown})" if tiers and shown else waiting
