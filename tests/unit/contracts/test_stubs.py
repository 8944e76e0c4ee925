"""The checked-in stubs are what the protos generate."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc_tools import protoc

ROOT = Path(__file__).parents[3]
V1 = Path("control_plane/contracts/v1")


@pytest.mark.parametrize("name", ["worker", "routing", "decision", "operator", "access", "history"])
def test_stubs_match_their_proto(name: str, tmp_path: Path) -> None:
    arguments = ["protoc", f"-I{ROOT}", f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}"]
    assert protoc.main([*arguments, str(ROOT / V1 / f"{name}.proto")]) == 0
    for made in (tmp_path / V1).iterdir():
        assert made.read_text() == (ROOT / V1 / made.name).read_text(), f"{made.name} is stale; hint: make protos"
