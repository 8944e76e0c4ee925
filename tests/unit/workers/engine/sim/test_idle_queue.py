from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.sim.block import Block
from workers.engine.sim.idle_queue import IdleQueue

NUMBERS = 6


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "pop", "clear"]), st.integers(1, NUMBERS)), max_size=80))
def test_it_is_a_queue_from_whose_middle_one_can_be_taken(acts: list[tuple[str, int]]) -> None:
    blocks = [Block(number) for number in range(NUMBERS + 1)]
    queue, expected = IdleQueue(blocks), OrderedDict[int, None]()
    for act, number in acts:
        if act == "add" and number not in expected:
            queue.add(blocks[number])
            expected[number] = None
        elif act == "remove" and number in expected:
            queue.remove(blocks[number])
            del expected[number]
        elif act == "pop" and expected:
            assert queue.pop().number == expected.popitem(last=False)[0]
        elif act == "clear":
            queue.clear()
            expected.clear()
        assert queue.numbers() == list(expected)
        assert len(queue) == len(expected)
