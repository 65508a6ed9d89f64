"""Ranges that a micro-batch reads of each partition, and losses before it.

A loss stops the query before the micro-batch is in the checkpoint, or is a warning: see `failOnDataLoss`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from engine.log.view.log_view import LogView
from engine.units import Offset, TopicPartition
from kafkafs.spark.errors import (
    DataLossError,
    added_partition_does_not_start_from_zero,
    initial_offset_not_found,
    partition_offset_changed,
    partitions_deleted,
    topics_recreated,
)
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.planning.offset_ranges import within_log
from kafkafs.spark.streaming.stream_offsets import StreamOffsets, StreamPlace, TopicIds
from kafkafs.table.splits.split import QueryRange, Split, plan

logger = logging.getLogger(__name__)

Views = Mapping[TopicPartition, LogView]


def still_there(
    known: StreamPlace, topic_ids: TopicIds, options: ReadOptions, *, is_reported: bool = False
) -> StreamOffsets:
    """Return the offsets of a query that belong to the topics with these ids.

    A topic that was deleted and created again has other records at the same offsets. If one of two ids is unknown, the
    topic counts as the same.

    Args:
        known: place of the query.
        topic_ids: present ids of the topics.
        options: options of the query.
        is_reported: whether the recreated topics were reported before.

    Raises:
        DataLossError: a topic was created again, and failOnDataLoss is true.
    """
    before = known.topic_ids
    recreated = {
        partition: (before[partition], topic_ids[partition])
        for partition in known.offsets.keys() & before.keys() & topic_ids.keys()
        if before[partition] != topic_ids[partition]
    }
    if recreated and not is_reported:
        report(topics_recreated(recreated), options)
    return {each: offset for each, offset in known.offsets.items() if each not in recreated}


def with_added(
    start: StreamOffsets, end: StreamOffsets, views: Views
) -> dict[TopicPartition, Offset]:
    """Return the start offset of each partition of `end`; new partitions start at their log start.

    A new partition that has vanished again is left out.
    """
    return {
        partition: start[partition] if partition in start else views[partition].log_start_offset
        for partition in end
        if partition in start or partition in views
    }


def check_losses(
    start: StreamOffsets, end: StreamOffsets, views: Views, options: ReadOptions
) -> None:
    """Compare the end of a micro-batch with the place of the query.

    Raises:
        DataLossError: partitions are gone, end below the offsets that were read, or are new and have lost their
            first records; and failOnDataLoss is true.
    """
    for loss in _losses(start, end, views):
        report(loss, options)


def report(loss: DataLossError, options: ReadOptions) -> None:
    """Raise a loss, or log a warning."""
    if options.fail_on_data_loss:
        raise loss
    logger.warning("%s", loss)


def _losses(start: StreamOffsets, end: StreamOffsets, views: Views) -> Iterator[DataLossError]:
    starts = with_added(start, end, views)
    if vanished := end.keys() - starts.keys():
        yield initial_offset_not_found(vanished)
    for partition in sorted(starts.keys() - start.keys()):
        if starts[partition] != 0:
            yield added_partition_does_not_start_from_zero(partition, starts[partition])
    if deleted := start.keys() - end.keys():
        yield partitions_deleted(deleted)
    for partition in sorted(starts):
        if end[partition] < starts[partition]:
            yield partition_offset_changed(partition, starts[partition], end[partition])


def stream_ranges(
    start: StreamOffsets,
    end: StreamOffsets,
    views: Views,
    options: ReadOptions,
    *,
    is_first: bool,
) -> list[QueryRange]:
    """Return the non-empty ranges of a micro-batch, sorted by partition.

    Args:
        start, end: bounds of the micro-batch.
        views: views of the existing logs.
        options: options of the query.
        is_first: whether this is the first micro-batch; damage across the border of two is reported once.

    Raises:
        DataLossError: some offsets are no longer in the logs, and failOnDataLoss is true.
    """
    starts = with_added(start, end, views)
    if gone := {each for each in end if start.get(each, 0) < end[each]} - views.keys():
        report(partitions_deleted(gone), options)
    ranges = []
    for partition in sorted(starts.keys() & views.keys()):
        if starts[partition] < end[partition]:
            wanted = QueryRange(partition, starts[partition], end[partition])
            found = within_log(views[partition], wanted, options)
            ranges.append(found._replace(is_first=is_first or partition not in start))
    return [each for each in ranges if each.size > 0]


def stream_splits(ranges: list[QueryRange], views: Views, split_bytes: int) -> list[Split]:
    """Return the splits of ranges, in order.

    A torn batch after the last good one of a log is left out: a broker may still be writing it.
    """
    found = []
    for wanted in ranges:
        view = views[wanted.partition]
        active = view.active_segment
        for split in plan(view, wanted, split_bytes):
            stop = split.end_position
            if active is not None and active.base_offset == split.segment:
                stop = min(stop, active.end)
            if stop > split.position:
                found.append(replace(split, end_position=stop))
    return found
