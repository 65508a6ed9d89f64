"""What a micro-batch reads of each partition, and what was lost on the way there.

A loss stops the query, before the micro-batch gets into the checkpoint, or is a warning: `failOnDataLoss`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from engine.log.log_view import LogView
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
from kafkafs.spark.source.planning.offset_ranges import QueryRange, within_log
from kafkafs.spark.source.planning.splits import Split, plan
from kafkafs.spark.streaming.stream_offsets import StreamOffsets, StreamPlace, TopicIds

log = logging.getLogger(__name__)

Views = Mapping[TopicPartition, LogView]


def still_there(
    known: StreamPlace, topic_ids: TopicIds, options: ReadOptions, *, is_told: bool = False
) -> StreamOffsets:
    """The offsets of a query that are offsets of the topics with these ids.

    The log of a topic that was deleted and made anew has other records at the same offsets. Where one of the two ids
    is not known, the topic is taken for the same.

    Args:
        known: where the query is.
        topic_ids: of the topics now.
        options: of the query.
        is_told: whether the topics that were made anew were reported before.

    Raises:
        DataLossError: a topic was made anew, and failOnDataLoss is true.
    """
    before = known.topic_ids
    anew = {
        partition: (before[partition], topic_ids[partition])
        for partition in known.offsets.keys() & before.keys() & topic_ids.keys()
        if before[partition] != topic_ids[partition]
    }
    if anew and not is_told:
        report(topics_recreated(anew), options)
    return {each: offset for each, offset in known.offsets.items() if each not in anew}


def with_added(
    start: StreamOffsets, end: StreamOffsets, views: Views
) -> dict[TopicPartition, Offset]:
    """Where to read each partition of `end` from: new ones from their log start.

    A new one that is gone again is left out.
    """
    return {
        partition: start[partition] if partition in start else views[partition].log_start_offset
        for partition in end
        if partition in start or partition in views
    }


def check_losses(
    start: StreamOffsets, end: StreamOffsets, views: Views, options: ReadOptions
) -> None:
    """Compare the end of a micro-batch with where the query is.

    Raises:
        DataLossError: partitions are gone, end below what was read, or are new and have lost their
            beginning; and failOnDataLoss is true.
    """
    for loss in _losses(start, end, views):
        report(loss, options)


def report(loss: DataLossError, options: ReadOptions) -> None:
    """Stop the query with a loss, or warn of it."""
    if options.fail_on_data_loss:
        raise loss
    log.warning("%s", loss)


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
    """The ranges of a micro-batch that hold something, in the partitions' order.

    Args:
        start, end: of the micro-batch.
        views: of the logs that are there.
        options: of the query.
        is_first: whether no micro-batch came before; damage across the border of two is told of once.

    Raises:
        DataLossError: offsets of theirs are not in the logs any more, and failOnDataLoss is true.
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
    """The splits of ranges, in their order.

    What is torn behind the last good batch of a log is none of it: perhaps it is on its way.
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
