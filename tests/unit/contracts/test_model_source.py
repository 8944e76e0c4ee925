"""Where a hub's models are kept, and which come with InferDeck."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.model_source import BUILTIN_MODELS, downloaded, offline_fault, source_fault
from workers.weights import BUILTIN


def test_the_built_in_models_are_those_that_workers_can_make() -> None:
    assert sorted(BUILTIN) == sorted(BUILTIN_MODELS)


@pytest.mark.parametrize(
    ("variable", "under"),
    [("HF_HUB_CACHE", "."), ("HUGGINGFACE_HUB_CACHE", "."), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")],
)
def test_the_hubs_cache_is_where_the_hubs_library_keeps_it(tmp_path: Path, variable: str, under: str) -> None:
    (tmp_path / under / "models--org--m").mkdir(parents=True)
    there = {"HOME": "/none", variable: str(tmp_path)}
    assert downloaded("org/m", there)
    assert not downloaded("org/other", there)
    assert offline_fault("org/m", True, there) is None
    assert offline_fault("org/other", True, there) is not None
    assert offline_fault("org/other", False, there) is None
    assert offline_fault("org/other", False, there | {"HF_HUB_OFFLINE": "1"}) is not None


def test_a_hubs_id_is_not_asked_about() -> None:
    assert source_fault("org/name") is None
