"""Platforms for tests: one that is shared by those that leave it as it was, and fresh ones for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.fleet.rig import CONFIG, Deck


@pytest.fixture
def make_deck(tmp_path: Path) -> Iterator[Callable[..., Deck]]:
    made: list[Deck] = []

    def make(replicas: int = 1, config: str = CONFIG) -> Deck:
        folder = tmp_path / f"deck-{len(made)}"
        folder.mkdir()
        made.append(Deck(folder, replicas, config))
        return made[-1]

    yield make
    for deck in made:
        deck.clean_up()


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deck]:
    """One platform with two workers for a whole module; whoever changes something changes it back."""
    shared = Deck(tmp_path_factory.mktemp("shared"), replicas=2)
    try:
        asyncio.run(shared.start())
        yield shared
        assert asyncio.run(shared.stop()) == 0
    finally:
        shared.clean_up()
