"""Plan of an export: chunks that are written one after the other, so that finished ones need no repetition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.log.log_view import LogView
from engine.units import Offset, TopicPartition
from kafkafs.export.chunks import ExportChunk, chunked
from kafkafs.spark.errors import DataLossError, could_not_read, partition_offset_changed
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths
from kafkafs.spark.source.planning.offset_ranges import log_end, resolve_partitions
from kafkafs.table.splits.log_dir_owners import owners_by_root
from kafkafs.table.splits.split import QueryRange, Split, plan


def plan_chunks(
    options: ReadOptions,
    done: Mapping[TopicPartition, Offset],
    topic_ids: Mapping[TopicPartition, str],
    chunk_bytes: int,
) -> list[ExportChunk]:
    """Return the chunks of an export.

    Args:
        options: options of the read.
        done: offset to resume from, of partitions that were exported before.
        topic_ids: known topic ids of these partitions.
        chunk_bytes: bytes of the source in a chunk, about.

    Raises:
        OptionError, DataLossError, SourceError: as for a batch query; or a log no longer continues the exported one.
    """
    source = open_paths(options.paths)
    try:
        logs = choose(source.partitions(), options.choice, internal=options.internal)
        views = {partition: log.view() for partition, log in logs.items()}
        owners = owners_by_root(source)
        splits: list[Split] = []
        empty: dict[TopicPartition, tuple[Offset, Offset]] = {}
        for wanted in resolve_partitions(views, options):
            _refuse_another(wanted.partition, topic_ids, views[wanted.partition])
            owner = owners[logs[wanted.partition].root]
            left = _left(views[wanted.partition], wanted, done, options, owner)
            splits += left
            if not left and wanted.partition not in done:
                empty[wanted.partition] = wanted.start, max(wanted.start, wanted.stop)
    finally:
        source.close()
    chunks = chunked(splits, chunk_bytes)
    if empty:
        chunks.append(ExportChunk((), empty, 0))
    return chunks


def _refuse_another(
    partition: TopicPartition, topic_ids: Mapping[TopicPartition, str], view: LogView
) -> None:
    before = topic_ids.get(partition)
    if None not in (before, view.topic_id) and before != view.topic_id:
        raise DataLossError(
            f"topic {partition.topic} was deleted and created again since it was exported (topic id {before}"
            f" before, {view.topic_id} now): export it to another target"
        )


def _left(
    view: LogView,
    wanted: QueryRange,
    done: Mapping[TopicPartition, Offset],
    options: ReadOptions,
    owner: str | None,
) -> list[Split]:
    start = done.get(wanted.partition)
    if start is not None:
        end = log_end(view, options)
        if start > end:
            raise partition_offset_changed(wanted.partition, start, end)
        if start < view.log_start_offset and options.fail_on_data_loss:
            why = f"the log holds offsets [{view.log_start_offset}, {end}) by now"
            raise could_not_read(wanted.partition, start, view.log_start_offset, why)
        if start >= wanted.stop:
            return []
        wanted = wanted._replace(start=max(start, wanted.start))
    splits = list(plan(view, wanted, options.split_bytes, owner))
    if splits and wanted.start < splits[0].part_start:
        # The log begins with empty segments before this one.
        splits[0] = replace(splits[0], part_start=wanted.start)
    return splits
