"""The first look at batches: the facts are those that the batches themselves tell."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from engine.coding.compression import CompressionType
from engine.errors import (
    CorruptRecordError,
    DamagedFileError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
)
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.append.append_analysis import AppendTerms, analyze, batch_of, facts_of
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.records.building import records_of
from engine.writing.records.simple_record import SimpleRecord
from tests.conformance.unified_log_steps import joined, rec

FOLLOWER = AppendTerms(AppendOrigin.REPLICATION, 10, assigns_offsets=False, ignores_size=True)
PARTITION = TopicPartition("t", 0)
KINDS = [
    (magic, codec)
    for magic, codec in itertools.product((0, 1, 2), CompressionType)
    if magic == 2 or codec is not CompressionType.ZSTD
]


def some_batch(kind: tuple[int, CompressionType], base: int, count: int) -> MemoryRecords:
    magic, codec = kind
    records = [SimpleRecord(b"k", b"v" * n, -1 if magic == 0 else 1000 + n) for n in range(count)]
    producer = {"producer_id": base, "producer_epoch": 1, "base_sequence": 2} if magic == 2 else {}
    return records_of(
        *records,
        base_offset=base,
        magic=magic,
        compression=codec,
        partition_leader_epoch=base % 7 if magic == 2 else -1,
        **producer,
    )


BATCHES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=6
)


@given(BATCHES)
def test_facts_are_those_of_the_batches(
    parts: list[tuple[tuple[int, CompressionType], int, int]],
) -> None:
    end, batches = 0, []
    for kind, gap, count in parts:
        batches.append(some_batch(kind, end + gap, count))
        end += gap + count
    records = joined(*batches)
    found = list(facts_of(records))
    expected = list(records.batches())
    assert len(found) == len(expected)
    for facts, batch in zip(found, expected, strict=True):
        assert facts.position == batch.file_position
        for name in [
            "size",
            "magic",
            "crc",
            "codec_id",
            "last_offset",
            "leader_epoch",
            "max_timestamp",
            "producer_id",
        ]:
            assert getattr(facts, name) == getattr(batch, name)
        assert facts.base_offset == (batch.base_offset if batch.magic == 2 else -1)
        assert bytes(batch_of(records, facts).raw) == bytes(batch.raw)

    info, kept = analyze(records, FOLLOWER, PARTITION, max_message_size=0, log_start_offset=4)
    assert kept == found
    assert info.valid_bytes == records.size
    assert info.last_offset == end - 1
    assert info.log_start_offset == 4
    assert info.max_timestamp == max(batch.max_timestamp for batch in expected)
    assert info.first_or_last_offset_of_first_batch == (
        expected[0].base_offset if expected[0].magic == 2 else expected[0].last_offset
    )


@given(BATCHES, st.data())
def test_one_changed_byte_is_found_or_is_no_part_of_what_the_checksum_covers(
    parts: list[tuple[tuple[int, CompressionType], int, int]], data: st.DataObject
) -> None:
    kind = parts[0][0]
    original = bytes(some_batch(kind, 3, 1).buffer)
    place = data.draw(st.integers(0, len(original) - 1))
    damaged = bytearray(original)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        info, kept = analyze(
            MemoryRecords(bytes(damaged)),
            FOLLOWER,
            PARTITION,
            max_message_size=0,
            log_start_offset=0,
        )
    except DamagedFileError:
        return
    except OffsetsOutOfOrderError:
        assert place < 8, "a negative offset"
        return
    is_offset_or_epoch = place < 8 or (kind[0] == 2 and 12 <= place < 16)
    assert is_offset_or_epoch or not kept
    assert kept or info.valid_bytes == 0


def test_an_unknown_codec_is_refused() -> None:
    damaged = bytearray(records_of(rec("a")).buffer)
    damaged[22] |= 7
    records = MemoryRecords(bytes(damaged))
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        analyze(records, FOLLOWER, PARTITION, max_message_size=0, log_start_offset=0)


def test_batches_after_one_of_a_later_epoch_are_left_out_whatever_their_epoch() -> None:
    parts = [
        records_of(rec("x"), base_offset=offset, partition_leader_epoch=epoch)
        for offset, epoch in enumerate((9, 11, 9, 10))
    ]
    info, kept = analyze(
        joined(*parts), FOLLOWER, PARTITION, max_message_size=0, log_start_offset=0
    )
    assert [facts.last_offset for facts in kept] == [0]
    assert (info.last_offset, info.valid_bytes) == (0, parts[0].size)
