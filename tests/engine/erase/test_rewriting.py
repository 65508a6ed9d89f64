"""A batch without some records keeps its offsets, producer, epochs, codec and the other records, in every format."""

from __future__ import annotations

import pytest

from engine.coding.compression import CompressionType
from engine.erase.rewriting import without
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from tests import builders
from tests.builders import Producer, Rec

RECORDS = [Rec(b"v%d" % each, b"k%d" % each, 1_700_000_000_000 + each) for each in range(4)]


def only(data: bytes) -> RecordBatch:
    [found] = MemoryRecords(data).batches()
    return found


@pytest.mark.parametrize("codec", list(CompressionType))
def test_magic_2_keeps_what_producers_and_followers_rely_on(codec: CompressionType) -> None:
    owner = Producer(id=7, epoch=3, sequence=40)
    data = builders.batch(RECORDS, 10, codec, producer=owner, transactional=True, leader_epoch=5)
    old = only(data)
    [new] = MemoryRecords(without(old, [False, True, True, False])).batches()
    assert [each.value for each in new.records()] == [b"v1", b"v2"]
    assert [each.sequence for each in new.records()] == [41, 42]
    assert (new.base_offset, new.last_offset, new.leader_epoch) == (10, 13, 5)
    assert (new.producer_id, new.producer_epoch, new.base_sequence) == (7, 3, 40)
    assert (new.compression, new.is_transactional) == (codec, True)
    assert new.max_timestamp == RECORDS[2].timestamp


def test_a_batch_without_records_stays_as_a_header() -> None:
    data = builders.batch(
        RECORDS, 10, leader_epoch=5, producer=Producer(id=7, epoch=3, sequence=40)
    )
    [new] = MemoryRecords(without(only(data), [False] * 4)).batches()
    assert (new.size, list(new.records())) == (61, [])
    assert (new.base_offset, new.last_offset, new.base_sequence) == (10, 13, 40)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("kept", "offsets"),
    [
        ([True, False, True, False], [(10, 12), (13, 13)]),
        ([False, True, True, True], [(10, 10), (11, 13)]),
        ([False] * 4, [(10, 13)]),
    ],
)
def test_a_wrapper_stays_of_its_magic_and_empty_batches_hold_the_ends(
    magic: int, kept: list[bool], offsets: list[tuple[int, int]]
) -> None:
    data = builders.message_set(RECORDS, 10, CompressionType.GZIP, magic=magic)
    made = list(MemoryRecords(without(only(data), kept)).batches())
    assert [(each.base_offset, each.last_offset) for each in made] == offsets
    records = [each for batch in made for each in batch.records()]
    wanted = [record for record, stays in zip(RECORDS, kept, strict=True) if stays]
    assert [each.key for each in records] == [each.key for each in wanted]
    assert {batch.magic for batch in made if list(batch.records())} <= {magic}
