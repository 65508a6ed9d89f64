"""What the tests of the log cleaner begin with: small compacted logs, what is appended, what is left of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner import Cleaner
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.columns.columns import Column, Columns
from engine.index.offset_map import NOT_THERE, HashedOffsetMap
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, MAX_INT64
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from tests.conformance.unified_log_steps import LogBench

TOMBSTONE_RETENTION_MS = 86_400_000
LARGE_TIMESTAMP = MAX_INT64 - TOMBSTONE_RETENTION_MS - 1
COORDINATOR = AppendOrigin.COORDINATOR
COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


class FakeOffsetMap(HashedOffsetMap):
    """Keeps the keys themselves; and the latest offset when it is cleared, so that a clean log is cleaned again."""

    def __init__(self, slots: int = MAX_INT32, keys: Iterable[int] = ()) -> None:
        self.slots, self.latest_offset = slots, NOT_THERE
        self.offsets: dict[bytes, int] = {}
        for number in keys:
            self.put(key(number), MAX_INT64)

    @property
    def size(self) -> int:
        return len(self.offsets)

    def put(self, key: bytes | memoryview, offset: int) -> None:
        self.offsets[bytes(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes | memoryview) -> int:
        return self.offsets.get(bytes(key), NOT_THERE)

    def put_keys(self, columns: Columns, start_offset: int, limit: int) -> int:
        for place in range(len(columns)):
            offset, key = int(columns.offset[place]), columns.key(place)
            if key is None or offset < start_offset:
                continue
            if self.size >= limit:
                return place
            self.put(key, offset)
        return len(columns)

    def offsets_of(self, columns: Columns) -> Column:
        keys = map(columns.key, range(len(columns)))
        found = (NOT_THERE if key is None else self.get(key) for key in keys)
        return np.fromiter(found, np.int64, len(columns))

    def clear(self) -> None:
        self.offsets.clear()


class CleaningBench(LogBench):
    """A log dir with one compacted log of small segments, and cleaners for it."""

    def __init__(self, tmp_path: Path, name: str = "log-0") -> None:
        super().__init__(tmp_path, name)

    def config(self, **config: Any) -> LogConfig:
        small = {"segment_size": 1024, "max_index_size": 1024, "compact": True, "delete": False}
        return LogConfig(**{**small, **config})

    def compacted(self, **config: Any) -> UnifiedLog:
        """The log, by what is special in its configuration."""
        return self.open(self.config(**config))

    def cleaner(
        self,
        capacity: int = MAX_INT32,
        check_done: Callable[[Any], object] = lambda partition: None,
        max_message_size: int = 64 * 1024,
    ) -> Cleaner:
        return Cleaner(
            FakeOffsetMap(capacity),
            self.clock,
            io_buffer_size=max_message_size,
            load_factor=0.75,
            throttler=Throttler(math.inf, self.clock),
            check_done=check_done,
        )


def clean(
    cleaner: Cleaner, log: UnifiedLog, first_dirty_offset: int, now: int | None = None
) -> int:
    """Clean all but the active segment; the first offset that was not cleaned."""
    to_clean = LogToClean.of(log, first_dirty_offset, log.active_segment.base_offset)
    return cleaner.clean(to_clean, now)[0]


def clean_twice(cleaner: Cleaner, log: UnifiedLog, first_dirty_offset: int, now: int) -> int:
    """Clean, and again when what got a delete horizon is over it."""
    to_clean = LogToClean.of(log, first_dirty_offset, log.active_segment.base_offset)
    cleaner.clean(to_clean, now)
    return cleaner.clean(to_clean, now + TOMBSTONE_RETENTION_MS + 1)[0]


def clean_segments(
    cleaner: Cleaner,
    log: UnifiedLog,
    segments: Sequence[WritableSegment],
    offset_map: HashedOffsetMap,
) -> CleanerStats:
    """Clean some segments at the time 0, with all legacy tombstones kept."""
    stats = CleanerStats()
    cleaner.clean_segments(log, segments, offset_map, 0, stats, CleanedTransactionMetadata(), -1)
    return stats


# What is appended


def key(number: int) -> bytes:
    return str(number).encode()


def record(
    number: int, value: int | bytes | None, *, sequence: int = -1, producer: int = -1
) -> MemoryRecords:
    """A batch of one record; with a producer id, of that producer's epoch 0."""
    data = key(value) if isinstance(value, int) else value
    epoch = -1 if producer < 0 else 0
    return records_of(
        SimpleRecord(key(number), data),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def message_with_offset(number: int | bytes, value: int | bytes, offset: int) -> MemoryRecords:
    data = (item if isinstance(item, bytes) else key(item) for item in (number, value))
    return records_of(SimpleRecord(*data), base_offset=offset, partition_leader_epoch=0)


def append_next(log: UnifiedLog) -> None:
    """One record whose key and value are its offset."""
    log.append_as_leader(record(log.log_end_offset, log.log_end_offset), 0)


def append_until(log: UnifiedLog, segments: int) -> None:
    """Records until there are that many segments."""
    while len(log.segments) < segments:
        append_next(log)


def write_to_log(log: UnifiedLog, numbers: Iterable[int], offsets: Iterable[int]) -> None:
    """Append as a follower records whose key and value are a number, at given offsets."""
    for number, offset in zip(numbers, offsets, strict=False):
        log.append_as_follower(message_with_offset(number, number, offset), MAX_INT32)


def producer_of(
    bench: LogBench,
    log: UnifiedLog,
    producer_id: int,
    *,
    is_transactional: bool = True,
    leader_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> Callable[..., LogAppendInfo]:
    """A way to append records of a producer by their keys, with the sequences that follow."""
    sequence = 0

    def append(*keys: int) -> LogAppendInfo:
        nonlocal sequence
        records = records_of(
            *(SimpleRecord(key(number), key(number), bench.now) for number in keys),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        sequence += len(keys)
        return log.append_as_leader(records, leader_epoch, origin)

    return append


def end(
    bench: LogBench,
    log: UnifiedLog,
    producer_id: int,
    kind: ControlRecordType,
    *,
    leader_epoch: int = 0,
    origin: AppendOrigin = COORDINATOR,
) -> None:
    """End a producer's transaction."""
    marker = end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=bench.now,
    )
    log.append_as_leader(marker, leader_epoch, origin, transaction_version=0)


# What is left


def keys_in(log: UnifiedLog) -> list[int]:
    return [
        int(found.key)
        for segment in log.segments
        for batch in segment.log.batches()
        if not batch.is_control
        for found in batch.records()
        if found.value is not None and found.key is not None
    ]


def offsets_in(log: UnifiedLog) -> list[int]:
    return [
        found.offset
        for segment in log.segments
        for found in segment.log.records()
        if found.value is not None and found.key is not None
    ]


def base_offsets(log: UnifiedLog) -> list[int]:
    return [batch.base_offset for segment in log.segments for batch in segment.log.batches()]


def last_offsets(log: UnifiedLog) -> list[int]:
    return [batch.last_offset for segment in log.segments for batch in segment.log.batches()]


def last_sequences(log: UnifiedLog) -> dict[int, int]:
    return {
        batch.producer_id: batch.last_sequence
        for segment in log.segments
        for batch in segment.log.batches()
        if not batch.is_control and batch.producer_id >= 0
    }
