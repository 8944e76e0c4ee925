"""What several routers see of a model, as one: the fullest that one of them sees, and all that wait. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from control_plane.contracts.pressure import Pressure


def pressures_by_model(routers: Iterable[Sequence[Pressure]]) -> dict[str, Pressure]:
    """``routers``: what each of them reports."""
    merged: dict[str, Pressure] = {}
    for pressures in routers:
        for pressure in pressures:
            other = merged.get(pressure.model)
            if other is not None:
                fuller = max(other, pressure, key=lambda each: -1.0 if each.saturation is None else each.saturation)
                queued = dict(Counter(other.queued) + Counter(pressure.queued))
                pressure = replace(fuller, queued=queued)
            merged[pressure.model] = pressure
    return merged
