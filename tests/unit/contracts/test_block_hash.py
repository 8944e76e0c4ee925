"""Names of KV blocks: a wire format, so its values are held."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.block_hash import block_hashes, chained, extend_hashes, root_hash

TOKENS = st.lists(st.integers(0, 200_000), max_size=200)


def test_the_format() -> None:
    """As its docstring has it, made by hand; changed values would be another format, with another ``person``."""
    root = blake2b(b"tenant-a", digest_size=8, person=b"inferdeck-root-1").digest()
    first = blake2b(
        b"\x01\0\0\0\x02\0\0\0\x03\0\0\0\x40\x0d\x03\0", digest_size=8, salt=root + bytes(8), person=b"inferdeck-kv-1"
    ).digest()
    second = blake2b(b"\x07\0\0\0" * 4, digest_size=8, salt=first + bytes(8), person=b"inferdeck-kv-1").digest()
    names = block_hashes([1, 2, 3, 200_000, 7, 7, 7, 7, 9], 4, "tenant-a")
    assert names == [int.from_bytes(first, "little"), int.from_bytes(second, "little")]
    assert names == [0x7732C5C56837D0A9, 0xE320FD597D84340B]
    assert block_hashes(range(16), 16) == [0x5DE6727B0843956E]


@given(TOKENS, st.integers(1, 20), st.text(max_size=5))
def test_only_full_blocks_have_a_name_and_each_a_name_of_its_own(tokens: list[int], size: int, salt: str) -> None:
    names = block_hashes(tokens, size, salt)
    assert len(names) == len(set(names)) == len(tokens) // size
    assert all(0 <= name < 1 << 64 for name in names)


@given(TOKENS, st.integers(1, 20), st.integers(0, 200), st.text(max_size=5))
def test_a_prefix_has_the_same_names_however_it_grows(tokens: list[int], size: int, cut: int, salt: str) -> None:
    whole = block_hashes(tokens, size, salt)
    names: list[int] = []
    extend_hashes(names, tokens[:cut], size, salt)
    assert names == whole[: len(names)]
    extend_hashes(names, tokens, size, salt)
    assert names == whole
    for index, parent in enumerate((root_hash(salt), *whole[:-1])[: len(whole)]):
        assert chained(parent, tokens[index * size : (index + 1) * size], size) == [whole[index]]


@given(TOKENS.filter(lambda tokens: len(tokens) >= 4), st.data())
def test_a_token_changes_its_block_and_all_after_it(tokens: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(tokens) // 4 * 4 - 1))
    other = [*tokens]
    other[at] += 1
    names, others = block_hashes(tokens, 4), block_hashes(other, 4)
    assert names[: at // 4] == others[: at // 4]
    assert not set(names[at // 4 :]) & set(others[at // 4 :])


def test_another_salt_another_chain() -> None:
    tokens = range(64)
    chains = [set(block_hashes(tokens, 16, salt)) for salt in ("", "a", "b", "\0")]
    assert len(set.union(*chains)) == 16


def test_no_token_id() -> None:
    with pytest.raises(OverflowError):
        block_hashes([1 << 31], 1)
