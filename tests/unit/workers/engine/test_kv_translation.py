"""Changes of a prefix cache: numbered, and from vLLM's hashes to ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from workers.engine.kv_journal import KvJournal
from workers.engine.kv_translation import CLEARED, REMOVED, STORED, KvTranslation

TOKENS = list(range(12))
A, B, C = block_hashes(TOKENS, 4, "s")


def test_a_journal_numbers_what_changes_and_joins_what_is_alike() -> None:
    journal = KvJournal()
    assert journal.batch() is None
    for name in (1, 2, 2, 3):
        journal.stored(name)
    journal.removed(2)
    journal.removed(9)
    journal.stored(2)
    assert journal.batch() == KvBatch(1, (KvEvent(stored=(1, 2, 3)), KvEvent(removed=(2,)), KvEvent(stored=(2,))))
    journal.stored(1)
    assert journal.batch() is None
    journal.cleared()
    journal.cleared()
    journal.stored(7)
    assert journal.batch() == KvBatch(2, (KvEvent(cleared=True), KvEvent(stored=(7,))))
    assert journal.snapshot() == KvSnapshot(2, (7,))


@given(st.lists(st.lists(st.tuples(st.sampled_from("srrc"), st.integers(1, 9)), max_size=8), max_size=20))
def test_a_journals_batches_make_its_set(steps: list[list[tuple[str, int]]]) -> None:
    journal, mirror = KvJournal(), KvMirror()
    for step in steps:
        for what, name in step:
            if what == "s":
                journal.stored(name)
            elif what == "r":
                journal.removed(name)
            else:
                journal.cleared()
        batch = journal.batch()
        assert mirror.apply(KvFrame(batches=(batch,) if batch is not None else ()))
        assert mirror.hashes == journal.hashes


def test_blocks_get_our_names_along_their_chain() -> None:
    translation = KvTranslation()
    assert translation.batch([(STORED, [11, 12], None, TOKENS[:8], "s")], 4) == KvBatch(1, (KvEvent(stored=(A, B)),))
    assert translation.batch([(STORED, [13], 12, TOKENS[8:], "")], 4) == KvBatch(2, (KvEvent(stored=(C,)),))
    assert translation.known() == {11, 12, 13}
    # Reused and stored again: told once.
    assert translation.batch([(STORED, [11, 12, 13], None, TOKENS, "s")], 4) is None
    # A child stays when its parent goes, and the parent comes back as it was.
    assert translation.batch([(REMOVED, [12])], 4) == KvBatch(3, (KvEvent(removed=(B,)),))
    assert set(translation.snapshot().hashes) == {A, C}
    assert translation.batch([(STORED, [12], 11, TOKENS[4:8], "")], 4) == KvBatch(4, (KvEvent(stored=(B,)),))
    assert translation.batch([(CLEARED,), (STORED, [11], None, TOKENS[:4], "s")], 4) == KvBatch(
        5, (KvEvent(cleared=True), KvEvent(stored=(A,)))
    )
    assert translation.known() == {11}


def test_a_block_without_a_name_is_left_out_and_so_are_its_children() -> None:
    translation = KvTranslation()
    foreign = [(STORED, [11, 12], None, [], ""), (STORED, [13], 12, TOKENS[8:], "")]
    assert translation.batch(foreign, 4) is None
    assert translation.unnamed == 3
    assert translation.batch([(REMOVED, [11, 12, 13])], 4) is None
    assert translation.known() == frozenset()


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match="no KV event 7"):
        KvTranslation().batch([(7,)], 4)
