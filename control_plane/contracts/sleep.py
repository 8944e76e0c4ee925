"""How deeply an engine can sleep; the numbers are vLLM's."""

from __future__ import annotations

from typing import Final

SLEEP_LEVELS: Final = {1: "its weights are in the host's memory", 2: "its weights are discarded"}
"""What is so while it sleeps. Its KV cache is gone at either."""

SHALLOW: Final = 1
