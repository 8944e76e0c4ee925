"""The API key in the home's file, which whoever calls from this machine has."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from control_plane.store.secret import digest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HomeSecret:
    """Both methods block."""

    path: Path

    def read(self) -> str:
        """Empty where there is none that can be read."""
        try:
            return self.path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def follow(self, old_digest: str, key: str) -> None:
        """Where it was this secret that was rotated, the file has the new one from now on. A file that cannot be
        written keeps the secret from nobody who asked for it."""
        try:
            if digest(self.path.read_text().strip()) != old_digest:
                return
            draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            draft.touch(mode=0o600)
            draft.write_text(f"{key}\n")
            draft.replace(self.path)
        except OSError as error:
            log.error(
                "the rotated API key could not be written to its file",
                extra={"path": str(self.path), "cause": str(error)},
            )
