"""Write a partition's folder: its records files, and by loading it as a broker does, all other files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.disk.disk import Disk
from engine.errors import KafkaStorageError
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, log_file_name
from engine.log.view.transactions import TransactionState
from engine.rebuild.assembly.layout import NewSegment
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.target.records_files import RecordsFiles
from engine.units import MAX_INT64, EpochEntry, Offset, TopicPartition
from engine.writing.log.loaded_log import LoadedLog, load_log
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import DeferredScheduler
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig

# Compacted, so that an empty last segment stays, whatever the gap before it.
LOADED = LogConfig(compact=True)
OPEN_FILES = 64
"""Most descriptors of a loading, whatever the number of segments."""
NOBODY_EXPIRES = ProducerStateManagerConfig(producer_id_expiration_ms=MAX_INT64)
"""Expiration that keeps all producers, so that a result does not depend on the date; a broker drops
old ones when it starts.
"""


class UnendedTransaction(NamedTuple):
    """A transaction without an end in the log."""

    producer_id: int
    producer_epoch: int
    first_offset: Offset


class Loaded(NamedTuple):
    """A log as its loading found it."""

    log_start_offset: Offset
    log_end_offset: Offset
    last_stable_offset: Offset
    open_transactions: list[UnendedTransaction]


class RebuiltLog(NamedTuple):
    """A partition's log to write.

    Attributes:
        partition: topic and partition.
        segments: in order of base offsets.
        log_start_offset, log_end_offset: offsets that readers should see.
        epochs: leader epochs.
        topic_id: topic id in base64; None to leave partition.metadata out.
        files: further files by name.
    """

    partition: TopicPartition
    segments: Sequence[NewSegment]
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: Sequence[EpochEntry]
    topic_id: str | None
    files: dict[str, bytes]


def write_log(log_dir: str, new: RebuiltLog, disk: Disk, records: RecordsFiles) -> Loaded:
    """Write a partition's folder into a log dir, and load it once, which writes its indexes and snapshots.

    Raises:
        OSError: a source cannot be read or the disk fails.
        RebuildFailedError: the loaded log is not the written one.
    """
    folder = os.path.join(log_dir, str(new.partition))
    disk.make_folder(folder)
    records.write(
        [
            (os.path.join(folder, log_file_name(segment.base_offset)), segment.pieces)
            for segment in new.segments
        ]
    )
    files = dict(new.files)
    if new.topic_id is not None:
        files[PARTITION_METADATA] = render_partition_metadata(PartitionMetadata(0, new.topic_id))
    if new.epochs:
        files[LEADER_EPOCH_CHECKPOINT] = render(new.epochs)
    for name, data in files.items():
        write_file(os.path.join(folder, name), data, disk)
    loaded = load_and_close(folder, disk, new.log_start_offset)
    _check(folder, new, loaded, disk)
    return loaded


def loaded_without_writing(new: RebuiltLog, *, has_transactions: bool) -> Loaded:
    """Return the expected result of loading a log, from its batches.

    Raises:
        OSError: a source cannot be read.
    """
    state = TransactionState()
    for segment in new.segments if has_transactions else ():
        for piece in segment.pieces:
            for run in piece.runs():
                state.apply(run)
                del (
                    run
                )  # free it before the next one is read: a batch may be as large as the budget
    ongoing = [UnendedTransaction(*each) for each in state.ongoing]
    stable = min((each.first_offset for each in ongoing), default=new.log_end_offset)
    return Loaded(new.log_start_offset, new.log_end_offset, stable, ongoing)


def write_file(path: str, data: bytes, disk: Disk) -> None:
    """Write a small new file."""
    with disk.open(path, exclusive=True) as file:
        if data:
            file.write_at(0, data)
        file.sync()


def load_and_close(
    folder: str, disk: Disk, log_start_offset: Offset, *, is_clean: bool = False
) -> Loaded:
    """Load a log, which writes the missing files beside its records, and close it cleanly.

    Args:
        folder: folder of the log.
        disk: disk to write with.
        log_start_offset: first offset that readers should see.
        is_clean: whether its segments and indexes are known to be valid; otherwise all are
            recovered, as after a crash.

    Raises:
        OSError: the disk fails.
        RebuildFailedError: a broker would not load the log.
    """
    later = DeferredScheduler()
    disk = disk.with_few_files(OPEN_FILES)
    loaded: LoadedLog | None = None
    try:
        loaded = load_log(
            folder,
            LOADED,
            later,
            log_start_offset=log_start_offset,
            producer_state_config=NOBODY_EXPIRES,
            last_shutdown_clean=is_clean,
            disk=disk,
        )
        for segment in loaded.segments.values(
            loaded.offsets.recovery_point, loaded.offsets.next_offset_metadata.offset + 1
        ):
            segment.flush()
        loaded.folder.sync()
        later.run()
        facts = _facts(loaded)
        loaded.producers.take_snapshot()
        # A log without snapshots that was closed cleanly counts as one without producers.
        loaded.folder.sync()
        loaded.segments.close()
    except OSError as error:
        cause = error.__cause__
        raise (cause if isinstance(cause, OSError) else error) from None
    except (KafkaStorageError, ValueError, LookupError, OverflowError) as error:
        raise RebuildFailedError(
            f"a broker does not load {os.path.basename(folder)}: {error}"
        ) from error
    finally:
        for segment in loaded.segments if loaded is not None else ():
            with contextlib.suppress(OSError, ValueError, KafkaStorageError):
                segment.close_handlers()
    return facts


def _facts(log: LoadedLog) -> Loaded:
    ongoing = [
        UnendedTransaction(entry.producer_id, entry.producer_epoch, entry.current_txn_first_offset)
        for entry in log.producers.active_producers.values()
        if entry.current_txn_first_offset is not None
    ]
    ongoing.sort(key=lambda each: each.first_offset)
    end = log.offsets.next_offset_metadata.offset
    stable = min((each.first_offset for each in ongoing), default=end)
    start = max(log.offsets.log_start_offset, next(iter(log.segments)).base_offset)
    return Loaded(start, end, stable, ongoing)


def _check(folder: str, new: RebuiltLog, loaded: Loaded, disk: Disk) -> None:
    """Check that loading has removed and added nothing."""
    wanted = {log_file_name(segment.base_offset): segment.size for segment in new.segments}
    found = {
        name: disk.size(os.path.join(folder, name))
        for name in disk.list(folder)
        if name.endswith(".log")
    }
    if wanted != found or loaded.log_end_offset != new.log_end_offset:
        raise RebuildFailedError(
            f"a broker would change the new log: {_changes(wanted, found)} it would end at"
            f" {loaded.log_end_offset} instead of {new.log_end_offset}"
        )
    if loaded.log_start_offset != new.log_start_offset:
        raise RebuildFailedError(
            f"the new log would start at {loaded.log_start_offset}"
            f" instead of {new.log_start_offset}"
        )


def _changes(wanted: Mapping[str, int], found: Mapping[str, int]) -> str:
    """Return which records files would have another size than they were written with."""
    return "".join(
        f"{name} would have {found.get(name, 0)} bytes instead of {wanted.get(name, 0)},"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    )
