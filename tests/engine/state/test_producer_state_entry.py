"""engine.state.producer_state_entry: what is known of one producer, and what an entry without batches says."""

from __future__ import annotations

import pytest

from engine.errors import CorruptSnapshotError
from engine.state.producer_snapshot import ENTRY, ProducerSnapshot
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry

FIRST = BatchMetadata(last_sequence=4, last_offset=104, offset_delta=4, timestamp=1000)
SECOND = BatchMetadata(last_sequence=6, last_offset=109, offset_delta=1, timestamp=2000)


def entry(*batches: BatchMetadata) -> ProducerStateEntry:
    return ProducerStateEntry(7, 1, 3, 2000, 100, batches)


def test_an_entry_knows_its_oldest_and_its_newest_batch() -> None:
    known = entry(FIRST, SECOND)
    assert not known.is_empty
    assert known.last_batch == SECOND
    assert (known.first_sequence, known.last_sequence) == (0, 6)
    assert (known.first_data_offset, known.last_data_offset) == (100, 109)
    assert known.last_offset_delta == 1


def test_an_entry_without_batches_has_no_sequence_and_no_offset() -> None:
    empty = entry()
    assert empty.is_empty
    assert empty.last_batch is None
    assert (empty.first_sequence, empty.last_sequence) == (-1, -1)
    assert (empty.first_data_offset, empty.last_data_offset) == (-1, -1)
    assert empty.last_offset_delta == 0


def test_of_an_unknown_producer_nothing_is_stated() -> None:
    unknown = ProducerStateEntry(7)
    assert (unknown.producer_epoch, unknown.coordinator_epoch, unknown.last_timestamp) == (-1,) * 3
    assert unknown.current_txn_first_offset is None
    assert unknown.is_empty


def test_a_copy_has_the_batches_and_does_not_change_with_the_original() -> None:
    original = entry(FIRST)
    copy = original.copied()
    assert copy == original
    original.add_batch(1, SECOND)
    original.end_transaction(1, 4, 3000)
    assert copy == entry(FIRST)
    assert original.without_batches() == ProducerStateEntry(7, 1, 4, 3000)


def test_the_newest_five_batches_are_kept() -> None:
    known = entry()
    for number in range(7):
        known.add_batch(1, BatchMetadata(number, 100 + number, 0, 1000))
    assert [batch.last_sequence for batch in known.batches] == [2, 3, 4, 5, 6]


def test_an_entry_equals_no_other_thing() -> None:
    assert entry(FIRST) != entry(SECOND)
    assert entry() != 7
    assert entry() != None  # noqa: E711


def test_an_unknown_version_is_found_at_the_start() -> None:
    with pytest.raises(CorruptSnapshotError, match="version") as caught:
        ProducerSnapshot.parse(b"\0\2" + ProducerSnapshot.render([])[2:])
    assert (caught.value.position, caught.value.found) == (0, 2)


def test_a_snapshot_of_a_producer_without_batches_and_transaction_is_kafkas() -> None:
    data = ProducerSnapshot.render([ProducerStateEntry(7, 1, 3, 2000)])
    assert len(data) == 10 + ENTRY.size
    (found,) = ENTRY.iter_unpack(data[10:])
    assert found == (7, 1, -1, -1, 0, 2000, 3, -1)
    assert data[6:10] == (1).to_bytes(4, "big")
