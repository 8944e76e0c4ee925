from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.scripted.blocks import Block, BlockPool

SIZE = 4


def take(pool: BlockPool, tokens: list[int], salt: str = "") -> tuple[list[Block], int] | None:
    return pool.take(pool.keys(tokens, salt), len(tokens))


def test_a_prompt_takes_whole_blocks() -> None:
    pool = BlockPool(8, SIZE)
    assert take(pool, list(range(9))) is not None
    assert pool.used == 3


def test_a_prefix_is_found_while_it_is_used_and_afterwards() -> None:
    pool = BlockPool(8, SIZE)
    first = take(pool, list(range(10)))
    second = take(pool, [*range(8), 99, 98])
    assert first is not None
    assert second is not None
    assert second[1] == 2
    assert pool.used == 4
    pool.release(first[0])
    pool.release(second[0])
    assert pool.used == 0
    third = take(pool, list(range(10)))
    assert third is not None
    assert third[1] == 2


def test_the_last_token_is_always_computed() -> None:
    pool = BlockPool(8, SIZE)
    first = take(pool, list(range(8)))
    assert first is not None
    again = take(pool, list(range(8)))
    assert again is not None
    assert again[1] == 1


def test_a_salt_keeps_prefixes_apart() -> None:
    pool = BlockPool(8, SIZE)
    take(pool, list(range(8)), "one")
    other = take(pool, list(range(8)), "two")
    assert other is not None
    assert other[1] == 0


def test_no_room_takes_nothing() -> None:
    pool = BlockPool(2, SIZE)
    assert take(pool, list(range(9))) is None
    assert pool.used == 0


def test_the_least_recently_used_content_goes_first() -> None:
    pool = BlockPool(3, SIZE)
    for start in (0, 100):
        taken = take(pool, list(range(start, start + 4)))
        assert taken is not None
        pool.release(taken[0])
    fresh = take(pool, list(range(200, 208)))
    assert fresh is not None
    pool.release(fresh[0])
    newer = pool.keys(list(range(100, 104)), "")
    older = pool.keys(list(range(4)), "")
    assert pool.holds(newer[0])
    assert not pool.holds(older[0])


@given(st.integers(0, 2**32), st.integers(2, 12))
def test_blocks_are_neither_lost_nor_made(seed: int, total: int) -> None:
    dice = random.Random(seed)
    pool = BlockPool(total, SIZE)
    taken: list[list[Block]] = []
    for _ in range(60):
        if taken and dice.random() < 0.4:
            pool.release(taken.pop(dice.randrange(len(taken))))
        elif dice.random() < 0.3:
            full = pool.used == total
            block = pool.grow()
            assert (block is None) == full
            if block is not None:
                taken.append([block])
        else:
            tokens = [dice.randrange(2) for _ in range(dice.randrange(1, 4 * SIZE))]
            found = take(pool, tokens)
            if found is not None:
                assert len(found[0]) == pool.blocks_for(len(tokens))
                taken.append(found[0])
        assert pool.used == len({id(block) for blocks in taken for block in blocks}) <= total
    for blocks in taken:
        pool.release(blocks)
    assert pool.used == 0
