"""The index against a naive model: a dictionary of sets."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.router.prefix_index import MISSES, UNKNOWN_CAPACITY, PrefixIndex, Shelf

NAMES = st.integers(0, 40)
CHAIN = list(range(10))


def depths(index: PrefixIndex, names: Sequence[int], shelves: Sequence[Shelf]) -> list[int]:
    """What each endpoint has of the names, from their first on."""
    found = [0] * len(shelves)
    for count, holders in index.look_up(names, sum(shelf.bit for shelf in shelves)):
        for place, shelf in enumerate(shelves):
            if holders & shelf.bit:
                assert not found[place]
                found[place] = count
    return found


def leading(names: Sequence[int], held: set[int]) -> int:
    return next((at for at, name in enumerate(names) if name not in held), len(names))


def told(index: PrefixIndex, *names: int, capacity: int = 100) -> Shelf:
    shelf = index.open(capacity)
    shelf.replaced(set(names))
    return shelf


@given(st.lists(st.sets(NAMES), max_size=6), st.lists(NAMES, max_size=12), st.lists(st.booleans(), min_size=6))
def test_a_look_up_is_what_each_endpoint_would_find(held: list[set[int]], names: list[int], asked: list[bool]) -> None:
    index = PrefixIndex()
    shelves = [told(index, *names) for names in held]
    wanted = [number for number, yes in zip(range(len(held)), asked, strict=False) if yes]
    among = [shelves[number] for number in wanted]
    assert depths(index, names, among) == [leading(names, held[number]) for number in wanted]
    found = [count for count, _ in index.look_up(names, sum(shelf.bit for shelf in among))]
    assert found == sorted(set(found))
    assert 0 not in found


def test_nobody_asked_is_nobody_found() -> None:
    index = PrefixIndex()
    told(index, *CHAIN)
    assert index.look_up(CHAIN, 0) == []
    assert index.look_up([], 1) == []


class Index(RuleBasedStateMachine):
    """Everything that can happen to shelves, with a model beside it: what each was told, promised, or estimated."""

    shelves = Bundle("shelves")

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.told: dict[Shelf, set[int] | None] = {}
        self.used: dict[Shelf, list[int]] = {}
        self.promises: dict[Shelf, list[Sequence[int]]] = {}

    @rule(target=shelves, capacity=st.sampled_from([3, 50]))
    def open(self, capacity: int) -> Shelf:
        shelf = self.index.open(capacity)
        self.told[shelf], self.used[shelf], self.promises[shelf] = None, [], []
        return shelf

    @rule(shelf=consumes(shelves))
    def close(self, shelf: Shelf) -> None:
        self.index.close(shelf)
        self.index.close(shelf)
        del self.told[shelf], self.used[shelf], self.promises[shelf]
        # What comes too late for it touches nobody.
        shelf.stored([1, 2, 3])
        shelf.replaced({4})
        shelf.removed([1])
        shelf.settled(shelf.sent([5, 6]))
        shelf.grown([7])

    @rule(shelf=shelves, names=st.lists(NAMES, max_size=8))
    def stored(self, shelf: Shelf, names: list[int]) -> None:
        shelf.stored(names)
        held = self.told[shelf]
        held = set() if held is None else held
        for name in names:
            if name in held or len(held) < shelf.capacity:
                held.add(name)
        self.told[shelf], self.used[shelf] = held, []

    @rule(shelf=shelves, names=st.lists(NAMES, max_size=8))
    def removed(self, shelf: Shelf, names: list[int]) -> None:
        shelf.removed(names)
        held = self.told[shelf]
        if held is not None:
            held.difference_update(names)

    @rule(shelf=shelves, names=st.sets(NAMES, max_size=3))
    def replaced(self, shelf: Shelf, names: set[int]) -> None:
        shelf.replaced(names)
        self.told[shelf], self.used[shelf] = set(names), []

    @rule(shelf=shelves)
    def forgotten(self, shelf: Shelf) -> None:
        shelf.forgotten()
        self.told[shelf], self.used[shelf], self.promises[shelf] = None, [], []

    @rule(shelf=shelves, names=st.lists(NAMES, max_size=8, unique=True))
    def sent(self, shelf: Shelf, names: list[int]) -> None:
        promised = shelf.sent(names)
        if self.told[shelf] is not None:
            self.promises[shelf].append(promised)
            return
        assert not promised
        used = self.used[shelf]
        for name in reversed(names[: shelf.capacity]):
            if name in used:
                used.remove(name)
            used.append(name)
        del used[: max(0, len(used) - shelf.capacity)]

    @rule(shelf=shelves)
    def settled(self, shelf: Shelf) -> None:
        if self.promises[shelf]:
            shelf.settled(self.promises[shelf].pop(0))

    @invariant()
    def agrees(self) -> None:
        everything: set[int] = set()
        for shelf, held in self.told.items():
            promised = {name for names in self.promises[shelf] for name in names}
            certain = set(self.used[shelf]) if held is None else held
            assert len(shelf) == len(certain) <= shelf.capacity
            assert shelf.told is (held is not None)
            present = {name for name in range(41) if name in shelf}
            assert certain <= present <= certain | promised
            assert shelf.promised == len(present - certain) <= shelf.capacity
            if not self.promises[shelf]:
                assert present == certain
            everything |= present
        assert len(self.index) == len(everything)
        slots = [shelf.slot for shelf in self.told]
        assert len(set(slots)) == len(slots)


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=60, stateful_step_count=30)


def test_the_bits_of_a_thousand_that_came_and_went_are_used_again() -> None:
    """R04: added and removed, they leave nothing."""
    index = PrefixIndex()
    stays = told(index, *CHAIN)
    for number in range(1000):
        shelf = told(index, *CHAIN, 1000 + number)
        shelf.sent([5000, 5001])
        index.close(shelf)
    assert (index.slots, len(index)) == (2, len(CHAIN))
    assert depths(index, CHAIN, [stays]) == [10]
    before = index.bytes()
    index.close(stays)
    assert len(index) == 0
    assert index.bytes() < before


def test_a_promise_counts_until_the_events_say_so() -> None:
    index = PrefixIndex()
    shelf = told(index, 0, 1, 2)
    first = shelf.sent(CHAIN)
    assert list(first) == CHAIN[3:]
    assert depths(index, CHAIN, [shelf]) == [10]
    shelf.stored([3, 4])
    shelf.removed([4])  # evicted again: it was there, and is not
    shelf.settled(first)
    assert depths(index, CHAIN, [shelf]) == [4]


def test_what_two_calls_promise_is_there_until_both_are_over() -> None:
    index = PrefixIndex()
    shelf = told(index)
    first, second = shelf.sent(CHAIN), shelf.sent(CHAIN)
    shelf.settled(first)
    assert depths(index, CHAIN, [shelf]) == [10]
    shelf.settled(second)
    assert depths(index, CHAIN, [shelf]) == [0]
    assert len(index) == 0


def test_an_estimate_serves_until_the_truth_comes() -> None:
    index = PrefixIndex()
    shelf = index.open(100)
    assert not shelf.sent(CHAIN)
    assert depths(index, CHAIN, [shelf]) == [10]
    mirror = KvMirror(shelf)
    assert mirror.apply(KvFrame("i", KvSnapshot(7, (0, 1))))
    assert (shelf.told, depths(index, CHAIN, [shelf])) == (True, [2])
    assert mirror.apply(KvFrame("i", batches=(KvBatch(8, (KvEvent(stored=(2,)), KvEvent(removed=(0,)))),)))
    assert (depths(index, CHAIN, [shelf]), len(shelf)) == ([0], 2)
    assert mirror.apply(KvFrame("i", unavailable="they stopped"))
    assert (shelf.told, len(shelf), len(index)) == (False, 0, 0)
    shelf.sent([1, 2])
    assert depths(index, [1, 2], [shelf]) == [2]


def test_the_end_of_a_prompt_is_forgotten_before_its_beginning() -> None:
    index = PrefixIndex()
    shelf = index.open(12)
    shelf.sent(CHAIN)
    shelf.sent([20, 21, 22, 23])
    assert depths(index, CHAIN, [shelf]) == [8]
    assert depths(index, [20, 21, 22, 23], [shelf]) == [4]
    shelf.resize(5)
    assert (len(shelf), depths(index, CHAIN, [shelf])) == (5, [1])


def test_events_from_the_first_on_need_no_snapshot() -> None:
    index = PrefixIndex()
    shelf = index.open(10)
    shelf.sent(CHAIN)
    assert KvMirror(shelf).apply(KvFrame("i", batches=(KvBatch(1, (KvEvent(stored=(0,)),)),)))
    assert (shelf.told, depths(index, CHAIN, [shelf])) == (True, [1])


def test_a_worker_that_tells_more_than_it_can_hold_is_not_believed() -> None:
    index = PrefixIndex()
    shelf = index.open(4)
    shelf.replaced(set(range(9)))
    assert (len(shelf), shelf.refused, len(index)) == (4, 5, 4)
    unknown = index.open()
    unknown.replaced(set(range(2 * UNKNOWN_CAPACITY)))
    assert len(unknown) == UNKNOWN_CAPACITY


def test_an_estimate_that_is_always_wrong_is_given_up_until_something_is_found() -> None:
    index = PrefixIndex()
    shelf = index.open(100)
    shelf.sent(CHAIN)
    for _ in range(MISSES - 1):
        shelf.found(160, 0)
    shelf.found(0, 0)
    assert depths(index, CHAIN, [shelf]) == [10]
    shelf.found(160, 0)
    shelf.sent(CHAIN)
    shelf.grown(CHAIN)
    assert (shelf.refuted, depths(index, CHAIN, [shelf])) == (True, [0])
    shelf.found(0, 32)
    shelf.sent(CHAIN)
    assert depths(index, CHAIN, [shelf]) == [10]


def test_what_is_told_is_believed_however_the_predictions_went() -> None:
    index = PrefixIndex()
    shelf = told(index, *CHAIN)
    for _ in range(2 * MISSES):
        shelf.found(160, 0)
    assert depths(index, CHAIN, [shelf]) == [10]
