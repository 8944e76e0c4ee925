"""What the gateway counts, and how Prometheus and the fleet's report read it.

Counts are plain integers, since some change once per token; they become samples when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from control_plane.contracts import metrics
from control_plane.contracts.metrics import Metric


class Buckets:
    """A histogram over fixed upper bounds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative counts by upper bound, as Prometheus has them, and the sum."""
        total, cumulative = 0, []
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            cumulative.append(("+Inf" if bound == float("inf") else repr(bound), float(total)))
        return cumulative, self._sum


class ModelFigures:
    """Of one configured model; times are seconds."""

    __slots__ = ("duration", "output_tokens", "prompt_size", "prompt_tokens", "tokenise", "ttft")

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.prompt_size = Buckets(metrics.GATEWAY_PROMPT_SIZE.buckets)
        self.tokenise = Buckets(metrics.GATEWAY_TOKENISE.buckets)
        self.ttft = Buckets(metrics.GATEWAY_TTFT.buckets)
        self.duration = Buckets(metrics.GATEWAY_DURATION.buckets)


class Figures(Collector):
    """All counts of one gateway. ``gauges`` and ``totals`` are asked when the figures are read."""

    def __init__(self) -> None:
        self.responses: Counter[tuple[str, int]] = Counter()
        self.rejections: Counter[str] = Counter()
        self.gauges: dict[Metric, Callable[[], int]] = {}
        self.totals: dict[Metric, Callable[[], int]] = {}
        self._models: dict[str, ModelFigures] = {}

    def model(self, name: str) -> ModelFigures:
        """Only for models that exist: a name that a caller made up must not become a label."""
        figures = self._models.get(name)
        if figures is None:
            figures = self._models[name] = ModelFigures()
        return figures

    def by_status(self) -> dict[int, int]:
        counts: Counter[int] = Counter()
        for (_, status), count in self.responses.items():
            counts[status] += count
        return dict(counts)

    def output_tokens(self) -> int:
        return sum(figures.output_tokens for figures in self._models.values())

    def collect(self) -> Iterator[Family]:
        yield _counter(
            metrics.GATEWAY_RESPONSES, [((route, str(status)), n) for (route, status), n in self.responses.items()]
        )
        yield _counter(metrics.GATEWAY_REJECTIONS, [((reason,), n) for reason, n in self.rejections.items()])
        for metric, ask in self.gauges.items():
            yield GaugeMetricFamily(metric.name, metric.help, value=ask())
        for metric, ask in self.totals.items():
            yield CounterMetricFamily(metric.name, metric.help, value=ask())
        models = list(self._models.items())
        yield _counter(metrics.GATEWAY_PROMPT_TOKENS, [((name,), of.prompt_tokens) for name, of in models])
        yield _counter(metrics.GATEWAY_OUTPUT_TOKENS, [((name,), of.output_tokens) for name, of in models])
        yield _histogram(metrics.GATEWAY_TTFT, [(name, of.ttft) for name, of in models])
        yield _histogram(metrics.GATEWAY_DURATION, [(name, of.duration) for name, of in models])
        yield _histogram(metrics.GATEWAY_TOKENISE, [(name, of.tokenise) for name, of in models])
        yield _histogram(metrics.GATEWAY_PROMPT_SIZE, [(name, of.prompt_size) for name, of in models])


def _counter(metric: Metric, samples: list[tuple[tuple[str, ...], int]]) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, samples: list[tuple[str, Buckets]]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for label, buckets in samples:
        counts, total = buckets.samples()
        family.add_metric((label,), counts, total)
    return family
