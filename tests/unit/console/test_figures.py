from __future__ import annotations

import pytest

from console import figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"), (0.00034, "0.34 ms"), (0.0123, "12.3 ms"), (0.21, "210 ms"), (1.9, "1.90 s"), (15.04, "15.0 s"),
        (185.0, "3m05s"),
    ],
)  # fmt: skip
def test_seconds(value: float | None, shown: str) -> None:
    assert figures.seconds(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(8, "8s"), (312, "5m12s"), (11100, "3h05m"), (187200, "2d4h"), (-1, "–")])
def test_age(value: float, shown: str) -> None:
    assert figures.age(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(512, "512 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (3 << 40, "3.0 TiB"), (None, "–")]
)
def test_size(value: float | None, shown: str) -> None:
    assert figures.size(value) == shown


def test_a_number_without_a_source_is_a_dash() -> None:
    assert [figures.percent(None), figures.rate(None), figures.count(None)] == ["–", "–", "–"]
    assert [figures.percent(0.0), figures.rate(0.0), figures.count(0)] == ["0%", "0.0", "0"]


def test_plural() -> None:
    assert [figures.plural(n, "worker") for n in (0, 1, 2)] == ["0 workers", "1 worker", "2 workers"]
