from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.platform.rig import Platform, scripted

MakePlatform = Callable[..., Platform]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def make_platform(tmp_path: Path) -> Iterator[MakePlatform]:
    made: list[Platform] = []

    def make(config: str | None = None) -> Platform:
        folder = tmp_path / f"platform-{len(made)}"
        folder.mkdir()
        made.append(Platform(folder, config or scripted()))
        return made[-1]

    yield make
    for platform in made:
        platform.end()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One that is up, for tests that leave it as they found it."""
    shared = Platform(tmp_path_factory.mktemp("platform"))
    shared.up()
    try:
        yield shared
        shared.run("down")
        shared.nothing_left()
    finally:
        shared.end()
