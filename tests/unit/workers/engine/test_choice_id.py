"""Ids inside vLLM and outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.choice_id import internal_id, public_id


@given(st.text(), st.integers(0, 1 << 40), st.integers(0, 200))
def test_what_goes_in_comes_out(request_id: str, call: int, choice: int) -> None:
    assert public_id(internal_id(request_id, call, choice)) == (f"{request_id}#{choice}" if choice else request_id)


@given(st.text(), st.text("0123456789abcdef", min_size=8, max_size=8))
def test_vllms_own_suffix_is_never_taken_for_ours(request_id: str, suffix: str) -> None:
    assert public_id(f"{request_id}-{suffix}") == request_id


@pytest.mark.parametrize("name", ["", "plain", "a-b", "a-1234567", "a-1-2"])
def test_other_ids_stay(name: str) -> None:
    assert public_id(name) == name
