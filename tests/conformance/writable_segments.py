"""Segments to write to, and the records that Kafka's tests put into them."""

from __future__ import annotations

import random
from pathlib import Path

from engine.clock import SYSTEM_CLOCK, Clock
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.segment_files import (
    WritableSegmentFiles,
    log_path,
    offset_index_path,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.writable_file_records import WritableFileRecords
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)
from tests.clocks import MockClock

PARTITION = TopicPartition("topic", 0)


def create_segment(
    folder: Path,
    offset: int,
    index_interval_bytes: int = 10,
    clock: Clock = SYSTEM_CLOCK,
    *,
    named: int | None = None,
) -> WritableSegment:
    """A segment with index files of 1000 and 1500 bytes; `named` is for base offsets that no file has."""
    name = offset if named is None else named
    return WritableSegment(
        WritableSegmentFiles(
            WritableFileRecords.open(log_path(folder, name)),
            LazyWritableIndex(WritableOffsetIndex, offset_index_path(folder, name), offset, 1000),
            LazyWritableIndex(WritableTimeIndex, time_index_path(folder, name), offset, 1500),
            WritableTransactionIndex(offset, transaction_index_path(folder, name)),
        ),
        offset,
        index_interval_bytes,
        0,
        clock,
    )


def v1_records(offset: int, *values: str) -> MemoryRecords:
    """Messages of magic 1 from an offset on, all with ten times that as timestamp."""
    return _records(offset, 1, values)


def v2_records(offset: int, *values: str) -> MemoryRecords:
    """The same in a batch of magic 2."""
    return _records(offset, 2, values)


def _records(offset: int, magic: int, values: tuple[str, ...]) -> MemoryRecords:
    records = [SimpleRecord(value=value.encode(), timestamp=offset * 10) for value in values]
    return records_of(*records, base_offset=offset, magic=magic)


def contents(
    records: MemoryRecords | FileRecords | None,
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of each record."""
    assert records is not None
    return [(each.offset, each.timestamp, each.key, each.value) for each in records.records()]


def new_producer_state(folder: Path) -> ProducerStateManager:
    return ProducerStateManager(
        PARTITION,
        folder,
        5 * 60 * 1000,
        ProducerStateManagerConfig(86_400_000),
        MockClock(),
    )


def write_nonsense(path: Path, position: int, size: int, rng: random.Random) -> None:
    """Overwrite bytes of a file in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes(rng.randrange(255) for _ in range(size)))
