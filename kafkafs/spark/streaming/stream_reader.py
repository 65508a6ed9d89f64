"""`spark.readStream.format("kafkalog")`: the streaming source, trigger by trigger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, Offset, TopicPartition
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.records.row_mask import RowMask
from kafkafs.spark.source.options.offset_limits import EARLIEST, Extreme
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.planning.batch_plan import tasks_of
from kafkafs.spark.source.planning.offset_ranges import log_end, resolve_limit
from kafkafs.spark.source.planning.task_ranges import split_ranges
from kafkafs.spark.source.rows import SplitReader
from kafkafs.spark.source.schemas import with_schemas
from kafkafs.spark.source.worker_process import make_ready
from kafkafs.spark.streaming.followed_logs import FollowedLogs
from kafkafs.spark.streaming.stream_offsets import (
    StreamOffsets,
    StreamPlace,
    from_json,
    to_json,
)
from kafkafs.spark.streaming.stream_ranges import (
    Views,
    check_losses,
    still_there,
    stream_ranges,
    stream_splits,
    with_added,
)
from kafkafs.table.row_options import DecoderOf
from kafkafs.table.splits.split import Split


def at_most(limit: int, start: StreamOffsets, end: StreamOffsets) -> dict[TopicPartition, Offset]:
    """Return an end at most about `limit` offsets away, shared among partitions in proportion to their new offsets.

    Every partition with new offsets gets at least one.

    Args:
        limit: offsets of all partitions together.
        start: start of each partition.
        end: log ends; a partition without a start below its end keeps its end.
    """
    sizes = {each: end[each] - start[each] for each in start if start[each] < end.get(each, 0)}
    total = float(sum(sizes.values()))
    found = dict(end)
    for partition, size in sizes.items():
        share = limit * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(end[partition], start[partition] + count, MAX_INT64)
    return found


class TriggerDelay:
    """Delay of micro-batches until there are enough offsets, or enough time has passed.

    Args:
        least: number of offsets that start a micro-batch; None for any.
        longest_ms: milliseconds since the last micro-batch after which any number does.
        now: clock in seconds, as `time.monotonic`.
    """

    def __init__(
        self, least: int | None, longest_ms: int, now: Callable[[], float] = monotonic
    ) -> None:
        self._least = least
        self._longest = longest_ms / 1000
        self._now = now
        self._last: float | None = None

    def must_wait(self, start: StreamOffsets, end: StreamOffsets) -> bool:
        """Return whether it is too early for a micro-batch; the first one never waits."""
        if self._least is None:
            return False
        now = self._now()
        if self._last is not None and now - self._last < self._longest:
            fresh = sum(end[each] - start[each] for each in end)
            if fresh < self._least:
                return True
        self._last = now
        return False


@dataclass
class StreamTask(InputPartition):
    """The splits of one task, and the schemas, types, keys and mask of their micro-batch, pickled by Spark."""

    splits: tuple[Split, ...]
    decoder_of: DecoderOf | None = None
    row_mask: RowMask | None = None
    typed: TypedValues | None = None
    keys: TopicKeys | None = None


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader: follows logs in the driver and reads new records in tasks.

    All state is in Spark's checkpoint. The checkpoint has the end of each micro-batch, but not the start of the first
    one: Spark asks again for that start when it repeats the micro-batch after a crash. If the start is the log end, the
    first micro-batch is therefore empty: its end pins the place where the query began.

    Args:
        schema: columns to read.
        options: checked options of a stream.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._logs = FollowedLogs(options)
        self._delay = TriggerDelay(options.min_offsets, options.max_delay_ms)
        self._initial: StreamPlace | None = None
        self._must_pin = False
        self._latest: StreamPlace | None = None
        self._is_available_now = False
        self._target: StreamPlace | None = None

    # Calls in the driver

    def initialOffset(self) -> dict[str, dict[str, Any]]:  # noqa: N802
        """Return the start of a query without a checkpoint; later calls return the same.

        Raises:
            OptionError, SourceError: see `resolve_limit` and `FollowedLogs.first_look`.
        """
        if self._initial is None:
            views = self._logs.first_look()
            offsets = resolve_limit(views, self._options.start, self._options, is_start=True)
            self._initial = StreamPlace(offsets, self._logs.topic_ids(views))
            self._must_pin = self._may_move(views, offsets)
        return to_json(self._initial)

    def _may_move(self, views: Views, offsets: StreamOffsets) -> bool:
        """Return whether the same options can give a later start a moment later."""
        if self._options.start == Extreme(EARLIEST):
            return False
        return any(offsets[each] >= self._end_of(views[each]) for each in views)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, dict[str, Any]]:
        """Return the end of the next micro-batch; `start` if there is to be none.

        Raises:
            DataLossError: see `check_losses`.
            OptionError: `start` is from a checkpoint of another source.
            SourceError: a path no longer exists.
        """
        known = from_json(start)
        if self._must_pin and known == self._initial:
            self._must_pin = False
            self._latest = known
            return to_json(known)
        views = self._logs.look(known.offsets)
        place = self._latest = self._end_place(known, views)
        if isinstance(limit, ReadAllAvailable):
            return to_json(place)
        ends = place.offsets
        there = still_there(known, place.topic_ids, self._options, is_reported=True)
        starts = with_added(there, ends, views)
        if not self._is_available_now and self._delay.must_wait(starts, ends):
            return to_json(known)
        if self._options.max_offsets is not None:
            ends = at_most(self._options.max_offsets, starts, ends)
        return to_json(place._replace(offsets=ends))

    def _end_place(self, known: StreamPlace, views: Views) -> StreamPlace:
        """Return the log ends; with Trigger.AvailableNow those of the first look."""
        if self._target is not None:
            return self._target
        ends = {partition: self._end_of(view) for partition, view in views.items()}
        # A topic id that cannot be read now keeps its last known value.
        topic_ids = {**known.topic_ids, **self._logs.topic_ids(views)}
        check_losses(still_there(known, topic_ids, self._options), ends, views, self._options)
        place = StreamPlace(ends, {each: topic_ids[each] for each in ends if each in topic_ids})
        if self._is_available_now:
            self._target = place
        return place

    def _end_of(self, view: LogView) -> Offset:
        return log_end(view, self._options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit for `latestOffset` when the trigger sets none."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read only records that exist at the next look."""
        self._is_available_now = True

    def reportLatestOffset(self) -> dict[str, dict[str, Any]] | None:  # noqa: N802
        """Return the log ends of the last look, for the query's progress."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the splits of each task, sorted by partition and offset.

        Raises:
            DataLossError: some of the records no longer exist.
            OptionError, SourceError: as for `latestOffset`.
        """
        known, planned = from_json(start), from_json(end)
        is_repeated = self._latest is None
        views = self._logs.look(planned.offsets)
        is_first = known == self._initial
        ends = still_there(planned, self._logs.topic_ids(views), self._options)
        starts = {
            each: offset
            for each, offset in still_there(
                known, planned.topic_ids, self._options, is_reported=not is_repeated
            ).items()
            if each in ends or each not in planned.offsets
        }
        if is_repeated and is_first:
            # The start was resolved again: leave out partitions that were added or deleted since the first time.
            starts = {each: min(starts[each], ends[each]) for each in starts if each in ends}
        if is_repeated:
            check_losses(starts, ends, views, self._options)
        ranges = split_ranges(
            stream_ranges(starts, ends, views, self._options, is_first=is_first), self._options
        )
        splits = stream_splits(ranges, views, self._options.split_bytes)
        # Spark pickles the reader once for a query, and each task alone: newer records may need newer schemas.
        now = with_schemas(self._options, self._schema)
        # The policy stays that of the first micro-batch, and so do the schemas that give types.
        self._options = replace(self._options, row_mask=now.row_mask, typed=now.typed)
        tasks = tasks_of(splits, self._options)
        return [
            StreamTask(task, now.decoder_of, now.row_mask, now.typed, now.keys) for task in tasks
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint is Spark's."""

    def stop(self) -> None:
        """Close the logs."""
        self._logs.close()

    # Calls in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, StreamTask)
        make_ready()
        options = replace(
            self._options,
            decoder_of=partition.decoder_of,
            row_mask=partition.row_mask,
            typed=partition.typed,
            keys=partition.keys,
        )
        reader = SplitReader(to_arrow_schema(self._schema, timezone="UTC"), options)
        for split in partition.splits:
            yield from reader.read(split)
