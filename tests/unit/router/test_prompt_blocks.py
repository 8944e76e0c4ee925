from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts import block_hash
from control_plane.contracts.block_hash import block_hashes
from control_plane.router.prompt_blocks import PromptBlocks


@given(
    st.lists(st.integers(0, 300), max_size=90),
    st.lists(st.integers(0, 300), max_size=40),
    st.sampled_from([1, 16, 32]),
    st.sampled_from(["", "tenant"]),
)
def test_a_prompt_that_grows_is_named_as_if_it_were_new(
    prompt: list[int], more: list[int], block_size: int, salt: str
) -> None:
    blocks = PromptBlocks(salt)
    assert blocks.names(prompt, block_size) == block_hashes(prompt, block_size, salt)
    assert blocks.names(prompt + more, block_size) == block_hashes(prompt + more, block_size, salt)


def test_each_block_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    named = []
    real = block_hash.chained

    def counting(parent: int, tokens: list[int], block_size: int) -> list[int]:
        names = real(parent, tokens, block_size)
        named.extend(names)
        return names

    monkeypatch.setattr(block_hash, "chained", counting)
    blocks = PromptBlocks("")
    for length in (40, 40, 44, 50):
        blocks.names(list(range(length)), 16)
    blocks.names(list(range(50)), 32)
    assert len(named) == 3 + 1


def test_salts_keep_tenants_apart_and_blocks_of_unknown_size_have_no_names() -> None:
    prompt = list(range(64))
    assert not set(PromptBlocks("a").names(prompt, 16)) & set(PromptBlocks("b").names(prompt, 16))
    assert PromptBlocks("").names(prompt, 0) == []
