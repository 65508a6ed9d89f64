"""Snapshots in the folder of a metadata log: recover, create, read and delete them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import Self

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.raft.raft_snapshot import (
    RaftSnapshotReader,
    RaftSnapshotWriter,
    SnapshotId,
    delete_if_exists,
    mark_for_delete,
)
from engine.disk.disk import DISK, Disk
from engine.errors import StateError
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.record.control_records import ControlRecordType, quorum_record_of
from engine.units import Offset, Timestamp
from engine.writing.scheduler import Scheduler

logger = logging.getLogger(__name__)


class _NotifyingWriter(RaftSnapshotWriter):
    on_frozen: Callable[[SnapshotId], None]

    def freeze(self) -> None:
        super().freeze()
        self.on_frozen(self.snapshot_id)


class SnapshotStore:
    """Complete snapshots of a metadata log, by age: first by epoch, then by offset.

    Safe from several threads, by one lock. `recover` makes the store of a log.

    Args:
        folder: folder of the log.
        ids: snapshots in the folder.
        scheduler: removes deleted snapshots after the delay.
        delete_delay_ms: time from the renaming of a deleted snapshot to its removal.
        disk: disk of the folder.
    """

    def __init__(
        self,
        folder: str,
        ids: Iterable[SnapshotId],
        scheduler: Scheduler,
        delete_delay_ms: int,
        disk: Disk = DISK,
    ) -> None:
        self._folder = folder
        self._scheduler = scheduler
        self._delete_delay_ms = delete_delay_ms
        self._disk = disk
        self._readers: dict[SnapshotId, RaftSnapshotReader | None] = dict.fromkeys(ids)
        self._lock = threading.RLock()

    @classmethod
    def recover(cls, log: UnifiedLog, delete_delay_ms: int, disk: Disk = DISK) -> Self:
        """Find the snapshots of a log; remove incomplete and deleted ones, and those below the log start.

        Raises:
            StateError: the log starts above 0 and no snapshot reaches that far.
            OSError: the disk fails.
        """
        kept: list[SnapshotId] = []
        unneeded: list[str] = []
        start = log.log_start_offset
        for name in disk.list(log.folder):
            parsed = parse_file_name(name)
            if parsed is None or parsed.kind is not FileKind.KRAFT_CHECKPOINT:
                continue
            if parsed.state is FileState.LIVE and (parsed.base_offset or 0) >= start:
                kept.append(SnapshotId(parsed.base_offset or 0, parsed.epoch or 0))
            else:
                unneeded.append(name)
        newest = max(kept, key=_age, default=None)
        if start > 0 and (newest is None or newest.offset < start):
            raise StateError(f"{log.topic_partition} starts at {start}, and no snapshot reaches it")
        for name in unneeded:
            disk.remove(os.path.join(log.folder, name), missing_ok=True)
            logger.info("removed the snapshot %s, which is not needed", name)
        return cls(log.folder, kept, log.log_folder.scheduler, delete_delay_ms, disk)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, snapshot_id: SnapshotId) -> bool:
        return snapshot_id in self._readers

    def ids(self) -> list[SnapshotId]:
        """Return the ids of the snapshots, oldest first."""
        with self._lock:
            return sorted(self._readers, key=_age)

    @property
    def latest(self) -> SnapshotId | None:
        """Newest snapshot."""
        return next(reversed(self.ids()), None)

    @property
    def earliest(self) -> SnapshotId | None:
        """Oldest snapshot."""
        return next(iter(self.ids()), None)

    def create(self, snapshot_id: SnapshotId) -> RaftSnapshotWriter | None:
        """Return the writer of a snapshot, which is added when frozen; None if the id exists."""
        if snapshot_id in self:
            return None
        writer = _NotifyingWriter.create(self._folder, snapshot_id, disk=self._disk)
        writer.on_frozen = self._add
        return writer

    def _add(self, snapshot_id: SnapshotId) -> None:
        with self._lock:
            self._readers[snapshot_id] = None

    def read(self, snapshot_id: SnapshotId) -> RaftSnapshotReader | None:
        """Return a snapshot, which the store closes; None without one of this id."""
        with self._lock:
            if snapshot_id not in self._readers:
                return None
            reader = self._readers[snapshot_id]
            if reader is None:
                try:
                    reader = RaftSnapshotReader.open(self._folder, snapshot_id, disk=self._disk)
                except FileNotFoundError:
                    logger.warning("the snapshot %s is gone from %s", snapshot_id, self._folder)
                    del self._readers[snapshot_id]
                    return None
                self._readers[snapshot_id] = reader
            return reader

    def sizes(self) -> dict[SnapshotId, int]:
        """Return the size of each snapshot in bytes."""
        readers = {each: self.read(each) for each in self.ids()}
        return {each: reader.size for each, reader in readers.items() if reader is not None}

    def last_timestamp(self, snapshot_id: SnapshotId) -> Timestamp | None:
        """Return the timestamp of the last record that a snapshot covers; None without the snapshot.

        Raises:
            StateError: the snapshot has no header.
        """
        reader = self.read(snapshot_id)
        if reader is None:
            return None
        for batch in reader.records.batches():
            if not batch.is_control:
                break
            kind = ControlRecordType.SNAPSHOT_HEADER
            header = quorum_record_of(kind, next(iter(batch.records())))
            timestamp: Timestamp = header["lastContainedLogTimestamp"]
            return timestamp
        raise StateError(f"the snapshot {tuple(snapshot_id)} has no header")

    def delete_before(self, snapshot_id: SnapshotId, reason: str) -> bool:
        """Rename the snapshots older than one, for later removal; return whether there were any."""
        with self._lock:
            older = [each for each in self._readers if _age(each) < _age(snapshot_id)]
            deleted = {each: self._readers.pop(each) for each in older}
        for each in deleted:
            logger.info("the snapshot %s goes: %s", tuple(each), reason)
            mark_for_delete(self._folder, each, disk=self._disk)

        def remove() -> None:
            for each, reader in deleted.items():
                if reader is not None:
                    reader.close()
                delete_if_exists(self._folder, each, disk=self._disk)

        if deleted:
            self._scheduler.schedule("delete-snapshot-files", remove, self._delete_delay_ms)
        return bool(deleted)

    def close(self) -> None:
        """Close the snapshots that were read, and forget all. May be called twice."""
        with self._lock:
            for reader in self._readers.values():
                if reader is not None:
                    reader.close()
            self._readers.clear()


def _age(snapshot_id: SnapshotId) -> tuple[int, Offset]:
    return snapshot_id.epoch, snapshot_id.offset
