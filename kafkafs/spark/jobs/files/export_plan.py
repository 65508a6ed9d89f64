"""Plan of an export: chunks that are written one after the other, so that finished ones need no repetition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from engine.log.log_view import LogView
from engine.units import Offset, TopicPartition
from kafkafs.spark.errors import DataLossError, could_not_read, partition_offset_changed
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths
from kafkafs.spark.source.planning.offset_ranges import log_end, resolve_partitions
from kafkafs.table.log_dir_owners import owners_by_root
from kafkafs.table.splits import QueryRange, Split, plan

MOST_TOPICS = 16
"""Most topics of a chunk: the records of each are counted by an expression."""


class ExportChunk(NamedTuple):
    """Part of an export that is written at once.

    Attributes:
        splits: splits sorted by partition and offset; none if the partitions have no records.
        ranges: offsets [start, stop) that the chunk covers, by partition.
        size: bytes of the source.
    """

    splits: tuple[Split, ...]
    ranges: Mapping[TopicPartition, tuple[Offset, Offset]]
    size: int

    @property
    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        return sorted({partition.topic for partition in self.ranges})

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """Topic ids of the partitions that have one."""
        return {each.partition: each.topic_id for each in self.splits if each.topic_id is not None}


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
    chunks = _chunks(splits, chunk_bytes)
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


def _chunks(splits: list[Split], chunk_bytes: int) -> list[ExportChunk]:
    chunks: list[ExportChunk] = []
    taken: list[Split] = []
    topics: set[str] = set()
    size = 0
    for split in splits:
        topic = split.partition.topic
        is_full = size + split.size > chunk_bytes or len(topics | {topic}) > MOST_TOPICS
        if taken and is_full:
            chunks.append(_chunk(taken))
            taken, topics, size = [], set(), 0
        taken.append(split)
        topics.add(topic)
        size += split.size
    if taken:
        chunks.append(_chunk(taken))
    return chunks


def _chunk(splits: list[Split]) -> ExportChunk:
    ranges: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for split in splits:
        start, stop = split.wanted
        ranges[split.partition] = ranges.get(split.partition, (start, stop))[0], stop
    return ExportChunk(tuple(splits), ranges, sum(split.size for split in splits))
