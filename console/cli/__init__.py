"""The command ``inferdeck``."""

from __future__ import annotations

from console.cli.main import main

__all__ = ["main"]
