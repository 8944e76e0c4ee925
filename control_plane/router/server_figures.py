"""What a router that is a process of its own counts of the gateways' calls, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from control_plane.contracts import metrics
from control_plane.contracts.fleet import GatewayStats


class ServerFigures(Collector):
    """``stats`` are the router's own, asked when somebody reads; ``gateways`` how many have a stream to it."""

    def __init__(self, stats: Callable[[], GatewayStats], gateways: Callable[[], int]) -> None:
        self._stats = stats
        self._gateways = gateways

    def collect(self) -> Iterator[Family]:
        stats = self._stats()
        for metric, value in (
            (metrics.ROUTER_IN_FLIGHT, stats.in_flight),
            (metrics.ROUTER_GATEWAYS, self._gateways()),
            (metrics.ROUTER_READY, int(stats.ready)),
        ):
            yield GaugeMetricFamily(metric.name, metric.help, value=value)
        for metric, value in (
            (metrics.ROUTER_CALLS, stats.requests_total),
            (metrics.ROUTER_OUTPUT_TOKENS, stats.output_tokens_total),
        ):
            yield CounterMetricFamily(metric.name, metric.help, value=value)
