"""The metadata log of a KRaft quorum: a `UnifiedLog` that starts at the end of a snapshot.

The leader's records have their offsets already. Retention ignores segments: it deletes the oldest
snapshots, and the records before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.raft.raft_snapshot import RaftSnapshotWriter, SnapshotId
from engine.broker.raft.snapshot_retention import SnapshotRetention
from engine.broker.raft.snapshot_store import SnapshotStore
from engine.budgets import MiB
from engine.clock import SYSTEM_CLOCK, Clock
from engine.closable import Closable
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import CorruptRecordError, StateError
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, LogOffsetMetadata, Offset
from engine.writing.log_config import DAY_MS, MINUTE_MS, LogConfig
from engine.writing.scheduler import Scheduler
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """Configuration of a metadata log, with Kafka's defaults. Sizes are bytes, times are milliseconds.

    Attributes:
        segment_size, segment_ms: size and age at which the log rolls.
        retention_size, retention_ms: most bytes of log and snapshots together, and largest age of a
            snapshot; negative for no limit.
        max_batch_size: bytes of the largest batch.
        delete_delay_ms: time from the renaming of a deleted file to its removal.
    """

    segment_size: int = 1024 * MiB
    segment_ms: int = 7 * DAY_MS
    retention_size: int = 100 * MiB
    retention_ms: int = 7 * DAY_MS
    max_batch_size: int = 8 * MiB
    delete_delay_ms: int = MINUTE_MS


class Validity(NamedTuple):
    """Validity of a fetch offset and its epoch in a leader's log.

    Attributes:
        kind: "valid", "diverging" (the logs differ from `snapshot_id` on) or "snapshot" (to be
            fetched first).
        snapshot_id: offset and epoch to continue with.
    """

    kind: str
    snapshot_id: SnapshotId


class MetadataLog(Closable):
    """A metadata log with its snapshots; `open` opens one. A context manager that closes it.

    Attributes:
        log: log with the records.
        snapshots: its snapshots.
        config: its configuration.
        retention: deletes old snapshots and the records before them.
    """

    def __init__(
        self, unified: UnifiedLog, snapshots: SnapshotStore, config: MetadataLogConfig
    ) -> None:
        self.log = unified
        self.snapshots = snapshots
        self.config = config
        self.retention = SnapshotRetention(
            unified, snapshots, config.retention_size, config.retention_ms
        )

    @classmethod
    def open(
        cls,
        folder: StrPath,
        topic_id: str,
        scheduler: Scheduler,
        *,
        clock: Clock = SYSTEM_CLOCK,
        config: MetadataLogConfig | None = None,
        disk: Disk = DISK,
    ) -> Self:
        """Load the log in a folder, or create one. It is always recovered, even after a clean close.

        Snapshots that are incomplete, marked as deleted or below the log start are removed. If the
        newest is above the log end, the log is truncated to it.

        Raises:
            StateError: the log starts above 0 and no snapshot reaches that far.
            LogDirFailureError: the disk fails.
        """
        config = config or MetadataLogConfig()
        unified = UnifiedLog.create(
            folder,
            LogConfig(
                segment_size=config.segment_size,
                segment_ms=config.segment_ms,
                max_message_size=config.max_batch_size,
                retention_ms=-1,
                retention_size=-1,
                file_delete_delay_ms=MINUTE_MS,
            ),
            scheduler,
            clock=clock,
            max_transaction_timeout_ms=MAX_INT32,
            producer_state_config=ProducerStateManagerConfig(MAX_INT32),
            producer_id_expiration_check_interval_ms=MAX_INT32,
            last_shutdown_clean=False,
            topic_id=topic_id,
            disk=disk,
        )
        try:
            snapshots = SnapshotStore.recover(unified, config.delete_delay_ms, disk)
            opened = cls(unified, snapshots, config)
            opened.truncate_to_latest_snapshot()
        except BaseException:
            unified.close_handlers()
            raise
        return opened

    def close(self) -> None:
        """Close the log and the snapshots that were read. May be called twice."""
        self.log.close()
        self.snapshots.close()

    # Offsets and epochs

    @property
    def start_offset(self) -> Offset:
        """First offset: the end of the oldest snapshot."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> LogOffsetMetadata:
        """Offset of the next record, with its position."""
        return self.log.local_log.log_end_offset_metadata

    @property
    def high_watermark(self) -> Offset:
        """First uncommitted offset."""
        return self.log.high_watermark

    @property
    def last_fetched_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot that replaces it; 0 without both.

        Raises:
            StateError: there are offsets, but neither epochs nor a snapshot with the same end.
        """
        latest = self.log.leader_epoch_cache.latest_epoch
        snapshot = self.snapshots.latest
        if latest is not None or snapshot is None:
            return latest or 0
        if not snapshot.offset == self.start_offset == self.log.log_end_offset:
            raise StateError(
                f"{self.log.topic_partition} has no epoch; its newest snapshot {tuple(snapshot)} does"
                f" not end where it starts, {self.start_offset}, and ends, {self.log.log_end_offset}"
            )
        return snapshot.epoch

    def end_offset_for_epoch(self, epoch: int) -> SnapshotId:
        """Return the newest epoch not above `epoch`, with its end offset."""
        found = self.log.leader_epoch_cache.end_offset_for(epoch, self.log.log_end_offset)
        if found is None:
            return SnapshotId(self.log.log_end_offset, self.last_fetched_epoch)
        end = SnapshotId(found[1], found[0])
        earliest = self.snapshots.earliest
        if earliest is not None and end == (earliest.offset, epoch):
            return earliest
        return end

    def validate_offset_and_epoch(self, offset: Offset, epoch: int) -> Validity:
        """Return the next step of a follower whose log ends at `offset` with a record of `epoch`."""
        if self.start_offset == 0 and offset == 0:
            return Validity("valid", SnapshotId(0, 0))
        earliest, latest = self.snapshots.earliest, self.snapshots.latest
        if (
            earliest is not None
            and latest is not None
            and (
                offset < self.start_offset
                or (offset == self.start_offset and epoch != earliest.epoch)
                or epoch < earliest.epoch
            )
        ):
            return Validity("snapshot", latest)
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validity("diverging", end)
        return Validity("valid", SnapshotId(offset, epoch))

    def update_high_watermark(self, to: Offset | LogOffsetMetadata) -> None:
        """Set the high watermark, bounded by log start and log end."""
        self.log.update_high_watermark(to)

    # Records

    def append_as_leader(self, records: MemoryRecords, epoch: int) -> tuple[Offset, Offset]:
        """Append batches with assigned offsets; return the first and the last offset.

        Raises:
            ValueError: there are no bytes.
            CorruptRecordError: there is no whole batch, or one is damaged.
            InvalidOffsetError: the offsets do not continue the log end.
            RecordTooLargeError: a batch is too large.
        """
        _refuse_empty(records)
        return _offsets_of(self.log.append_as_leader(records, epoch, AppendOrigin.RAFT_LEADER))

    def append_as_follower(self, records: MemoryRecords, epoch: int) -> tuple[Offset, Offset]:
        """Append fetched batches, up to the first with an epoch above this one.

        Returns and raises as `append_as_leader` does, but batches may have any size.
        """
        _refuse_empty(records)
        return _offsets_of(self.log.append_as_follower(records, epoch))

    def read(
        self, start_offset: Offset, max_bytes: int, isolation: FetchIsolation
    ) -> FetchDataInfo:
        """Return batches from an offset on, at least one. Raises OffsetOutOfRangeError outside the log."""
        return self.log.read(start_offset, max_bytes, isolation)

    def flush(self, *, force_active_segment: bool = False) -> None:
        """Sync the records to the device."""
        self.log.flush(force_active_segment=force_active_segment)

    def truncate_to(self, offset: Offset) -> None:
        """Remove all offsets from this one on. Raises ValueError below the high watermark."""
        if offset < self.high_watermark:
            raise ValueError(
                f"{self.log.topic_partition} cannot be truncated to {offset}, below its high"
                f" watermark {self.high_watermark}"
            )
        self.log.truncate_to(offset)

    def truncate_to_latest_snapshot(self) -> bool:
        """Replace the log by the newest snapshot if the snapshot is above the log end; return whether it was."""
        latest = self.snapshots.latest
        epoch = self.log.leader_epoch_cache.latest_epoch or 0
        if latest is None or (latest.epoch, latest.offset) <= (epoch, self.log.log_end_offset):
            return False
        self.log.truncate_fully_and_start_at(latest.offset)
        self.snapshots.delete_before(latest, "the log was truncated to a newer one")
        return True

    # Snapshots

    def create_new_snapshot(self, snapshot_id: SnapshotId) -> RaftSnapshotWriter | None:
        """Return a writer of a snapshot of this log; None below the log start, or if the snapshot exists.

        Raises:
            ValueError: the id is above the high watermark, of another epoch than the log's, or inside a
                batch.
        """
        if snapshot_id.offset < self.start_offset:
            return None
        if snapshot_id.offset > self.high_watermark:
            raise ValueError(
                f"a snapshot {tuple(snapshot_id)} would be above the high watermark"
                f" {self.high_watermark}"
            )
        validity = self.validate_offset_and_epoch(*snapshot_id)
        if validity.kind != "valid":
            raise ValueError(f"a snapshot {tuple(snapshot_id)} is not one of this log: {validity}")
        fetched = self.read(snapshot_id.offset, 1, FetchIsolation.HIGH_WATERMARK)
        base = fetched.fetch_offset_metadata.offset
        if base != snapshot_id.offset:
            raise ValueError(
                f"a snapshot {tuple(snapshot_id)} would end inside the batch that starts at {base}"
            )
        return self.snapshots.create(snapshot_id)


def _refuse_empty(records: MemoryRecords) -> None:
    if not records.size:
        raise ValueError("there are no records to append")


def _offsets_of(info: LogAppendInfo) -> tuple[Offset, Offset]:
    if info.first_offset < 0:
        raise CorruptRecordError("there is no whole batch to append")
    return info.first_offset, info.last_offset
