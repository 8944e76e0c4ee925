"""Channel settings that both ends of a connection must agree on.

A client that pings more often than its server allows is disconnected ("too_many_pings"), so the two lists live side by
side. Pings find a peer whose host is gone: a killed process is noticed by its closed socket, long before.
"""

from __future__ import annotations

PING_EVERY_MS = 10_000
PING_TIMEOUT_MS = 5_000
MESSAGE_BYTES = 64 << 20
HANDSHAKE_MS = 10_000

CLIENT_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
)
"""For one channel per peer: no proxy, no hidden retries, a connection of its own. Without the bandwidth probe and with
a wide window, a stream of small frames costs fewer control frames back."""

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_EVERY_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_EVERY_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
)
"""For a server that such clients talk to; two servers never share a port by accident."""
