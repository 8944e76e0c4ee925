"""What a control plane that is gone ran with, for the next one to go on with."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from console.home import Home


@dataclass(frozen=True, slots=True)
class Earlier:
    """Its settings as they were chosen: the file, None for the defaults, and the control plane's further arguments."""

    config: Path | None = None
    arguments: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """As a person would type them; "" for the defaults."""
        words = ["--config", str(self.config)] if self.config is not None else []
        return shlex.join([*words, *self.arguments])


def earlier(home: Home) -> Earlier | None:
    """Of the last control plane, unless it ended in order; None where nothing readable tells."""
    try:
        values = json.loads(home.settings_path.read_text())
        config, arguments = values["config"], values["arguments"]
        return Earlier(Path(config) if config else None, tuple(str(word) for word in arguments))
    except (OSError, ValueError, KeyError, TypeError):
        return None
