from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from control_plane.contracts.worker import CallError, Delta
from tests.scripted_worker import scripted_spec
from workers.engine.vllm_engine import VllmEngine


def test_the_names_of_the_sockets_go_with_the_first_token_and_not_before(tmp_path: Path) -> None:
    engine = VllmEngine(scripted_spec(tmp_path, engine="vllm"))
    engine._private = folder = tmp_path / "private"
    folder.mkdir()
    seen: list[Sequence[Delta]] = []
    sink = engine._settling(seen.append)
    refused, token = Delta(1, error=CallError("internal_error", "no")), Delta(2, [5], "x")
    sink([refused])
    assert folder.exists()
    sink([token])
    assert not folder.exists()
    sink([token])
    assert seen == [[refused], [token], [token]]
