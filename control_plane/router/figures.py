"""What the router counts, as Prometheus reads it beside the gateway's own figures."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from control_plane.contracts import metrics
from control_plane.router.decisions import Decisions


class RouterFigures(Collector):
    """Counts are read when somebody asks."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def collect(self) -> Iterator[Family]:
        for metric, counts in (
            (metrics.ROUTER_DECISIONS, list(self._decisions.counts.items())),
            (metrics.ROUTER_LEFT_OUT, list(self._decisions.left_out.items())),
        ):
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, count in counts:
                family.add_metric(labels, count)
            yield family
