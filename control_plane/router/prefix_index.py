"""Which endpoint holds which KV blocks, and how much of a prompt each would find there. Pure.

A block's name (``contracts/block_hash.py``) stands for its tokens and for everything before them. The index has one
entry per name: who holds it, as bits, one bit for each endpoint. What all endpoints would find of a prompt takes one
look-up per block, and ends at the first block that nobody holds.

What an endpoint holds is known in one of two ways. *Told*: its engine's KV events say it (``KvMirror`` calls
``stored``, ``removed``, ``replaced``). *Estimated*, until they do and for engines that don't: what this router sent
there, the least recently used forgotten first. And in between: *promised* is what a call that was sent will put there,
until the events say so or the call is over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Set
from itertools import groupby, islice, repeat
from typing import Final

UNKNOWN_CAPACITY: Final = 4096
"""Blocks, of an endpoint that does not say how many it has."""

MISSES: Final = 8

SETS: Final = 65_536
"""Different sets of holders that are remembered, so that names with the same one share it."""


class PrefixIndex:
    """All endpoints of a router, whatever their model: who may be found is said in each look-up."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._sets: dict[int, int] = {}
        self._shelves: list[Shelf | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """The names that anyone holds."""
        return len(self._holders)

    @property
    def slots(self) -> int:
        """Slots are below this."""
        return len(self._shelves)

    def open(self, capacity: int = 0) -> Shelf:
        """A place for one endpoint instance, with room for so many blocks (0: not known)."""
        slot = self._free.pop() if self._free else len(self._shelves)
        if slot == len(self._shelves):
            self._shelves.append(None)
        shelf = self._shelves[slot] = Shelf(self._holders, self._sets, slot, capacity)
        return shelf

    def close(self, shelf: Shelf) -> None:
        """The instance is gone, and all that it held. Idempotent."""
        if shelf.slot < len(self._shelves) and self._shelves[shelf.slot] is shelf:
            shelf.close()
            self._shelves[shelf.slot] = None
            self._free.append(shelf.slot)

    def look_up(self, names: Sequence[int], among: int) -> list[tuple[int, int]]:
        """How many of the first names are held by whom: (count, endpoints as bits), fewest first.

        ``among`` are the bits of those that count; who holds not even the first is left out.
        """
        depth = 0
        found: list[tuple[int, int]] = []
        if not among:
            return found
        # Blocks in a row are mostly held by the same ones: these are counted, not looked at.
        for holders, run in groupby(map(self._holders.get, names, repeat(0))):
            have = among & holders
            if have != among:
                if depth:
                    found.append((depth, among ^ have))
                if not have:
                    return found
                among = have
            depth += len(list(run))
        if depth:
            found.append((depth, among))
        return found

    def bytes(self) -> int:
        """What the index takes, names included; counted, not measured."""
        shelves = [shelf for shelf in self._shelves if shelf is not None]
        numbers = sum(map(sys.getsizeof, self._holders))
        masks = {id(mask): mask for mask in self._holders.values() if mask & (mask - 1)} | {
            id(mask): mask for mask in self._sets
        }
        sets = sys.getsizeof(self._sets) + sum(map(sys.getsizeof, masks.values()))
        return sys.getsizeof(self._holders) + numbers + sets + sum(shelf.bytes() for shelf in shelves)


class Shelf:
    """What one endpoint instance is believed to hold. Implements ``kv_mirror.Names``.

    ``told``: by its own events; ``refuted``: nothing is, and estimates have proved wrong. It never holds more names
    than the endpoint has blocks; what would be more than that is not taken in, and counted in ``refused``.
    """

    __slots__ = (
        "_bit",
        "_blocks",
        "_estimate",
        "_holders",
        "_misses",
        "_open",
        "_promised",
        "_sets",
        "capacity",
        "refused",
        "refuted",
        "slot",
        "told",
    )

    def __init__(self, holders: dict[int, int], sets: dict[int, int], slot: int, capacity: int = 0) -> None:
        self._holders = holders
        self._sets = sets
        self._bit = 1 << slot
        self._blocks: set[int] = set()
        self._estimate: dict[int, None] = {}
        self._promised: dict[int, int] = {}
        self._open = True
        self._misses = 0
        self.slot = slot
        self.capacity = capacity or UNKNOWN_CAPACITY
        self.refused = 0
        self.refuted = False
        self.told = False

    def __len__(self) -> int:
        """The names that it is believed to hold, without the promised ones."""
        return len(self._blocks) if self.told else len(self._estimate)

    def __contains__(self, name: int) -> bool:
        return bool(self._holders.get(name, 0) & self._bit)

    @property
    def bit(self) -> int:
        return self._bit

    @property
    def promised(self) -> int:
        """Names that calls on their way will add."""
        return len(self._promised)

    def resize(self, capacity: int) -> None:
        """The endpoint says how many blocks it has; 0: it does not."""
        self.capacity = capacity or UNKNOWN_CAPACITY
        self._forget_oldest()

    # --- told by the endpoint's events (kv_mirror.Names)

    def stored(self, names: Iterable[int]) -> None:
        if not self._open:
            return
        if not self.told:
            # The events are there from the engine's start on: nothing was stored before.
            self.replaced(frozenset())
        blocks, promised = self._blocks, self._promised
        added = []
        for name in names:
            if name not in blocks:
                if len(blocks) >= self.capacity:
                    self.refused += 1
                    continue
                blocks.add(name)
                if promised.pop(name, None) is None:
                    added.append(name)
        self._add_all(added)

    def removed(self, names: Iterable[int]) -> None:
        blocks = self._blocks
        dropped = []
        for name in names:
            if name in blocks:
                blocks.remove(name)
                dropped.append(name)
        self._drop_all(dropped)

    def replaced(self, names: Set[int]) -> None:
        """These are all, by the endpoint's own word. The estimate has served."""
        if not self._open:
            return
        self.told, self.refuted = True, False
        self._drop_all(self._estimate)
        self._estimate = {}
        self.removed([name for name in self._blocks if name not in names])
        self.stored(names)

    def forgotten(self) -> None:
        """Nothing is known of it any more, and events may not come: from here on, estimate."""
        self._drop_all((*self._blocks, *self._estimate, *self._promised))
        self._blocks, self._estimate, self._promised = set(), {}, {}
        self.told = False

    # --- by this router's own picks

    def sent(self, names: Sequence[int]) -> Sequence[int]:
        """A call whose prompt fills these blocks goes there. Returns the names that it promises, for ``settled``.

        Told: what the endpoint does not have yet is promised. Else it is estimated to have all of them from now on.
        """
        if not self._open or self.refuted:
            return ()
        if not self.told:
            self._use(names)
            return ()
        blocks, promised = self._blocks, self._promised
        # What is missing is a tail: a block can be hit only after all before it.
        held = [*map(blocks.__contains__, names), False]
        missing = names[held.index(False) :]
        room = self.capacity - len(promised)
        added = []
        for name in missing:
            count = promised.get(name)
            if count is not None:
                promised[name] = count + 1
            elif room > 0 and name not in blocks:
                room -= 1
                promised[name] = 1
                added.append(name)
        self._add_all(added)
        return missing

    def settled(self, promised: Sequence[int]) -> None:
        """The call is over, whatever came of it: what it promised and nobody told of is not there."""
        kept = self._promised
        if not kept:
            return
        dropped = []
        for name in promised:
            count = kept.get(name)
            if count is None:
                continue
            if count > 1:
                kept[name] = count - 1
            else:
                del kept[name]
                dropped.append(name)
        self._drop_all(dropped)

    def found(self, predicted: int, actual: int) -> None:
        """A call has ended well: of so many cached tokens that were predicted, so many were there.

        An estimate that was all wrong ``MISSES`` times in a row is of an engine without a prefix cache, and is given
        up until a call does find something.
        """
        if actual:
            self._misses, self.refuted = 0, False
        elif predicted and not self.told:
            self._misses += 1
            if self._misses >= MISSES:
                self.forgotten()
                self.refuted = True

    def grown(self, names: Sequence[int]) -> None:
        """A call has ended well, and its prompt and answer fill these blocks: for who has to be estimated."""
        if self._open and not self.told and not self.refuted:
            self._use(names)

    # --- inside

    def close(self) -> None:
        """For good: its slot will be another's."""
        self.forgotten()
        self._open = False

    def bytes(self) -> int:
        return sum(map(sys.getsizeof, (self._blocks, self._estimate, self._promised)))

    def _use(self, names: Sequence[int]) -> None:
        """As engines have it: the end of a prompt is forgotten before its beginning."""
        estimate = self._estimate
        added = []
        for name in reversed(names[: self.capacity]):
            if name in estimate:
                del estimate[name]
            else:
                added.append(name)
            estimate[name] = None
        self._add_all(added)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """As many as are too many."""
        estimate = self._estimate
        oldest = list(islice(estimate, max(0, len(estimate) - self.capacity)))
        for name in oldest:
            del estimate[name]
        self._drop_all(oldest)

    def _add_all(self, names: Iterable[int]) -> None:
        """It holds these too. Names in a row mostly have the same holders, before and after."""
        holders, bit = self._holders, self._bit
        before = after = 0
        for name in names:
            others = holders.get(name, 0)
            if others is not before:
                # Most names have one holder: all of these share one number.
                before, after = others, self._shared(others | bit) if others else bit
            holders[name] = after or bit

    def _drop_all(self, names: Iterable[int]) -> None:
        """It holds these no more."""
        holders, bit = self._holders, self._bit
        before = after = 0
        for name in names:
            held = holders[name]
            if held is not before:
                left = held & ~bit
                before, after = held, self._shared(left) if left else 0
            if after:
                holders[name] = after
            else:
                del holders[name]

    def _shared(self, holders: int) -> int:
        """One number for all names with the same holders: blocks in a row mostly have, and are told apart at once."""
        sets = self._sets
        if len(sets) >= SETS:
            sets.clear()
        return sets.setdefault(holders, holders)
