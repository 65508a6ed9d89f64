"""The four files of a segment: paths, suffixes, deletion."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable

from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import KafkaStorageError
from engine.files.file_names import (
    FileState,
    log_file_name,
    offset_index_name,
    time_index_name,
    transaction_index_name,
)
from engine.record.log_input_stream import Walk, walk_batches
from engine.units import Offset, Timestamp
from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.writable_file_records import WritableFileRecords

logger = logging.getLogger(__name__)

FAILURES = (OSError, ValueError, KafkaStorageError)
"""Errors of work on files: of the disk, of a closed file, of its content."""

_FUTURE_FOLDER = re.compile(r"(\S+)-(\S+)\.(\S+)-future")


def log_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Return the path of a segment's records file; the suffix is that of a `FileState`."""
    return os.path.join(folder, log_file_name(base_offset, FileState(suffix)))


def offset_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Return the path of a segment's offset index."""
    return os.path.join(folder, offset_index_name(base_offset, FileState(suffix)))


def time_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Return the path of a segment's time index."""
    return os.path.join(folder, time_index_name(base_offset, FileState(suffix)))


def transaction_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Return the path of a segment's transaction index."""
    return os.path.join(folder, transaction_index_name(base_offset, FileState(suffix)))


def delete_files_if_exist(
    folder: StrPath, base_offset: Offset, suffix: str = "", *, disk: Disk = DISK
) -> list[str]:
    """Remove the files of a segment that is not open, the records last; return the paths that existed."""
    kinds = (offset_index_path, time_index_path, transaction_index_path, log_path)
    paths = [path_of(folder, base_offset, suffix) for path_of in kinds]
    return [path for path in paths if disk.remove(path, missing_ok=True)]


class WritableSegmentFiles:
    """Open records file and indexes of a segment; the offset and time index are opened at their first use.

    Attributes:
        records: records file.
        offset_index, time_index: lazy indexes.
        txn_index: transaction index; its file exists once there is an entry.
        disk: disk of the files.
    """

    __slots__ = ("disk", "offset_index", "records", "time_index", "txn_index")

    def __init__(
        self,
        records: WritableFileRecords,
        offset_index: LazyWritableIndex[WritableOffsetIndex],
        time_index: LazyWritableIndex[WritableTimeIndex],
        txn_index: WritableTransactionIndex,
        disk: Disk = DISK,
    ) -> None:
        self.records = records
        self.offset_index = offset_index
        self.time_index = time_index
        self.txn_index = txn_index
        self.disk = disk

    @classmethod
    def open(
        cls,
        folder: StrPath,
        base_offset: Offset,
        max_index_size: int,
        *,
        suffix: str = "",
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
        disk: Disk = DISK,
        walk: Walk = walk_batches,
    ) -> WritableSegmentFiles:
        """Open the files in a folder; a missing records file is created. See `WritableSegment.open`."""
        return cls(
            WritableFileRecords.open(
                log_path(folder, base_offset, suffix),
                file_already_exists=file_already_exists,
                init_file_size=init_file_size,
                preallocate=preallocate,
                disk=disk,
                walk=walk,
            ),
            LazyWritableIndex(
                WritableOffsetIndex,
                offset_index_path(folder, base_offset, suffix),
                base_offset,
                max_index_size,
                disk=disk,
            ),
            LazyWritableIndex(
                WritableTimeIndex,
                time_index_path(folder, base_offset, suffix),
                base_offset,
                max_index_size,
                disk=disk,
            ),
            WritableTransactionIndex(
                base_offset, transaction_index_path(folder, base_offset, suffix), disk=disk
            ),
            disk,
        )

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Current paths of records, offset index, time index and transaction index; a file may not exist."""
        return (
            self.records.path,
            self.offset_index.path,
            self.time_index.path,
            self.txn_index.path,
        )

    @property
    def last_modified(self) -> Timestamp:
        """Modification time of the records file, 0 without the file."""
        try:
            return self.disk.mtime_ms(self.records.path)
        except FileNotFoundError:
            return 0

    def set_last_modified(self, milliseconds: Timestamp) -> None:
        """Set the modification time of the records and of the offset and time index."""
        for path in self.paths[:3]:
            self.disk.set_mtime_ms(path, milliseconds)

    def flush(self) -> None:
        """Sync records and indexes to the device."""
        self.records.flush()
        self.offset_index.get().flush()
        self.time_index.get().flush()
        self.txn_index.flush()

    def close(self) -> None:
        """Flush and close all files, also if one fails; then raise the first error."""
        do_all(
            (
                self.offset_index.close,
                self.time_index.close,
                self.records.close,
                self.txn_index.close,
            )
        )

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        for close in (
            self.offset_index.close_handler,
            self.time_index.close_handler,
            self.records.close_handlers,
            self.txn_index.close,
        ):
            try:
                close()
            except FAILURES as error:
                logger.warning("cannot close a file of %s: %s", self.records.path, error)

    def update_parent_dir(self, folder: StrPath) -> None:
        """Update the paths after the folder was renamed."""
        self.records.update_parent_dir(folder)
        self.offset_index.update_parent_dir(folder)
        self.time_index.update_parent_dir(folder)
        self.txn_index.update_parent_dir(folder)

    def has_suffix(self, suffix: str) -> bool:
        """Return whether the names of all files end with a suffix."""
        return all(path.endswith(suffix) for path in self.paths)

    def change_suffixes(self, old: str, new: str) -> None:
        """Rename the files, the records first.

        Raises:
            ValueError: a name does not end with the old suffix.
        """
        renamed = [replace_suffix(path, old, new) for path in self.paths]
        self.records.rename_to(renamed[0])
        self.offset_index.rename_to(renamed[1])
        self.time_index.rename_to(renamed[2])
        self.txn_index.rename_to(renamed[3])

    def delete_if_exists(self) -> None:
        """Close and remove the files, also if one fails; then raise the first error."""
        records, offset_index, time_index, txn_index = self.paths
        do_all(
            (
                lambda: self._delete("log", records, self.records.delete_if_exists),
                lambda: self._delete(
                    "offset index", offset_index, self.offset_index.delete_if_exists
                ),
                lambda: self._delete("time index", time_index, self.time_index.delete_if_exists),
                lambda: self._delete(
                    "transaction index", txn_index, self.txn_index.delete_if_exists
                ),
            )
        )

    def _delete(self, kind: str, path: str, delete: Callable[[], bool]) -> None:
        may_be_missing = kind == "transaction index"
        delete_or_fall_back(kind, path, delete, may_be_missing=may_be_missing, disk=self.disk)

    @property
    def are_deleted(self) -> bool:
        """Whether none of the files exists."""
        return not any(map(self.disk.exists, self.paths))


def replace_suffix(path: str, old: str, new: str) -> str:
    """Return a path with another suffix. Raises ValueError unless it ends with the old one."""
    if not path.endswith(old):
        raise ValueError(f"{path} does not end with {old}")
    return path[: len(path) - len(old)] + new


def delete_or_fall_back(
    kind: str,
    path: str,
    delete: Callable[[], bool],
    *,
    may_be_missing: bool = False,
    disk: Disk = DISK,
) -> None:
    """Remove one file of a segment, also if its folder was renamed meanwhile.

    The folder of a future log loses its suffix when the log replaces another one, perhaps after the
    deletion was scheduled; then a file marked as deleted is removed from the renamed folder.

    Raises:
        OSError: the file cannot be removed; the message names it.
    """
    try:
        if delete():
            logger.info("deleted the %s %s", kind, path)
            return
        if not may_be_missing:
            logger.info("there was no %s %s to delete", kind, path)
        folder, name = os.path.split(path)
        match = _FUTURE_FOLDER.fullmatch(folder)
        if match is not None and name.endswith(FileState.DELETED.value):
            fallback = os.path.join(f"{match[1]}-{match[2]}", name)
            if disk.remove(fallback, missing_ok=True):
                logger.info("deleted the %s %s in its renamed folder", kind, fallback)
    except OSError as error:
        error.add_note(f"deleting the {kind} {path}")
        raise


def do_all(actions: Iterable[Callable[[], object]]) -> None:
    """Call each action, also if some fail; then raise the first error with the others as notes."""
    first: Exception | None = None
    for action in actions:
        try:
            action()
        except FAILURES as error:
            if first is None:
                first = error
            else:
                first.add_note(f"and then: {error!r}")
    if first is not None:
        raise first
