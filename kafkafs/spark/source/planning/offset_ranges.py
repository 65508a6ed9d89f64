"""Offsets that a query reads of each partition: its limits, resolved against the logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from engine.log.view.log_view import LogView
from engine.units import Offset, Timestamp, TopicPartition
from kafkafs.spark.errors import (
    OptionError,
    could_not_read,
    resolved_start_is_greater,
    start_offsets_do_not_match,
    timestamps_do_not_match,
)
from kafkafs.spark.source.options.offset_limits import (
    EARLIEST,
    LATEST,
    Extreme,
    GlobalTimestamp,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.table.splits.split import QueryRange, reaches_lost_end

logger = logging.getLogger(__name__)

Views = Mapping[TopicPartition, LogView]


def log_end(view: LogView, options: ReadOptions) -> Offset:
    """Return the end of the log for a query: log end, last stable offset, or high watermark.

    Raises:
        OptionError: endAt is highWatermark, and no checkpoint has high watermarks.
    """
    end = view.end(committed=options.committed)
    if not options.replicated:
        return end
    if not view.log.checkpoints.all_high_watermarks():
        raise OptionError(
            f"endAt=highWatermark needs the replication-offset-checkpoint of a log dir; {view.name} has none"
        )
    return min(end, view.high_watermark)


def resolve_batch(views: Views, options: ReadOptions) -> list[QueryRange]:
    """Return the ranges of a batch query with offsets or damage in them, sorted by partition.

    Raises:
        OptionError, DataLossError: see `resolve_partitions`.
    """
    return [
        found
        for found in resolve_partitions(views, options)
        if found.size > 0 or reaches_lost_end(views[found.partition], found)
    ]


def resolve_partitions(views: Views, options: ReadOptions) -> list[QueryRange]:
    """Return the range of a batch query in each partition, also an empty one.

    Raises:
        OptionError: the limits do not fit the partitions.
        DataLossError: a range goes below the log start or above the log end, and failOnDataLoss is true.
    """
    starts = resolve_limit(views, options.start, options, is_start=True)
    stops = resolve_limit(views, options.end, options, is_start=False)
    ranges = []
    for partition, view in views.items():
        start, stop = starts[partition], stops[partition]
        named = start if _names_offset(options.start, partition) else EARLIEST
        if start > stop and named != EARLIEST:
            raise resolved_start_is_greater(partition, start, stop)
        ranges.append(within_log(view, QueryRange(partition, start, stop), options))
    return ranges


def _names_offset(limit: OffsetLimit, partition: TopicPartition) -> bool:
    """Return whether a limit names an offset or a time, not just the log start."""
    if isinstance(limit, SpecificOffsets):
        return limit.offsets[partition] != EARLIEST
    return not isinstance(limit, Extreme)


def within_log(view: LogView, wanted: QueryRange, options: ReadOptions) -> QueryRange:
    """Return the part of a range that is in the log.

    Raises:
        DataLossError: a part is missing, and failOnDataLoss is true.
    """
    partition, start, stop = wanted[:3]
    first, end = view.log_start_offset, log_end(view, options)
    if first <= start and stop <= max(end, start):
        return wanted
    if start >= stop:
        return wanted
    if options.fail_on_data_loss:
        raise could_not_read(partition, start, stop, f"the log holds offsets [{first}, {end})")
    logger.warning(
        "%s: of offsets [%d, %d) the log holds [%d, %d)", partition, start, stop, first, end
    )
    return QueryRange(partition, max(start, first), min(stop, end))


def resolve_limit(
    views: Views, limit: OffsetLimit, options: ReadOptions, *, is_start: bool
) -> dict[TopicPartition, Offset]:
    """Return an offset for each partition.

    Raises:
        OptionError: the limit names other partitions, or a start is after the last record.
    """
    match limit:
        case Extreme(offset):
            offsets = dict.fromkeys(views, offset)
        case SpecificOffsets(named):
            if set(named) != set(views):
                raise start_offsets_do_not_match(named, views)
            offsets = dict(named)
        case GlobalTimestamp(timestamp):
            offsets = _by_time(views, lambda _: timestamp, options, is_start=is_start)
        case SpecificTimestamps(timestamps):
            if set(timestamps) != set(views):
                raise timestamps_do_not_match("start" if is_start else "end", timestamps, views)
            offsets = _by_time(views, timestamps.__getitem__, options, is_start=is_start)
    return {
        partition: _resolved(view, offsets[partition], options) for partition, view in views.items()
    }


def _by_time(
    views: Views,
    timestamp_of: Callable[[TopicPartition], Timestamp],
    options: ReadOptions,
    *,
    is_start: bool,
) -> dict[TopicPartition, Offset]:
    offsets = {}
    for partition, view in views.items():
        timestamp = timestamp_of(partition)
        found = view.offset_for_time(timestamp)
        if found is not None and found.offset < log_end(view, options):
            offsets[partition] = found.offset
        elif is_start and not options.start_or_latest:
            raise OptionError(
                f"No offset matched from request of topic-partition {partition} and timestamp {timestamp}."
            )
        else:
            offsets[partition] = LATEST
    return offsets


def _resolved(view: LogView, offset: Offset, options: ReadOptions) -> Offset:
    if offset == EARLIEST:
        return view.log_start_offset
    return log_end(view, options) if offset == LATEST else offset
