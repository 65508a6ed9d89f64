"""What the tests of the writing log begin with: a log dir with a clock, and short ways to say what is appended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.cleaning.record_filter import BatchRetention, BatchRetentionResult, filter_to
from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.disk.disk import DISK, Disk
from engine.index.transaction_index import AbortedTxn
from engine.log.segment.fetch import is_offset_only
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding import writable_batch
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import LogOffsetMetadata
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig
from engine.writing.state.snapshot_file import list_snapshot_files
from tests.clocks import MockClock, MockScheduler

LARGEST = 2**31 - 1
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


class LogBench:
    """A log dir with one partition, on a clock that stands still."""

    def __init__(self, tmp_path: Path, name: str = "topic-0") -> None:
        self.log_dir = tmp_path
        self.folder = tmp_path / name
        self.clock = MockClock()
        self.scheduler = MockScheduler(self.clock)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def open(
        self,
        config: LogConfig | None = None,
        *,
        folder: Path | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        disk: Disk = DISK,
        **options: Any,
    ) -> UnifiedLog:
        """Create or load the log; every time with a failure channel of its own."""
        return UnifiedLog.create(
            folder or self.folder,
            config or LogConfig(),
            self.scheduler,
            clock=self.clock,
            max_transaction_timeout_ms=60 * 60 * 1000,
            producer_state_config=ProducerStateManagerConfig(producer_id_expiration_ms),
            log_dir_failure_channel=LogDirFailureChannel(),
            disk=disk,
            **options,
        )

    def log(self, disk: Disk = DISK, **config: Any) -> UnifiedLog:
        """The log by what is special in its configuration."""
        return self.open(LogConfig(**config), disk=disk)

    def at_now(self, text: str = "test", key: bytes | None = None) -> MemoryRecords:
        """One record with the time of now."""
        return one(text, self.now, key)

    @property
    def snapshot_offsets(self) -> list[int]:
        return [snapshot.offset for snapshot in list_snapshot_files(self.folder)]

    def names(self, ending: str) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name.endswith(ending))


def rec(text: str, timestamp: int = -1, key: bytes | None = None) -> SimpleRecord:
    return SimpleRecord(key, text.encode(), timestamp)


def recs(texts: str, timestamp: int = -1) -> list[SimpleRecord]:
    """A record for each letter."""
    return [rec(text, timestamp) for text in texts]


def one(text: str = "test", timestamp: int = -1, key: bytes | None = None) -> MemoryRecords:
    return records_of(rec(text, timestamp, key))


def of_producer(
    producer_id: int,
    sequence: int,
    *records: SimpleRecord,
    epoch: int = 0,
    is_transactional: bool = False,
    **options: Any,
) -> MemoryRecords:
    return records_of(
        *records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        **options,
    )


def joined(*parts: MemoryRecords) -> MemoryRecords:
    return MemoryRecords(b"".join(bytes(part.buffer) for part in parts))


def with_epoch(records: MemoryRecords, epoch: int) -> MemoryRecords:
    """The same batches, stamped with a leader epoch."""
    buffer = bytearray(records.buffer)
    for batch in records.batches():
        writable_batch.set_partition_leader_epoch(buffer, batch.file_position, epoch)
    return MemoryRecords(bytes(buffer))


def append_as_follower(log: UnifiedLog, records: MemoryRecords, epoch: int) -> LogAppendInfo:
    return log.append_as_follower(with_epoch(records, epoch), epoch)


def end_txn(
    log: UnifiedLog,
    producer_id: int,
    epoch: int,
    kind: ControlRecordType,
    timestamp: int,
    *,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> LogAppendInfo:
    """Append an end marker as a transaction coordinator's leader does."""
    marker = end_transaction_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=timestamp,
        partition_leader_epoch=0,
    )
    return log.append_as_leader(
        marker, leader_epoch, AppendOrigin.COORDINATOR, transaction_version=0
    )


def producer(
    log: UnifiedLog, producer_id: int, epoch: int, timestamp: int, *, is_transactional: bool = True
) -> Callable[[int], LogAppendInfo]:
    """A way to append that many records of a producer, with the sequences that follow."""
    sequence = 0

    def append(count: int) -> LogAppendInfo:
        nonlocal sequence
        records = [rec(str(number), timestamp) for number in range(sequence, sequence + count)]
        batch = of_producer(
            producer_id, sequence, *records, epoch=epoch, is_transactional=is_transactional
        )
        sequence += count
        return log.append_as_leader(batch, 0)

    return append


def append_plain(log: UnifiedLog, count: int) -> LogAppendInfo:
    return log.append_as_leader(records_of(*(rec(str(n)) for n in range(count))), 0)


def append_many(log: UnifiedLog, count: int, make: Callable[[], MemoryRecords]) -> None:
    for _ in range(count):
        log.append_as_leader(make(), 0)


def batches_at(log: UnifiedLog, offset: int, max_length: int = 1) -> list[RecordBatch]:
    return list(log.read(offset, max_length).records.batches())


def all_records(log: UnifiedLog) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for segment in log.segments
        for record in segment.log.records()
    ]


def aborted_transactions(log: UnifiedLog) -> list[AbortedTxn]:
    return [txn for segment in log.segments for txn in segment.txn_index.all_aborted_txns()]


def overflows(log: UnifiedLog) -> list[Any]:
    """Segments with offsets that do not fit into 31 bits beside their base."""
    return [
        segment
        for segment in log.segments
        if any(
            batch.last_offset > segment.base_offset + LARGEST
            or batch.base_offset < segment.base_offset
            for batch in segment.log.batches()
        )
    ]


def assert_is_placed(log: UnifiedLog, metadata: LogOffsetMetadata) -> None:
    """Its place is known, and right."""
    assert not is_offset_only(metadata)
    base = metadata.segment_base_offset
    segment = log.segments_between(base, base + 1)[0]
    assert segment.base_offset == base
    assert metadata.position <= segment.size
    fetched = segment.read(metadata.offset, 2048, max_position=segment.size)
    if metadata.position < segment.size:
        assert fetched is not None
        assert fetched.fetch_offset_metadata == metadata
    else:
        assert fetched is None


class Compaction:
    """What a cleaner keeps: records by a test, and what it does with batches that become empty."""

    delete_retention_ms = 0
    current_time = 0

    def __init__(
        self, retention: BatchRetention, keeps: Callable[[Record], bool], *, is_txn: bool = False
    ) -> None:
        self._result = BatchRetentionResult(retention, is_txn)
        self._keeps = keeps

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        return self._result

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        return self._keeps(record)


def compacted(records: MemoryRecords, compaction: Compaction) -> MemoryRecords:
    return MemoryRecords(bytes(filter_to(records.batches(), compaction).output))


@contextmanager
def fast_switches() -> Iterator[None]:
    """Threads take turns every 10 us, not every 5 ms: a thread that spins does not hold up the others."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def create_empty_logs(folder: Path, *offsets: int) -> None:
    folder.mkdir(exist_ok=True)
    for offset in offsets:
        (folder / f"{offset:020d}.log").touch()
        (folder / f"{offset:020d}.index").touch()


CODECS = (CompressionType.NONE, CompressionType.LZ4)
