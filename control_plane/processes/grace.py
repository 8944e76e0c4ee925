"""How long a process that is told to end lets its requests go on."""

from __future__ import annotations

from typing import Final

SIGNAL_GRACE_S: Final = 5.0
"""After SIGTERM, and after the process that holds the other end of --parent-fd is gone."""
