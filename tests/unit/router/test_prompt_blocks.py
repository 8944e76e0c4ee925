from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts import block_hash
from control_plane.contracts.block_hash import block_hashes
from control_plane.router.named_runs import RUN, NamedRuns
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


RUN_TOKENS = RUN * 4
TOKENS = st.lists(st.integers(0, 2**31 - 1), min_size=RUN_TOKENS, max_size=3 * RUN_TOKENS)


@given(TOKENS, st.integers(0, 3 * RUN_TOKENS), st.lists(st.integers(0, 9), max_size=RUN_TOKENS))
def test_what_prompts_have_in_common_is_named_as_ever(first: list[int], at: int, rest: list[int]) -> None:
    """Whatever was named before, and however little of it is kept."""
    for runs in (NamedRuns(), NamedRuns(most=1)):
        for prompt in (first, first[:at] + rest, first, rest + first):
            for salt in ("", "tenant"):
                names: list[int] = []
                runs.extend(names, prompt, 4, salt)
                assert names == block_hashes(prompt, 4, salt)
                assert len(runs) <= (1 if runs._most == 1 else 100)


def test_a_beginning_that_was_named_before_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    named = []
    real = block_hash.named

    def counting(parent: int, data: bytes, block_size: int) -> array[int]:
        names = real(parent, data, block_size)
        named.extend(names)
        return names

    monkeypatch.setattr(block_hash, "named", counting)
    runs, prompt = NamedRuns(), list(range(10 * RUN_TOKENS))
    runs.extend([], prompt, 4, "")
    assert len(named) == 10 * RUN
    runs.extend([], [*prompt, *range(100)], 4, "")
    assert len(named) == 10 * RUN + 25
    runs.extend([], prompt, 4, "tenant")
    assert len(named) == 20 * RUN + 25, "what another salt names is another's"


def test_nothing_of_a_prompt_is_kept() -> None:
    runs = NamedRuns()
    runs.extend([], [7] * RUN_TOKENS, 4, "")
    ((key, run),) = runs._runs.items()
    assert len(key) == 32
    assert run == tuple(block_hashes([7] * RUN_TOKENS, 4, ""))
