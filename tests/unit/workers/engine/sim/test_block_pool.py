from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.kv_journal import KvJournal
from workers.engine.sim import prefix
from workers.engine.sim.block_pool import BlockPool
from workers.engine.sim.prefix import extend_keys


def keys(tokens: list[int], size: int = 2, salt: str = "") -> list[int]:
    found: list[int] = []
    extend_keys(found, tokens, size, salt)
    return found


def test_a_new_pool_gives_its_blocks_in_order_from_one() -> None:
    pool = BlockPool(4)
    assert pool.take(3) == [1, 2, 3]
    assert pool.counts() == (3, 0, 1)


def test_an_empty_block_is_taken_before_any_cached_one_and_the_last_given_back_first() -> None:
    pool = BlockPool(5)
    cached, empty = pool.take(2), pool.take(2)
    pool.fill(cached[0], 100)
    pool.fill(cached[1], 200)
    pool.release(cached)
    pool.release(empty)
    assert pool.counts() == (0, 2, 3)
    # The table's end goes first, in both parts of the queue; then the content of cached blocks is lost.
    assert pool.take(5) == [4, 3, 5, 2, 1]
    assert pool.find([100, 200], 2) == []


def test_a_hit_keeps_a_block_from_being_taken() -> None:
    pool = BlockPool(2)
    table = pool.take(2)
    pool.fill(1, 100)
    pool.fill(2, 200)
    pool.release(table)
    assert pool.idle_among([1]) == 1
    pool.touch([1])
    assert (pool.references(1), pool.idle_among([1]), pool.available()) == (1, 0, 1)
    assert pool.take(1) == [2]


def test_a_prefix_is_found_up_to_the_first_gap() -> None:
    pool = BlockPool(3)
    for block, key in zip(pool.take(3), (100, 200, 300), strict=True):
        pool.fill(block, key)
    assert pool.find([100, 999, 300], 3) == [1]
    assert pool.find([100, 200, 300], 2) == [1, 2]
    assert pool.find([], 2) == []


def test_of_blocks_with_the_same_content_the_first_filled_is_hit_until_it_goes() -> None:
    pool = BlockPool(3)
    one, two, three = pool.take(3)
    for block in (two, one, three):
        pool.fill(block, 100)
    assert pool.find([100], 1) == [two]
    pool.release([two])
    assert pool.take(1) == [two]
    assert pool.find([100], 1) == [one]
    pool.release([one])
    pool.release([three])
    assert pool.take(2) == [one, three]
    assert pool.find([100], 1) == []


def test_forgetting_keeps_the_order_in_which_blocks_are_taken() -> None:
    pool = BlockPool(4)
    table = pool.take(3)
    pool.fill(1, 100)
    assert not pool.forget_all()
    pool.release(table)
    assert pool.forget_all()
    assert pool.counts() == (0, 0, 4)
    assert pool.take(4) == [3, 2, 4, 1]


def test_a_key_stands_for_everything_before_it() -> None:
    assert len(keys([1, 2, 3, 4, 5])) == 2
    assert keys([1, 2, 3, 4])[0] == keys([1, 2, 9, 9])[0]
    assert keys([1, 2, 3, 4])[1] != keys([9, 9, 3, 4])[1]
    assert keys([1, 2], salt="a") != keys([1, 2], salt="b") != keys([1, 2])


@given(st.lists(st.integers(0, 2**20), max_size=40), st.integers(0, 40), st.integers(1, 5), st.sampled_from(("", "s")))
def test_keys_are_the_same_whether_made_at_once_or_as_tokens_come(
    tokens: list[int], cut: int, size: int, salt: str
) -> None:
    found = keys(tokens[:cut], size, salt)
    extend_keys(found, tokens, size, salt)
    assert found == keys(tokens, size, salt)


@given(st.lists(st.tuples(st.sampled_from(["take", "fill", "release", "clear"]), st.integers(0, 5)), max_size=60))
def test_a_journal_hears_what_can_be_found(acts: list[tuple[str, int]]) -> None:
    journal = KvJournal()
    pool = BlockPool(6, journal)
    held: list[int] = []
    filled: set[int] = set()
    for act, number in acts:
        if act == "take" and pool.available():
            held += pool.take(1)
        elif act == "fill" and held and held[number % len(held)] not in filled:
            block = held[number % len(held)]
            filled.add(block)
            pool.fill(block, 100 + number)
        elif act == "release" and held:
            block = held.pop(number % len(held))
            filled.discard(block)
            pool.release([block])
        elif act == "clear":
            pool.forget_all()
        assert journal.hashes == pool.keys()
        assert pool.keys() == {key for key in range(100, 106) if pool.find([key], 1)}


@pytest.mark.parametrize("name", ["_mix", "_hash"])
@given(st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=12), st.integers(1, 3), st.sampled_from(("", "s")))
def test_only_what_is_equal_has_equal_keys_in_either_form(
    name: str, prompts: list[list[int]], size: int, salt: str
) -> None:
    content_of: dict[int, tuple[int, ...]] = {}
    for tokens in prompts:
        found: list[int] = []
        getattr(prefix, name)(found, tokens, size, prefix.root_key(salt))
        assert len(found) == len(tokens) // size
        for blocks, key in enumerate(found, 1):
            content = tuple(tokens[: blocks * size])
            assert content_of.setdefault(key, content) == content
    assert len(set(content_of.values())) == len(content_of)
