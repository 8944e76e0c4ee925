"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import Postgres

# How fast examples come depends on what else runs on the machine, and says nothing about the code.
settings.register_profile("inferdeck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inferdeck")

# A shell starts its background jobs with Ctrl-C ignored, which the processes under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_STARTS_PROCESSES = ("tests/integration/platform/", "tests/integration/fleet/")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL for all tests of this process: each takes a database of its own."""
    with Postgres.started() as server:
        yield server


@pytest.fixture(autouse=True, scope="module")
def downloads_are_not_off() -> Iterator[None]:
    """An engine that ran in this process has turned them off, for itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            patch.delenv(name, raising=False)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Share the tests out among processes: a module's fixtures are made once, and real engines run one at a time.

    The engines' tests are the longest group, so they start first. Those that have the engine in their own process come
    before all others: vLLM forks, and a fork while gRPC's threads run can hang. Of these, those that share one engine
    come first: a worker has one, so an engine that is stopped takes every child of its process with it. Those that have
    the engine's core in their own process come last: later engines would inherit what it has set there.

    Lessons are long, too, and each has a platform of its own: they come next, one by one; then what starts platforms,
    so that only short tests are left when one process after the other runs out of work.
    """
    items.sort(
        key=lambda item: (
            not _on_real_vllm(item),
            item.get_closest_marker("forks") is None,
            "asker" not in getattr(item, "fixturenames", ()),
            item.get_closest_marker("core_here") is not None,
            not _plays_a_lesson(item),
            not item.nodeid.startswith(_STARTS_PROCESSES),
        )
    )
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    if _on_real_vllm(item):
        return "real_vllm"
    return item.nodeid if _plays_a_lesson(item) else item.nodeid.partition("::")[0]


def _on_real_vllm(item: pytest.Item) -> bool:
    return item.get_closest_marker("real_vllm") is not None or "real_vllm" in item.path.parts


def _plays_a_lesson(item: pytest.Item) -> bool:
    return item.nodeid.startswith("tests/lessons/")
