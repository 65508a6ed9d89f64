"""What the tests of the log validator have in common: records, a validator with Kafka's usual arguments."""

from __future__ import annotations

import struct
from typing import Any

from engine.broker.append.log_validator import LogValidator
from engine.broker.append.validation_result import (
    OffsetCounter,
    RecordValidationStats,
    ValidationResult,
)
from engine.coding.compression import Compression, CompressionType
from engine.record.attributes import TimestampType
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from tests.builders import is_valid, message, wrapper
from tests.clocks import MockClock

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
NOW = 1_700_000_000_000
HELLO = (b"hello", b"there", b"beautiful")
OFFSET = 1234567


def validator(
    records: MemoryRecords,
    source: CompressionType = NONE,
    target: CompressionType | Compression | None = None,
    magic: int = 2,
    *,
    now: int = NOW,
    compact: bool = False,
    kind: TimestampType = CREATE_TIME,
    before: int = 1000,
    after: int = 1000,
    epoch: int = -1,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> LogValidator:
    """A validator; the target is the source's codec unless stated."""
    if not isinstance(target, Compression):
        target = Compression(source if target is None else target)
    partition, clock = TopicPartition("topic", 0), MockClock(now)
    return LogValidator(
        *(records, partition, clock, source, target, compact, magic, kind, before, after),
        partition_leader_epoch=epoch,
        origin=origin,
    )


def validated(
    records: MemoryRecords, *arguments: Any, offset: int = 0, **named: Any
) -> ValidationResult:
    """The result; the counter has moved by as many records as there are."""
    counter = OffsetCounter(offset)
    result = validator(records, *arguments, **named).validate(counter)
    assert counter.value == offset + len(list(result.records.records()))
    return result


def values_of(
    values: tuple[bytes, ...] = HELLO,
    magic: int = 2,
    timestamp: int = -1,
    codec: CompressionType = NONE,
    level: int | None = None,
) -> MemoryRecords:
    """Records with null keys at offsets from 0."""
    builder = RecordsBuilder(magic=magic, compression=codec, level=level)
    for value in values:
        builder.append(timestamp, None, value)
    return builder.build()


def two_batches(magic: int, codec: CompressionType) -> MemoryRecords:
    """One record, and two more in a batch of their own."""
    first = RecordsBuilder(magic=magic, compression=codec)
    first.append(10, b"1", b"a")
    second = RecordsBuilder(magic=magic, compression=codec, base_offset=1)
    second.append(11, b"2", b"b")
    second.append(12, b"3", b"c")
    return MemoryRecords(bytes(first.build().buffer) + bytes(second.build().buffer))


def with_inner_magic(magic: int, inner: int, codec: CompressionType) -> MemoryRecords:
    """A wrapper of one magic around twenty messages of the other."""
    inside = [
        message(OFFSET + i, b"%d" % i, b"%d" % i, magic=inner, timestamp=-1) for i in range(20)
    ]
    return MemoryRecords(wrapper(inside, OFFSET + 19, codec, magic=magic, timestamp=-1))


def all_at_offset_zero(magic: int, codec: CompressionType, count: int) -> MemoryRecords:
    """Records that all have offset 0 inside their batch."""
    builder = RecordsBuilder(magic=magic, compression=codec)
    for number in range(count):
        builder.append_unchecked_with_offset(0, SimpleRecord(value=b"%d" % number))
    return builder.build()


def with_header_fields(records: MemoryRecords, fields: dict[int, int]) -> MemoryRecords:
    """The same with int32 fields overwritten, by their place."""
    buffer = bytearray(records.buffer)
    for place, value in fields.items():
        struct.pack_into(">i", buffer, place, value)
    return MemoryRecords(buffer)


def check_offsets(records: MemoryRecords, base: int) -> None:
    offsets = [record.offset for record in records.records()]
    assert offsets
    assert offsets == list(range(base, base + len(offsets)))


def check_base_timestamp(batch: Any, expected: int) -> None:
    """Only magic 2 has one."""
    if batch.magic == 2:
        assert batch.base_timestamp == expected


def check_log_append_time(batch: Any, now: int, base: int) -> None:
    assert is_valid(batch)
    assert (batch.timestamp_type, batch.max_timestamp) == (LOG_APPEND_TIME, now)
    check_base_timestamp(batch, base)
    assert {record.timestamp for record in batch.records()} == {now}


def check_stats(
    stats: RecordValidationStats, converted: int, records: MemoryRecords, *, compressed: bool
) -> None:
    assert stats.records_converted == converted
    assert 0 <= stats.conversion_time_ns <= 60_000_000_000
    if converted and compressed:
        assert stats.temporary_memory_bytes > records.size
    elif converted or compressed:
        assert stats.temporary_memory_bytes > 0
    else:
        assert stats.temporary_memory_bytes == 0
