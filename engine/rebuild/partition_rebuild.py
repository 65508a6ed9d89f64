"""Rebuild one partition, in this process or in another one: what it takes and what it returns can be sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeAlias

from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.disk.disk import Disk
from engine.errors import DamagedFileError, KafkaStorageError
from engine.files.file_names import PARTITION_METADATA, FileKind
from engine.files.read_failures import failure_text
from engine.log.log_directory import Unread
from engine.log.segment.problems import ProblemEntry
from engine.plan.loading.java_text import offset_in_name
from engine.rebuild.beside.known_facts import KnownFacts
from engine.rebuild.beside.new_checkpoints import CheckpointEntries
from engine.rebuild.broker_mode import load_as_broker, refuse_oversized
from engine.rebuild.errors import CopyUnreadableError, RebuildFailedError
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.planning import PlannedLog, plan_log
from engine.rebuild.report import Json, broker_report, log_report
from engine.rebuild.selection import Chosen, LeftOut
from engine.rebuild.target.records_files import RecordsFiles, WrittenFile
from engine.rebuild.target.staging import sync_tree
from engine.rebuild.writing import loaded_without_writing, write_log

Advance: TypeAlias = Callable[[str, int], None]
"""Callback for progress: the kind ("read", "written", "verified") and the number of bytes."""

_SECONDS = 0.1
"""Seconds between two messages about progress to the parent process."""


@dataclass(slots=True)
class PartitionResult:
    """What a partition adds to the result.

    Attributes:
        reports: its report, if it is in the result.
        left_out: its path and the reason, if it is left out.
        lost_something: whether records may be lost that the user wanted.
        unread: files of the source that could not be copied.
        unread_partitions: its name, if it could not be read.
        not_loaded: why a broker does not load it.
        written: its records files by relative path.
        checkpoints: its entries.
        problems: those of each of its copies, if another process found them.
    """

    reports: list[Json] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    lost_something: bool = False
    unread: list[Unread] = field(default_factory=list)
    unread_partitions: list[str] = field(default_factory=list)
    not_loaded: list[str] = field(default_factory=list)
    written: dict[str, WrittenFile] = field(default_factory=dict)
    checkpoints: list[CheckpointEntries] = field(default_factory=list)
    problems: list[list[ProblemEntry]] = field(default_factory=list)

    def leave_out(self, chosen: Chosen, reason: str) -> None:
        """Leave out a requested partition."""
        log = chosen.copies[0]
        self.left_out.append(LeftOut(log.root.display(log.folder), reason, is_loss=True))
        self.lost_something = True

    def leave_out_unread(self, chosen: Chosen, error: Exception) -> None:
        """Leave out a partition that cannot be read."""
        self.leave_out(chosen, f"it cannot be read: {failure_text(error)}")
        self.unread_partitions.append(str(chosen.partition))


def size_of(chosen: Chosen) -> int:
    """Return the bytes of a partition's records files as far as they can be listed."""
    size = 0
    for log in chosen.copies:
        with suppress(OSError, KafkaStorageError):
            size += log.view().size
        log.forget()
    return size


class SummedProgress:
    """Progress in another process: passes the sums on now and then. Safe from several threads."""

    def __init__(self, note: Callable[[tuple[str, int]], None]) -> None:
        self._note = note
        self._sums: dict[str, int] = {}
        self._sent = monotonic()
        self._lock = threading.Lock()

    def __call__(self, kind: str, count: int) -> None:
        """Count bytes."""
        with self._lock:
            self._sums[kind] = self._sums.get(kind, 0) + count
            if monotonic() - self._sent > _SECONDS:
                self._send()

    def send(self) -> None:
        """Pass on what was not passed on."""
        with self._lock:
            self._send()

    def _send(self) -> None:
        for each in self._sums.items():
            self._note(each)
        self._sums.clear()
        self._sent = monotonic()


class PartitionRebuild:
    """Rebuilds partitions, one by one.

    Args:
        log_dir: log dir to write to; None to write nothing.
        options: options of the rebuild.
        disk: disk to write with.
        facts: facts of all the sources.
    """

    def __init__(
        self, log_dir: str | None, options: RebuildOptions, disk: Disk, facts: KnownFacts
    ) -> None:
        self._log_dir = log_dir
        self._facts = facts
        self._options = options
        self._disk = disk
        # A folder is synced once; loading would sync each file several times.
        self._unsynced_disk = disk.without_syncs()

    def run(self, chosen: Chosen, advance: Advance, threads: int) -> PartitionResult:
        """Rebuild a partition; its folder is synced on return.

        Args:
            chosen: partition and its copies.
            advance: called with progress.
            threads: number of records files at a time.

        Raises:
            OSError: the disk fails.
        """
        result = PartitionResult()
        if self._log_dir is None:
            planned = self._plan(chosen, advance, result)
            if planned is not None:
                has_transactions = planned.has_transactions
                loaded = loaded_without_writing(planned.log, has_transactions=has_transactions)
                result.reports.append(log_report(planned, loaded))
                result.lost_something |= planned.lost_something
        elif self._options.mode is Mode.BROKER:
            self._write_as_broker(chosen, self._log_dir, advance, result)
        else:
            self._write_salvaged(chosen, self._log_dir, advance, threads, result)
        for log in chosen.copies:
            log.forget()
        return result

    def run_apart(self, chosen: Chosen, advance: Advance, threads: int) -> PartitionResult:
        """Rebuild a partition in a process other than the caller's: the result has its problems."""
        result = self.run(chosen, advance, threads)
        result.problems = [log.problems.entries() for log in chosen.copies]
        return result

    def _plan(self, chosen: Chosen, advance: Advance, result: PartitionResult) -> PlannedLog | None:
        """Return the plan of a partition's log; None if it cannot be read and is left out."""
        try:
            planned = plan_log(chosen, self._options, partial(advance, "read"), self._facts)
        except (OSError, DamagedFileError) as error:
            result.leave_out_unread(chosen, error)
            return None
        result.left_out += planned.left_out
        return planned

    def _write_salvaged(
        self,
        chosen: Chosen,
        log_dir: str,
        advance: Advance,
        threads: int,
        result: PartitionResult,
    ) -> None:
        planned = self._plan(chosen, advance, result)
        if planned is None:
            return
        new = planned.log
        name = str(new.partition)
        folder = os.path.join(log_dir, name)
        written = partial(advance, "written")
        try:
            with RecordsFiles(self._unsynced_disk, written, threads) as records:
                loaded = write_log(log_dir, new, self._unsynced_disk, records)
                sync_tree(folder, self._disk, self._options.owner)
                result.written = {
                    os.path.join(name, file): each for file, each in records.written().items()
                }
        except RebuildFailedError as error:
            self._disk.remove_tree(folder)
            result.leave_out(chosen, str(error))
            return
        result.reports.append(log_report(planned, loaded))
        result.lost_something |= planned.lost_something
        result.checkpoints.append(
            CheckpointEntries(
                new.partition,
                loaded.log_start_offset,
                loaded.log_end_offset,
                new.segments[0].base_offset,
                planned.high_watermark,
                planned.cleaner_offset,
            )
        )

    def _write_as_broker(
        self, chosen: Chosen, log_dir: str, advance: Advance, result: PartitionResult
    ) -> None:
        log = chosen.copies[0]
        checkpoints, source = log.checkpoints, log.topic_partition
        folder = os.path.join(log_dir, str(chosen.partition))
        clean = self._options.clean
        if clean is None:
            clean = checkpoints.stopped_cleanly()
        try:
            refuse_oversized(chosen)
            written = partial(advance, "written")
            loaded = load_as_broker(chosen, log_dir, clean, self._unsynced_disk, written)
        except (CopyUnreadableError, RebuildFailedError) as failure:
            if isinstance(failure, CopyUnreadableError):
                result.unread.append(Unread.of(failure.path, failure.error))
                result.leave_out_unread(chosen, failure)
            else:
                result.not_loaded.append(f"{log.name}: {failure}")
                result.leave_out(chosen, str(failure))
            if self._disk.exists(folder):
                self._disk.remove_tree(folder)
            return
        result.unread += [Unread.of(each.path, each.error) for each in loaded.unread]
        topic_id = self._options.topic_ids.get(chosen.partition.topic)
        if topic_id is not None:
            path = os.path.join(folder, PARTITION_METADATA)
            data = render_partition_metadata(PartitionMetadata(0, topic_id))
            self._disk.replace_atomically(path, data)
        sync_tree(folder, self._disk, self._options.owner)
        result.reports.append(broker_report(chosen, loaded, clean))
        result.lost_something |= loaded.log_end_offset < loaded.end_before
        names = self._disk.list(folder)
        bases = [offset_in_name(name) for name in names if name.endswith(FileKind.LOG.value)]
        result.checkpoints.append(
            CheckpointEntries(
                chosen.partition,
                loaded.log_start_offset,
                loaded.log_end_offset,
                min((base for base in bases if base is not None), default=0),
                checkpoints.high_watermark(source),
                checkpoints.cleaner_offset(source),
            )
        )
