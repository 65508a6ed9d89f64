"""A log dir of one partition that is written to, and what may be expected of it after a crash.

Before each operation it is noted what the operation may undo, after it what holds from then on. What was
flushed stays; records below the log start, or those that a truncation takes, may go at once or later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from engine.broker.checkpoint.clean_shutdown_file import CleanShutdownFile
from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.disk.disk import DISK, Disk
from engine.files.file_names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.units import MAX_INT32, Offset, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.segment.segment_replacement import append_from_file, create_new_cleaned_segment
from engine.writing.state.append_origin import AppendOrigin
from tests.clocks import MockClock, MockScheduler
from tests.crash.recording import RecordingDisk

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(
    segment_size=600,
    max_index_size=120,
    index_interval=150,
    max_message_size=600,
    retention_ms=-1,
    file_delete_delay_ms=1000,
)


class Batch(NamedTuple):
    """A batch as it lies in a log."""

    base_offset: int
    last_offset: int
    raw: bytes

    @classmethod
    def of(cls, batch: RecordBatch) -> Batch:
        return cls(batch.base_offset, batch.last_offset, bytes(batch.raw))


class Promise(NamedTuple):
    """What a crash must leave.

    Attributes:
        stable: the log ends there at least.
        start: the log begins there at most.
        versions: of one of these it holds a part without gaps; they grow while the log is appended to.
        exact: the log is exactly the only version.
        open_ended: one batch more may be there, of an append that failed.
        ends: offsets to which the log was cut; it may end there with its last record further below, where
            offsets are not dense.
    """

    stable: int
    start: int
    versions: tuple[list[Batch], ...]
    exact: bool = False
    open_ended: bool = False
    ends: tuple[Offset, ...] = ()


def records_below(batches: list[Batch], offset: Offset) -> Offset:
    """Where the last batch ends that lies below an offset; 0 without one.

    Of a log up to that offset this is what a crash must leave: nothing says how far a gap behind it reached.
    """
    return max(
        (batch.last_offset + 1 for batch in batches if batch.last_offset < offset), default=0
    )


def batches_in(log: UnifiedLog) -> list[Batch]:
    """All batches of a log."""
    return [Batch.of(batch) for segment in log.segments for batch in segment.log.batches()]


class Opened(NamedTuple):
    """A loaded log and what it lives on."""

    log: UnifiedLog
    clock: MockClock
    scheduler: MockScheduler
    was_clean: bool


def open_log(root: Path, disk: Disk, config: LogConfig = CONFIG, now: int = 10**12) -> Opened:
    """Load the partition as a broker does: by its checkpoints, and cleanly if the last stop was."""
    clock = MockClock(now)
    scheduler = MockScheduler(clock)
    shutdown = CleanShutdownFile(root, disk)
    was_clean = shutdown.exists()
    if was_clean:
        shutdown.delete()
        disk.sync_folder(root)
    points = OffsetCheckpointFile(root / RECOVERY_POINT_CHECKPOINT, disk).read()
    starts = OffsetCheckpointFile(root / LOG_START_OFFSET_CHECKPOINT, disk).read()
    log = UnifiedLog.create(
        root / str(PARTITION),
        config,
        scheduler,
        clock=clock,
        recovery_point=points.get(PARTITION, 0),
        log_start_offset=starts.get(PARTITION, 0),
        last_shutdown_clean=was_clean,
        log_dir_failure_channel=LogDirFailureChannel(),
        disk=disk,
    )
    return Opened(log, clock, scheduler, was_clean)


class Driver:
    """Writes to a log on a disk of its own below `root`, and says what is promised if that disk records."""

    def __init__(self, root: Path, disk: Disk | None = None, config: LogConfig = CONFIG) -> None:
        self.root = root
        self.disk = disk or DISK
        self.config = config
        self.recording = disk.recording if isinstance(disk, RecordingDisk) else None
        self.current: list[Batch] = []
        self.promise = Promise(0, 0, (self.current,))
        self.not_whole_below = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.in_transaction: set[int] = set()
        self.serial = 0
        self.now = 10**12

    # -- promises

    def say(self, promise: Promise) -> None:
        """Promise something from now on."""
        self.promise = promise
        if self.recording is not None:
            self.recording.mark(promise)

    @contextmanager
    def _doing(self, **loosened: object) -> Iterator[None]:
        """Say what may be undone from now on, and afterwards what is on the device."""
        self.say(self.promise._replace(**{"exact": False, **loosened}))  # type: ignore[arg-type]
        yield
        stable = self.promise.stable
        if self.log.recovery_point > self.log.log_start_offset:  # else the log start moved it
            stable = max(stable, records_below(self.current, self.log.recovery_point))
        start = max(self.log.log_start_offset, self.not_whole_below)
        self.say(self.promise._replace(stable=stable, start=start))

    # -- life

    @property
    def is_open(self) -> bool:
        return hasattr(self, "opened")

    @property
    def log(self) -> UnifiedLog:
        return self.opened.log

    def open(self) -> None:
        """Load; what is there then is all that there is."""
        self.opened = open_log(self.root, self.disk, self.config, self.now)
        self.current = batches_in(self.log)
        self.promise = self.promise._replace(versions=(*self.promise.versions, self.current))
        self._follow_producers()
        with self._doing():
            pass

    def _follow_producers(self) -> None:
        """Go on with the sequences and transactions that the log knows of."""
        self.sequences.clear()
        for producer, entry in self.log.producer_state.active_producers.items():
            self.sequences[producer] = entry.last_sequence + 1
        self.in_transaction = {
            producer
            for producer, entry in self.log.producer_state.active_producers.items()
            if entry.current_txn_first_offset is not None
        }

    def close(self) -> None:
        """What a broker does before it stops."""
        with self._doing():
            self.log.flush(force_active_segment=True)
            self._all_is_flushed()
            self.log.close()
            self.checkpoint()
            CleanShutdownFile(self.root, self.disk).write(7)

    def reopen(self) -> None:
        self.close()
        self.open()

    def let_go(self) -> None:
        """Close all files without writing."""
        if self.is_open:
            self.log.close_handlers()

    # -- records

    def _append(self, records: MemoryRecords, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        with self._doing():
            before = self.log.log_end_offset
            self.log.append_as_leader(records, self.epoch, origin, transaction_version=0)
            fetched = self.log.read(before, MAX_INT32).records
            self.current.extend(Batch.of(batch) for batch in fetched.batches())
        self._pass_time(3)

    def _records(self, count: int) -> list[SimpleRecord]:
        made = []
        for _ in range(count):
            self.serial += 1
            value = b"value %d " % self.serial + b"x" * (self.serial * 7 % 40)
            made.append(SimpleRecord(b"key %d" % (self.serial % 5), value, self.opened.clock.ms))
        return made

    def append(
        self, count: int = 2, codec: CompressionType = CompressionType.NONE, producer: int = -1
    ) -> None:
        """Append records, of an idempotent producer if one is named."""
        if producer < 0:
            self._append(records_of(*self._records(count), compression=codec))
            return
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        self._append(
            records_of(
                *self._records(count),
                compression=codec,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=producer in self.in_transaction,
            )
        )

    def begin(self, producer: int) -> None:
        """From now on its records are part of a transaction."""
        self.in_transaction.add(producer)

    def end(self, producer: int, kind: ControlRecordType) -> None:
        """End its transaction."""
        self.in_transaction.discard(producer)
        marker = EndTransactionMarker(kind, 0)
        self._append(
            end_transaction_marker(
                marker, producer_id=producer, producer_epoch=0, timestamp=self.opened.clock.ms
            ),
            AppendOrigin.COORDINATOR,
        )

    def lead(self) -> None:
        """Another leader epoch."""
        self.epoch += 1

    # -- upkeep

    def _all_is_flushed(self) -> None:
        stable = records_below(self.current, self.log.log_end_offset)
        self.say(self.promise._replace(stable=stable, versions=(self.current,)))

    def flush(self) -> None:
        with self._doing():
            self.log.flush()
        self._all_is_flushed()

    def roll(self) -> None:
        with self._doing():
            self.log.roll()

    def truncate(self, target: int) -> None:
        """Cut off the end, and say so in the checkpoint, as a broker does."""
        if target >= self.log.log_end_offset:
            return
        left = [batch for batch in self.current if batch.last_offset < target]
        with self._doing(
            stable=min(self.promise.stable, records_below(left, target)),
            start=min(self.promise.start, target),
            versions=(*self.promise.versions, left),
            ends=(*self.promise.ends, target),
        ):
            self.log.truncate_to(target)
            self.current = left
        self.say(self.promise._replace(versions=(self.current,)))
        self._follow_producers()
        self.checkpoint()

    def delete_records(self, offset: int) -> None:
        """Raise the log start."""
        with self._doing(start=max(offset, self.promise.start)):
            self.log.update_high_watermark(self.log.log_end_offset)
            self.log.maybe_increment_log_start_offset(offset, "records were deleted")

    def retain(self, size: int = -1) -> None:
        """Delete old segments."""
        with self._doing(start=self.log.log_end_offset):
            self.log.update_high_watermark(self.log.log_end_offset)
            self.log.update_config(replace(self.config, retention_size=size))
            self.log.delete_old_segments()
            self.log.update_config(self.config)

    def checkpoint(self) -> None:
        """Write recovery point and log start."""
        with self._doing():
            OffsetCheckpointFile(self.root / RECOVERY_POINT_CHECKPOINT, self.disk).write(
                {PARTITION: self.log.recovery_point}
            )
            first = self.log.local_log.segments.first
            starts = {}
            if first is not None and self.log.log_start_offset > first.base_offset:
                starts[PARTITION] = self.log.log_start_offset
            OffsetCheckpointFile(self.root / LOG_START_OFFSET_CHECKPOINT, self.disk).write(starts)

    def sleep(self, milliseconds: int) -> None:
        """Let deletions and the like take place."""
        with self._doing():
            self._pass_time(milliseconds)

    def _pass_time(self, milliseconds: int) -> None:
        self.opened.clock.sleep(milliseconds)
        self.now = self.opened.clock.ms

    def replace(self, count: int) -> None:
        """Put one segment in the place of the oldest ones, with the same batches."""
        old = self.log.segments[:-1][:count]
        old = [
            each for each in old if each.read_next_offset() - 1 - old[0].base_offset <= MAX_INT32
        ]
        if not old or sum(segment.size for segment in old) > 2 * self.config.segment_size:
            return
        with self._doing():
            new = create_new_cleaned_segment(self.log.log_folder, old[0].base_offset)
            for segment in old:
                assert append_from_file(new, segment.log, 0) == segment.size
                for aborted in segment.txn_index.all_aborted_txns():
                    new.txn_index.append(aborted)
            new.on_become_inactive_segment()
            new.flush()
            new.files.set_last_modified(old[-1].files.last_modified)
            self.log.replace_segments([new], old)
