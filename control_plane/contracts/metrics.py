"""Names, kinds and labels of every metric, in one place.

Seconds and bytes are base units, counters end in ``_total`` on the wire (Prometheus adds it). No label ever holds a
key, a prompt, or text that a caller chose: ``model`` is a configured model, ``reason`` a ``DropReason``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


FAST_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
CALL_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
TOKENS = (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0)

GATEWAY_RESPONSES = Metric(
    "inferdeck_gateway_responses",
    Kind.COUNTER,
    "Requests that ended, by route and HTTP status; 499 is a client that left before its answer was whole.",
    ("route", "status"),
)
GATEWAY_REJECTIONS = Metric(
    "inferdeck_gateway_rejections",
    Kind.COUNTER,
    "Requests that were refused or failed, by drop reason, error events in streams included.",
    ("reason",),
)
GATEWAY_IN_FLIGHT = Metric("inferdeck_gateway_in_flight", Kind.GAUGE, "Generation calls that have not ended.")
GATEWAY_WAITING_FOR_TOKENIZER = Metric(
    "inferdeck_gateway_waiting_for_tokenizer",
    Kind.GAUGE,
    "Calls held because no worker of their model has been up yet, so that its tokenizer is unknown.",
)
GATEWAY_CONNECTIONS = Metric("inferdeck_gateway_connections", Kind.GAUGE, "Open client connections.")
GATEWAY_CONNECTIONS_DROPPED = Metric(
    "inferdeck_gateway_connections_dropped",
    Kind.COUNTER,
    "Client connections that were ended at once because as many as there may be were open.",
)
GATEWAY_TOKENS_RESERVED = Metric(
    "inferdeck_gateway_limit_tokens_reserved", Kind.COUNTER, "Tokens that calls with limits have reserved."
)
GATEWAY_TOKENS_SETTLED = Metric(
    "inferdeck_gateway_limit_tokens_settled", Kind.COUNTER, "Tokens that calls with limits were charged in the end."
)
GATEWAY_TOKENS_REFUNDED = Metric(
    "inferdeck_gateway_limit_tokens_refunded", Kind.COUNTER, "Reserved tokens that were not needed in the end."
)
GATEWAY_TOKENS_HELD = Metric(
    "inferdeck_gateway_limit_tokens_held", Kind.GAUGE, "Tokens that calls hold which have not ended."
)
GATEWAY_LIMIT_STORE_UP = Metric(
    "inferdeck_gateway_limit_store_up", Kind.GAUGE, "Whether the store that limits are shared in answers, 1 or 0."
)
GATEWAY_LIMIT_GATEWAYS = Metric(
    "inferdeck_gateway_limit_gateways",
    Kind.GAUGE,
    "Gateways that share limits; while their store does not answer, each grants one of so many parts of every limit.",
)
GATEWAY_LIMIT_STORE_ERRORS = Metric(
    "inferdeck_gateway_limit_store_errors", Kind.COUNTER, "How often the store of limits gave no answer in time."
)
GATEWAY_HANDSHAKES_FAILED = Metric(
    "inferdeck_gateway_tls_handshakes_failed_total",
    Kind.COUNTER,
    "TLS handshakes that came to nothing, for want of time or trust, or because younger ones needed their place.",
)
GATEWAY_CERTIFICATE_EXPIRES = Metric(
    "inferdeck_gateway_certificate_expires_unix", Kind.GAUGE, "When the certificate in use expires, in Unix time."
)
GATEWAY_PROMPT_TOKENS = Metric(
    "inferdeck_gateway_prompt_tokens",
    Kind.COUNTER,
    "Prompt tokens of calls that were submitted and are over.",
    ("model",),
)
GATEWAY_OUTPUT_TOKENS = Metric(
    "inferdeck_gateway_output_tokens", Kind.COUNTER, "Tokens that came back from workers.", ("model",)
)
GATEWAY_TTFT = Metric(
    "inferdeck_gateway_time_to_first_token_seconds",
    Kind.HISTOGRAM,
    "First byte of the request to the first token written, of streams.",
    ("model",),
    CALL_SECONDS,
)
GATEWAY_DURATION = Metric(
    "inferdeck_gateway_call_seconds",
    Kind.HISTOGRAM,
    "First byte of the request to the end of its answer.",
    ("model",),
    CALL_SECONDS,
)
GATEWAY_TOKENISE = Metric(
    "inferdeck_gateway_tokenise_seconds",
    Kind.HISTOGRAM,
    "Chat template and tokenizer, waiting for their thread included.",
    ("model",),
    FAST_SECONDS,
)
ROUTER_SATURATION = Metric(
    "inferdeck_router_saturation",
    Kind.GAUGE,
    "How full a model's endpoints are: KV-cache use or queue in the engine, whichever is more; 1 is full.",
    ("model",),
)
ROUTER_BAND = Metric(
    "inferdeck_router_band", Kind.GAUGE, "The band it is in: 0 good, 1 watch, 2 busy, 3 reject.", ("model",)
)
ROUTER_SAMPLE_AGE = Metric(
    "inferdeck_router_sample_age_seconds",
    Kind.GAUGE,
    "How old the oldest load sample is that it is known by.",
    ("model",),
)
ROUTER_STALE = Metric(
    "inferdeck_router_stale_endpoints", Kind.GAUGE, "Endpoints whose load sample says nothing about now.", ("model",)
)
ROUTER_QUEUED = Metric("inferdeck_router_queued", Kind.GAUGE, "Calls that wait for a worker.", ("model", "tier"))
ROUTER_REJECTIONS = Metric(
    "inferdeck_router_rejections",
    Kind.COUNTER,
    "Calls that the router refused or that failed, by drop reason and tier.",
    ("model", "reason", "tier"),
)
ROUTER_IN_FLIGHT = Metric(
    "inferdeck_router_in_flight", Kind.GAUGE, "Calls of all gateways that have not ended, of a router of its own."
)
ROUTER_GATEWAYS = Metric("inferdeck_router_gateways", Kind.GAUGE, "Gateways that have a stream to it.")
ROUTER_READY = Metric("inferdeck_router_ready", Kind.GAUGE, "Whether it can place a call, 1 or 0.")
ROUTER_CALLS = Metric("inferdeck_router_calls", Kind.COUNTER, "Calls that gateways have submitted to it.")
ROUTER_OUTPUT_TOKENS = Metric(
    "inferdeck_router_output_tokens", Kind.COUNTER, "Tokens that came back from workers through it."
)
GATEWAY_PROMPT_SIZE = Metric(
    "inferdeck_gateway_prompt_size_tokens", Kind.HISTOGRAM, "Prompt tokens per call.", ("model",), TOKENS
)
ROUTER_DECISIONS = Metric(
    "inferdeck_router_decisions",
    Kind.COUNTER,
    "Endpoints that were picked for a call, by routing profile and worker; a call that is tried again counts again.",
    ("model", "profile", "worker"),
)
ROUTER_LEFT_OUT = Metric(
    "inferdeck_router_endpoints_left_out",
    Kind.COUNTER,
    "Endpoints that could not be picked, by reason, summed over decisions; a call that waits counts once.",
    ("model", "reason"),
)
