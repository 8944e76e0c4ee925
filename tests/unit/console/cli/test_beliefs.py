"""What routers believe of prefix caches, beside what was."""

from __future__ import annotations

from typing import Any

import pytest

from console.cli.describe import describe
from console.plain.resources import RESOURCES
from console.plain.table import table
from control_plane.contracts.fleet import RequestPhase
from control_plane.contracts.kv_belief import KvBelief
from tests.unit.console.fake_operator import NOW, request, snapshot, worker

FINISHED: dict[str, Any] = {"phase": RequestPhase.FINISHED, "cached_tokens": 256, "duration_s": 3.0}


def lines_of(kind: str, row: Any, label: str) -> list[str]:
    return [line[1] for line in describe(kind, row, snapshot(), None) if isinstance(line, tuple) and line[0] == label]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"predicted_cached_tokens": None}, []),
        ({"predicted_cached_tokens": 1280}, ["1,280 tokens believed cached at smollm2-1"]),
        (FINISHED | {"predicted_cached_tokens": 256}, ["256 tokens believed cached at smollm2-1 · as it was"]),
        (FINISHED | {"predicted_cached_tokens": 0}, ["0 tokens believed cached at smollm2-1 · 256 were"]),
    ],
)
def test_a_request_says_what_was_believed_and_what_was(changes: dict[str, Any], told: list[str]) -> None:
    assert lines_of("requests", request("r", **changes), "prefix") == told


def test_the_wide_table_has_predicted_beside_cached() -> None:
    rows = [request("r1", **FINISHED, predicted_cached_tokens=250), request("r2")]
    heading, first, second = table(rows, RESOURCES["requests"].columns(snapshot()), None).lines
    at = heading.index("PREDICTED")
    assert heading.split()[5:7] == ["CACHED", "PREDICTED"]
    assert (first[at : at + 9].split(), second[at : at + 9].split()) == (["250"], ["–"])


@pytest.mark.parametrize(
    ("belief", "told"),
    [
        (
            KvBelief("w", "g1", "i", 812, True, 4711, heard_unix=NOW - 3),
            "g1: 812 blocks told by batch 4,711, heard 3.00 s ago",
        ),
        (
            KvBelief("w", "g1", "i", 1, True, 5, gaps=2, lost=1, heard_unix=NOW),
            "g1: 1 block told by batch 5, heard 0.00 ms ago · 3 missed batches made up for",
        ),
        (
            KvBelief("w", "g2", "i", 40, unavailable="this engine does not tell its KV events"),
            "g2: 40 blocks estimated from what it sent there: this engine does not tell its KV events",
        ),
    ],
)
def test_a_worker_says_what_each_router_takes_it_to_hold(belief: KvBelief, told: str) -> None:
    assert lines_of("workers", worker("w", kv_beliefs=(belief,)), "index") == [told]
