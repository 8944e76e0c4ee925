"""The tour: a whole platform from start to end in one go, on real parts, each step checked."""

from __future__ import annotations

from console.tour.tour import Tour

__all__ = ["Tour"]
