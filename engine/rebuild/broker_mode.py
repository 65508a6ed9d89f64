"""Load a copy of a log dir as a broker does when it starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

from engine.disk.disk import Disk
from engine.files.file_names import FileKind, FileState, FolderState, parse_file_name
from engine.log.partition_log import PartitionLog
from engine.log.view.proven_end import proven_end
from engine.plan.loading.broker_failure import EXPECTED, failure_of
from engine.plan.loading.broker_loading import BrokerLoading, LogToLoad
from engine.plan.loading.broker_producers import SNAPSHOT_LIMIT
from engine.plan.loading.broker_segments import TRANSACTIONS_LIMIT
from engine.plan.loading.broker_steps import BROKER_RULES
from engine.plan.loading.java_text import TEXT_LIMIT
from engine.rebuild.errors import CopyUnreadableError, RebuildFailedError
from engine.rebuild.selection import Chosen
from engine.rebuild.target.records_files import CHUNK
from engine.rebuild.writing import LOADED, NOBODY_EXPIRES, OPEN_FILES
from engine.units import MAX_INT32, Offset

_RECREATED = (".index", ".timeindex", ".txnindex", ".snapshot")
"""Files that a broker recreates from the records if they are missing."""
_LARGEST = {
    FileKind.OFFSET_INDEX: MAX_INT32,
    FileKind.TIME_INDEX: MAX_INT32,
    FileKind.TRANSACTION_INDEX: TRANSACTIONS_LIMIT,
    FileKind.PRODUCER_SNAPSHOT: SNAPSHOT_LIMIT,
    FileKind.LEADER_EPOCH_CHECKPOINT: TEXT_LIMIT,
    FileKind.PARTITION_METADATA: TEXT_LIMIT,
}
"""Most bytes that the loading reads of each file beside the records."""


class BrokerLoaded(NamedTuple):
    """A log as a broker leaves it, and the changes to the copied files.

    Attributes:
        log_start_offset, log_end_offset: offsets after the loading.
        end_before: log end before the loading, by its batches and further proofs.
        removed: names of removed files.
        changed: names of resized records files, with the sizes before and after.
        unread: files that could not be copied and were recreated.
    """

    log_start_offset: Offset
    log_end_offset: Offset
    end_before: Offset
    removed: list[str]
    changed: list[tuple[str, int, int]]
    unread: list[CopyUnreadableError]


def refuse_oversized(chosen: Chosen) -> None:
    """Raise RebuildFailedError for a file larger than a broker allows, before anything is copied."""
    log = chosen.copies[0]
    with contextlib.suppress(OSError):  # reported when the folder is copied
        for name in log.root.list_apart(log.folder)[0]:
            parsed = parse_file_name(name)
            if parsed is None or parsed.state is not FileState.LIVE:
                continue
            path = f"{log.folder}/{name}" if log.folder else name
            size = log.root.stat(path).st_size
            if parsed.kind is FileKind.LOG and size > MAX_INT32:
                raise RebuildFailedError(
                    f"a broker ends with KafkaException: {log.root.display(path)} has"
                    f" {size} bytes, more than the {MAX_INT32} that a segment may have;"
                    " --mode salvage keeps the good batches"
                )
            limit = _LARGEST.get(parsed.kind)
            if limit is not None and size > limit:
                raise RebuildFailedError(
                    f"{log.root.display(path)} has {size} bytes, more than the {limit} that"
                    " are copied and loaded here; --mode salvage recreates the file"
                )


def load_as_broker(
    chosen: Chosen, log_dir: str, clean: bool, disk: Disk, advance: Callable[[int], None]
) -> BrokerLoaded:
    """Copy a partition's folder into a log dir, and load the copy as a broker does.

    Args:
        chosen: partition to copy.
        log_dir: log dir to create the folder in.
        clean: whether to assume a clean stop.
        disk: disk to write with.
        advance: called with the number of bytes copied.

    Raises:
        CopyUnreadableError: the source cannot be read; part of the folder may exist.
        OSError: the disk fails.
        RebuildFailedError: a broker would not load the log.
    """
    log = chosen.copies[0]
    try:
        view = log.view()
        end = proven_end(view, view.log_end_offset).offset
    except OSError as error:
        path = error.filename or log.root.display(log.folder)
        raise CopyUnreadableError(path, error) from error
    folder = os.path.join(log_dir, str(chosen.partition))
    disk.make_folder(folder)
    before, unread = {}, []
    for name in log.root.list_apart(log.folder)[0]:
        try:
            before[name] = copy_file(log, name, os.path.join(folder, name), disk, advance)
        except CopyUnreadableError as failure:
            if not name.endswith(_RECREATED):
                raise
            disk.remove(os.path.join(folder, name), missing_ok=True)
            unread.append(failure)
    loaded = _load(chosen, folder, clean, disk)
    after = {name: disk.size(os.path.join(folder, name)) for name in disk.list(folder)}
    cut = [
        (name, size, after[name])
        for name, size in sorted(before.items())
        if name.endswith(".log") and name in after and after[name] != size
    ]
    removed = sorted(before.keys() - after.keys())
    return BrokerLoaded(*loaded, end, removed, cut, unread)


def copy_file(
    log: PartitionLog, name: str, path: str, disk: Disk, advance: Callable[[int], None]
) -> int:
    """Copy a file of a partition's folder, holes as holes; return the number of bytes.

    Raises CopyUnreadableError, or OSError of the target.
    """
    position = 0
    relative = f"{log.folder}/{name}" if log.folder else name

    def chunk() -> bytes:
        try:
            return source.read_at(position, CHUNK)
        except OSError as error:
            raise CopyUnreadableError(source.path, error) from error

    try:
        source = log.root.open_fresh(relative)
    except OSError as error:
        raise CopyUnreadableError(log.root.display(relative), error) from error
    with source, disk.open(path, exclusive=True) as file:
        while data := chunk():
            if data.count(0) < len(data):
                file.write_at(position, data)
            position += len(data)
            advance(len(data))
        if file.size() < position:
            file.truncate(position)
        file.sync()
    return position


def _load(chosen: Chosen, folder: str, clean: bool, disk: Disk) -> tuple[Offset, Offset]:
    """Return the log start and the log end."""
    log = chosen.copies[0]
    source = log.topic_partition
    copy = LogToLoad(
        log.root,
        log.folder,
        folder,
        chosen.partition,
        FolderState.LOG,
        clean,
        max(log.checkpoints.recovery_point(source) or 0, 0),
        max(log.checkpoints.log_start_offset(source) or 0, 0),
    )
    few = disk.with_few_files(OPEN_FILES)
    loading = BrokerLoading(copy, BROKER_RULES, few, config=LOADED, producer_config=NOBODY_EXPIRES)
    try:
        offsets = loading.load()
        loading.tasks.run()
        loading.segments.close()
    except OSError:
        raise
    except EXPECTED as error:
        failure = failure_of(error)
        reason = failure.reason.replace(folder, log.root.display(log.folder))
        raise RebuildFailedError(
            f"a broker ends with {failure.java or 'an error'}: {reason};"
            " --mode salvage keeps the good batches"
        ) from error
    finally:
        loading.close()
    for name in disk.list(folder):
        if name.endswith(FileState.DELETED.value):
            disk.remove(os.path.join(folder, name))
    return offsets.log_start_offset, offsets.next_offset_metadata.offset
