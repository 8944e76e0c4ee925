from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from control_plane.contracts import metrics
from control_plane.gateway.figures import Buckets, Figures


def test_buckets_are_cumulative() -> None:
    buckets = Buckets((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        buckets.add(value)
    assert buckets.samples() == ([("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)], 10.0)


def test_everything_counted_can_be_read() -> None:
    figures, registry = Figures(), CollectorRegistry()
    registry.register(figures)
    figures.responses["chat", 200] += 2
    figures.responses["chat", 401] += 1
    figures.responses["models", 200] += 1
    figures.rejections["invalid_api_key"] += 1
    figures.gauges = {metrics.GATEWAY_IN_FLIGHT: lambda: 3}
    figures.totals = {metrics.GATEWAY_CONNECTIONS_DROPPED: lambda: 4}
    model = figures.model("m")
    model.output_tokens += 5
    model.ttft.add(0.02)
    assert figures.by_status() == {200: 3, 401: 1}
    assert figures.output_tokens() == 5
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    assert samples["inferdeck_gateway_responses_total", "200", "chat"] == 2
    assert samples["inferdeck_gateway_rejections_total", "invalid_api_key"] == 1
    assert samples["inferdeck_gateway_in_flight",] == 3
    assert samples["inferdeck_gateway_connections_dropped_total",] == 4
    assert samples["inferdeck_gateway_output_tokens_total", "m"] == 5
    assert samples["inferdeck_gateway_time_to_first_token_seconds_bucket", "0.025", "m"] == 1
    assert samples["inferdeck_gateway_time_to_first_token_seconds_bucket", "0.01", "m"] == 0
    assert samples["inferdeck_gateway_time_to_first_token_seconds_count", "m"] == 1
