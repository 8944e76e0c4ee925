"""``/metrics``: the figures of this process, and of the models that a key may call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest

from control_plane.contracts.grant import Grant

METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_MODEL: Final = "model"


def metrics_text(registry: CollectorRegistry, grant: Grant) -> bytes:
    """Without the samples of models that the key may not call. One that may call all sees all."""
    if not grant.models:
        return generate_latest(registry)
    return generate_latest(cast(CollectorRegistry, _Seen(registry, grant)))


class _Seen:
    """A registry as far as one key may see it."""

    def __init__(self, registry: CollectorRegistry, grant: Grant) -> None:
        self._registry = registry
        self._grant = grant

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            # A family is made anew each time it is collected.
            family.samples = [
                sample
                for sample in family.samples
                if _MODEL not in sample.labels or self._grant.allows(sample.labels[_MODEL])
            ]
            yield family
