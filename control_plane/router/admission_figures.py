"""How full a router's models are and who waits for them, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from control_plane.contracts import metrics
from control_plane.contracts.admission import Band
from control_plane.contracts.metrics import Metric
from control_plane.router.dispatcher import Dispatcher


class AdmissionFigures(Collector):
    """Read from what the router knows when somebody asks, on the loop that the router runs on."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def collect(self) -> Iterator[Family]:
        saturation, band = _gauge(metrics.ROUTER_SATURATION), _gauge(metrics.ROUTER_BAND)
        age, stale = _gauge(metrics.ROUTER_SAMPLE_AGE), _gauge(metrics.ROUTER_STALE)
        queued = _gauge(metrics.ROUTER_QUEUED)
        for pressure in self._dispatcher.pressures():
            label = [pressure.model]
            for tier, count in pressure.queued.items():
                queued.add_metric([pressure.model, tier], count)
            if pressure.saturation is not None:
                saturation.add_metric(label, pressure.saturation)
                band.add_metric(label, Band(pressure.band).rank)
                age.add_metric(label, pressure.sample_age_s)
                stale.add_metric(label, pressure.stale)
        rejections = CounterMetricFamily(
            metrics.ROUTER_REJECTIONS.name, metrics.ROUTER_REJECTIONS.help, labels=metrics.ROUTER_REJECTIONS.labels
        )
        for labels, count in self._dispatcher.rejections.items():
            rejections.add_metric(labels, count)
        yield from (saturation, band, age, stale, queued, rejections)


def _gauge(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
