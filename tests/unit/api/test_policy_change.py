"""A policy's document that reaches the operators' API."""

from __future__ import annotations

import pytest

from control_plane.api.access_service import _policy_change
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.v1 import access_pb2 as pb


@pytest.mark.parametrize("document", ["[" * 100_000, "{", "1" * 5000])
def test_what_is_no_json_that_can_be_read_is_the_operators_fault(document: str) -> None:
    with pytest.raises(InvalidRequest, match="document: this is no JSON"):
        _policy_change(pb.SetPolicyRequest(document=document))
