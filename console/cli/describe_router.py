"""How a router that is a process of its own sees its endpoints: each line is that router's own account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console import figures
from console.plain.table import Column, table
from control_plane.contracts.router_state import RouterState, SeenEndpoint


def seen_lines(state: RouterState, room: int | None) -> Iterator[tuple[str, str] | str]:
    """Labelled lines, then (as plain strings, already literal) the endpoints."""
    gateways = " · ".join(f"{gateway.id} {gateway.in_flight}" for gateway in state.gateways)
    yield "profile", state.profile
    yield "gateways", f"{gateways} in flight" if gateways else "none has a stream to it"
    yield "metrics", state.metrics_url or figures.NONE
    if not state.endpoints:
        return
    yield ""
    yield "endpoints:"
    made = table(state.endpoints, _COLUMNS, room and max(1, room - 2))
    yield from ("  " + line for line in made.lines)


def _status(endpoint: SeenEndpoint) -> str:
    if not endpoint.ready:
        return "not ready"
    if not endpoint.connected:
        return "unreachable"
    if endpoint.refusing_s < 0:
        return "on trial"
    if endpoint.refusing_s:
        return "cooling down"
    return "cordoned" if endpoint.cordoned else "usable"


_COLUMNS: Sequence[Column[SeenEndpoint]] = (
    Column("WORKER", lambda e: e.worker_id, keep=9),
    Column("SEEN AS", _status, keep=8, style=lambda e: "good" if _status(e) == "usable" else "watch"),
    Column("REQUESTS", lambda e: str(e.requests), right=True, keep=7),
    Column("SEQUENCES", lambda e: str(e.sequences), right=True, keep=4),
    Column("TOKENS", lambda e: figures.count(round(e.tokens)), right=True, keep=6),
    Column("OTHERS", lambda e: str(e.others) if e.sample_age_s >= 0 else figures.NONE, right=True, keep=6),
    Column("KV", lambda e: figures.percent(e.kv_usage) if e.sample_age_s >= 0 else figures.NONE, right=True, keep=6),
    Column(
        "SAMPLED",
        lambda e: figures.seconds(e.sample_age_s) if e.sample_age_s >= 0 else figures.NONE,
        right=True,
        keep=3,
    ),
    Column("FAILURES", lambda e: str(e.failures), right=True, keep=5),
)
