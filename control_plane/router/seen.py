"""How a router sees each endpoint now, for whoever asks it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from control_plane.contracts.router_state import SeenEndpoint
from control_plane.router.targets import Target


def seen_endpoints(targets: Iterable[Target], now: float) -> list[SeenEndpoint]:
    """``now`` is monotonic seconds. By worker id."""
    seen = []
    for target in targets:
        candidate = target.candidate
        refusing_s = candidate.refusing_until - now
        seen.append(
            SeenEndpoint(
                worker_id=candidate.worker_id,
                instance_id=candidate.instance_id,
                model=candidate.model,
                ready=candidate.ready,
                connected=candidate.connected,
                cordoned=candidate.cordoned,
                requests=candidate.requests,
                sequences=candidate.sequences,
                tokens=candidate.tokens,
                others=candidate.others,
                kv_usage=candidate.kv_usage,
                sample_age_s=now - candidate.sampled_mono if candidate.sampled_mono else -1.0,
                failures=target.circuit.failures,
                refusing_s=-1.0 if math.isinf(refusing_s) else max(0.0, refusing_s),
            )
        )
    return sorted(seen, key=lambda each: each.worker_id)
