"""Commit of a job: assemble the parts of successful tasks into a log dir, and load each log once.

Segments are moved, not copied. When offsets are assigned and a partition comes from several tasks, the base
offsets of its batches are changed in place: no checksum covers them, and indexes are relative to the segment.
"""

from __future__ import annotations

import datetime
import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from engine.checkpoint.base64_uuid import random_uuid
from engine.checkpoint.leader_epoch_checkpoint import render
from engine.checkpoint.meta_properties import MetaProperties, MetaPropertiesVersion
from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.checkpoint.properties_file import render_properties
from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import DISK, Disk
from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    SPARK_MANIFEST,
    log_file_name,
    offset_index_name,
    time_index_name,
)
from engine.index import offset_index, time_index
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.target.staging import sync_tree
from engine.rebuild.writing import load_and_close, write_file
from engine.record.attributes import TimestampType
from engine.record.encoding.batch_encoding import BATCH_OVERHEAD, encode_empty_batch
from engine.units import (
    MAX_INT32,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    EpochEntry,
    Offset,
    TopicPartition,
)
from kafkafs.spark.sink.frame_columns import RecordError
from kafkafs.spark.sink.job_folder import JobFolder
from kafkafs.spark.sink.moved_batches import (
    move_batches,
    move_index_entries,
)
from kafkafs.spark.sink.part_writer import WrittenPart
from kafkafs.spark.sink.task_writer import TaskOutput
from kafkafs.spark.sink.write_options import WriteOptions

FORMAT = 1
_THREADS = 4
_FILES = (log_file_name, offset_index_name, time_index_name)

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class AssembledLog:
    """Log of a partition during assembly.

    Attributes:
        partition: topic and number.
        start, end: log start and log end offset.
        parts: parts in the order of their offsets, each with a shift to add to its offsets.
        epochs: leader epochs.
        bases: base offsets of segments.
    """

    partition: TopicPartition
    start: Offset
    end: Offset
    parts: list[tuple[WrittenPart, int]] = field(default_factory=list)
    epochs: list[EpochEntry] = field(default_factory=list)
    bases: list[Offset] = field(default_factory=list)

    @property
    def records_end(self) -> Offset:
        """One past the last record's offset."""
        if not self.parts:
            return self.start
        part, shift = self.parts[-1]
        return part.next_offset + shift


def commit(
    job: JobFolder,
    outputs: Iterable[TaskOutput],
    options: WriteOptions,
    *,
    keeps_offsets: bool,
    disk: Disk = DISK,
    threads: int = _THREADS,
) -> Json:
    """Make the log dir of a job and rename it to its target; return its manifest.

    Args:
        job: folder of the job.
        outputs: outputs of the successful attempts, one for each task.
        options: options of the job.
        keeps_offsets: whether records kept their offsets.
        disk: writes the files.
        threads: number of threads that assemble logs.

    Raises:
        RecordError: an offset was written twice, or is outside the log's bounds; or there is no row.
        RebuildFailedError: a log does not load.
        OSError: the disk fails; there is no target.
    """
    logs = plan_logs(outputs, options, keeps_offsets=keeps_offsets)
    if not logs and not options.allow_empty:
        raise RecordError(
            "the frame has no rows, so the log dir would have no partition; allowEmpty=true makes it anyway"
        )
    topic_ids = {log.partition.topic: "" for log in logs}
    for topic in topic_ids:
        topic_ids[topic] = options.topic_ids.get(topic) or random_uuid()
    disk.make_new_folder(job.log_dir)

    def build(log: AssembledLog) -> None:
        _build(job, log, topic_ids[log.partition.topic], disk)

    with ThreadPoolExecutor(threads, thread_name_prefix="commit") as pool:
        list(pool.map(build, logs))
    manifest = _manifest(job, logs, topic_ids)
    for name, data in _root_files(logs, options, manifest).items():
        write_file(os.path.join(job.log_dir, name), data, disk)
    sync_tree(job.log_dir, disk)
    job.publish(disk)
    job.discard(disk)
    return manifest


def read_manifest(log_dir: str, disk: Disk = DISK) -> Json:
    """Read the manifest of a log dir of this sink: `topicIds`, and `partitions` with bounds, records and bytes.

    Raises:
        OSError: there is no manifest, or it cannot be read.
    """
    found: Json = json.loads(disk.read(os.path.join(log_dir, SPARK_MANIFEST)))
    return found


# -- plan


def plan_logs(
    outputs: Iterable[TaskOutput], options: WriteOptions, *, keeps_offsets: bool
) -> list[AssembledLog]:
    """Return the logs of the parts, sorted by partition. Raises RecordError where offsets contradict each other."""
    parts: dict[TopicPartition, list[WrittenPart]] = {}
    for output in sorted(outputs, key=lambda each: each.task):
        for part in output.parts:
            parts.setdefault(part.partition, []).append(part)
    names = sorted(parts.keys() | options.log_starts.keys() | options.log_ends.keys())
    return [_plan(name, parts.get(name, []), options, keeps_offsets) for name in names]


def _plan(
    partition: TopicPartition,
    parts: list[WrittenPart],
    options: WriteOptions,
    keeps_offsets: bool,
) -> AssembledLog:
    start, end = options.log_starts.get(partition), options.log_ends.get(partition)
    if keeps_offsets:
        placed = [(part, 0) for part in sorted(parts, key=lambda part: part.first_offset)]
        _refuse_overlaps(partition, [part for part, _ in placed])
        first = placed[0][0].first_offset if placed else None
        if start is not None and first is not None and first < start:
            raise RecordError(
                f"{partition}: a record has offset {first}, below the log start {start}"
            )
    else:
        first = (start or 0) if parts else None
        placed, after = [], start or 0
        for part in parts:
            placed.append((part, after - part.first_offset))
            after += part.next_offset - part.first_offset
    if start is None:
        start = first if first is not None else end or 0
    log = AssembledLog(partition, start, start, placed)
    if end is not None and log.records_end > end:
        raise RecordError(
            f"{partition}: a record has offset {log.records_end - 1}, and the log is to end at {end}"
        )
    log.end = max(log.records_end, end or 0)
    log.epochs = _epochs_of(log)
    return log


def _refuse_overlaps(partition: TopicPartition, parts: Sequence[WrittenPart]) -> None:
    for before, part in pairwise(parts):
        if part.first_offset < before.next_offset:
            raise RecordError(
                f"{partition}: two tasks wrote offsets {before.first_offset} to {before.next_offset - 1} and"
                f" {part.first_offset} to {part.next_offset - 1}, which overlap: rows are duplicated, or"
                " the rows of a partition are spread over tasks (kafkafs.spark.write puts them together;"
                " repartition('topic', 'partition') with sortWithinPartitions does too)"
            )


def _epochs_of(log: AssembledLog) -> list[EpochEntry]:
    found: list[EpochEntry] = []
    for part, shift in log.parts:
        for epoch, start in part.epochs:
            if found and epoch < found[-1].epoch:
                raise RecordError(
                    f"{log.partition}: at offset {start + shift} the leader epoch goes back to {epoch}: drop"
                    " the column leaderEpoch, or set the option leaderEpoch"
                )
            if not found or epoch > found[-1].epoch:
                found.append(EpochEntry(epoch, start + shift if found else log.start))
    return found


# -- a partition


def _build(job: JobFolder, log: AssembledLog, topic_id: str, disk: Disk) -> None:
    folder = os.path.join(job.log_dir, str(log.partition))
    disk.make_new_folder(folder)
    sizes = _move_parts(job, log, folder, disk)
    _fill_gaps(log, folder, sizes, disk)
    sizes |= _write_bounds(log, [int(name[:20]) for name in sizes], folder, disk)
    metadata = render_partition_metadata(PartitionMetadata(0, topic_id))
    write_file(os.path.join(folder, PARTITION_METADATA), metadata, disk)
    if log.epochs:
        write_file(os.path.join(folder, LEADER_EPOCH_CHECKPOINT), render(log.epochs), disk)
    loaded = load_and_close(folder, disk, log.start, is_clean=True)
    found = {
        name: disk.size(os.path.join(folder, name))
        for name in disk.list(folder)
        if name.endswith(".log")
    }
    bounds = loaded.log_start_offset, loaded.log_end_offset
    if found != sizes or bounds != (log.start, log.end):
        raise RebuildFailedError(
            f"{folder}: a broker would take the log for offsets {bounds[0]} to {bounds[1]} instead of"
            f" {log.start} to {log.end}"
        )
    log.bases = sorted(int(name[:20]) for name in sizes)


def _move_parts(job: JobFolder, log: AssembledLog, folder: str, disk: Disk) -> dict[str, int]:
    """Move the segments of all parts to their final names; return the sizes of the .log files."""
    sizes = {}
    is_first = True
    for part, shift in log.parts:
        source = os.path.join(job.path, part.folder)
        ends = [each.base_offset for each in part.segments[1:]] + [part.next_offset]
        for segment, end in zip(part.segments, ends, strict=True):
            old = [os.path.join(source, name(segment.base_offset)) for name in _FILES]
            if shift:
                move_batches(old[0], shift, disk)
            base = segment.base_offset + shift
            if is_first and log.start < base and end + shift - log.start <= MAX_INT32:
                # No empty segment before it: a broker would search that one for early times.
                move_index_entries(old[1], offset_index.ENTRY.dtype, base - log.start, disk)
                move_index_entries(old[2], time_index.ENTRY.dtype, base - log.start, disk)
                base = log.start
            for path, name in zip(old, _FILES, strict=True):
                disk.rename(path, os.path.join(folder, name(base)))
            sizes[log_file_name(base)] = segment.size
            is_first = False
    return sizes


def _fill_gaps(log: AssembledLog, folder: str, sizes: dict[str, int], disk: Disk) -> None:
    """Add a batch without records for the offsets between two tasks' parts; within a part there are no gaps."""
    bases = sorted(int(name[:20]) for name in sizes)
    for (before, after_before), (part, shift) in pairwise(log.parts):
        start, stop = before.next_offset + after_before, part.first_offset + shift
        base = bases[bisect_left(bases, stop) - 1]
        name = log_file_name(base)
        is_far = max(stop - start, stop - base, sizes[name] + BATCH_OVERHEAD) > MAX_INT32
        if start == stop or is_far:
            continue
        batch = _empty_batch(start, stop, before.epochs[-1].epoch if before.epochs else None)
        with disk.open(os.path.join(folder, name)) as file:
            file.write_at(sizes[name], batch)
            file.sync()
        sizes[name] += len(batch)


def _write_bounds(
    log: AssembledLog, bases: Iterable[Offset], folder: str, disk: Disk
) -> dict[str, int]:
    """Write segments that only mark the log start or log end; return the sizes of their .log files."""
    data: dict[Offset, bytes] = {}
    end = log.records_end
    if log.end > end:
        # Consumers pass a batch without records; an empty segment would stop them below the log end.
        epoch = log.epochs[-1].epoch if log.epochs else None
        is_far = log.end - end > MAX_INT32
        data = {log.end: b""} if is_far else {end: _empty_batch(end, log.end, epoch)}
    if log.start not in data and log.start < min([*data, *bases], default=log.start + 1):
        data[log.start] = b""
    sizes = {}
    for base, content in data.items():
        name = log_file_name(base)
        write_file(os.path.join(folder, name), content, disk)
        for name_of in (offset_index_name, time_index_name):
            write_file(os.path.join(folder, name_of(base)), b"", disk)
        sizes[name] = len(content)
    return sizes


def _empty_batch(start: Offset, stop: Offset, epoch: int | None) -> bytes:
    """Return a batch without records for the offsets [start, stop)."""
    return bytes(
        encode_empty_batch(
            base_offset=start,
            last_offset=stop - 1,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH if epoch is None else epoch,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp=NO_TIMESTAMP,
            is_transactional=False,
            is_control=False,
        )
    )


# -- the log dir


def _root_files(
    logs: Sequence[AssembledLog], options: WriteOptions, manifest: Json
) -> dict[str, bytes]:
    """Return checkpoints, manifest and meta.properties. No .kafka_cleanshutdown: a recovery is cheap and safe."""
    ends = {log.partition: log.end for log in logs}
    starts = {log.partition: log.start for log in logs if log.start > log.bases[0]}
    files = {
        RECOVERY_POINT_CHECKPOINT: render_offset_checkpoint(ends),
        REPLICATION_OFFSET_CHECKPOINT: render_offset_checkpoint(ends),
        LOG_START_OFFSET_CHECKPOINT: render_offset_checkpoint(starts),
        SPARK_MANIFEST: (json.dumps(manifest, ensure_ascii=True, indent=1) + "\n").encode(),
    }
    if options.cluster_id is not None:
        meta = MetaProperties(
            version=MetaPropertiesVersion.V1,
            cluster_id=options.cluster_id,
            node_id=options.node_id,
            directory_id=random_uuid(),
        )
        files[META_PROPERTIES] = render_properties(meta.to_properties())
    return files


def _manifest(job: JobFolder, logs: Sequence[AssembledLog], topic_ids: dict[str, str]) -> Json:
    now = datetime.datetime.fromtimestamp(SYSTEM_CLOCK.now_ms() // 1000, datetime.UTC)
    return {
        "format": FORMAT,
        "target": job.target,
        "created": now.isoformat().replace("+00:00", "Z"),
        "topicIds": topic_ids,
        "partitions": [
            {
                "partition": str(log.partition),
                "logStartOffset": log.start,
                "logEndOffset": log.end,
                "records": sum(part.records for part, _ in log.parts),
                "batches": sum(part.batches for part, _ in log.parts),
                "bytes": sum(part.size for part, _ in log.parts),
                "segments": len(log.bases),
            }
            for log in logs
        ],
    }
