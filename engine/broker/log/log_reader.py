"""Read a log: batches from an offset on, offsets of times, aborted transactions."""

from __future__ import annotations

from engine.broker.log.aborted_transactions import aborted_between
from engine.broker.log.log_state import LogState
from engine.errors import OffsetOutOfRangeError
from engine.index.transaction_index import AbortedTxn
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.log.view.listed_offset import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from engine.record.record_batch import RecordBatch
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    FoundTimestamp,
    Offset,
    Timestamp,
)
from engine.writing.segment.writable_segment import WritableSegment

NOTHING_TIERED = FoundTimestamp(NO_TIMESTAMP, -1, NO_PARTITION_LEADER_EPOCH)
"""Result of a log without remote storage for a time that asks about it."""


class LogReader:
    """Reads batches, and looks up times and aborted transactions."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._local_log = state.local_log
        self._watermarks = state.watermarks

    def read(
        self,
        start_offset: Offset,
        max_length: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        *,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """Return batches of one segment, from the first that reaches an offset.

        Args:
            start_offset: first offset.
            max_length: most bytes.
            isolation: offset where the reader has to stop.
            min_one_message: return the first batch whole, whatever its size.

        Raises:
            OffsetOutOfRangeError: the log starts above or ends below the offset.
            StateError: the log is closed.
        """
        self._state.ensure_open()
        start = self._watermarks.log_start_offset
        if start_offset < start:
            raise OffsetOutOfRangeError(
                f"{self._local_log.topic_partition} starts at offset {start}, above {start_offset}"
            )
        return self._local_log.read(
            start_offset,
            max_length,
            min_one_message,
            self._watermarks.bound(isolation),
            include_aborted_txns=isolation is FetchIsolation.TXN_COMMITTED,
        )

    def collect_aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap [start, upper_bound)."""
        segments = self._local_log.segments
        return aborted_between(segments, start, self._watermarks.log_start_offset, upper_bound)

    def fetch_offset_by_timestamp(self, target: Timestamp) -> FoundTimestamp | None:
        """Return the first record at or after a time; None without one.

        Negative times are special: -1 is the log end, -2 and -4 the log start, -3 the record with the largest
        timestamp; -5 and -6 ask about remote storage and give offset -1.
        """
        state = self._state
        with state.folder.reporting("cannot look up a time in"):
            state.ensure_open()
            if target == LATEST_TIMESTAMP:
                epoch = state.leader_epoch_cache.latest_epoch
                return _place(self._local_log.log_end_offset, epoch)
            if target in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                return self._earliest()
            if target in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
                return NOTHING_TIERED
            if target == MAX_TIMESTAMP:
                return _of_max_timestamp(state.segments)
            for segment in state.segments:
                if segment.largest_timestamp >= target:
                    start = self._watermarks.log_start_offset
                    return segment.find_offset_by_timestamp(target, start)
            return None

    def _earliest(self) -> FoundTimestamp:
        """Return the log start with its epoch, which is unknown before the first entry after records of magic 0 and 1."""
        start, entry = (
            self._watermarks.log_start_offset,
            self._state.leader_epoch_cache.earliest_entry,
        )
        return _place(start, entry.epoch if entry and entry.start_offset <= start else None)


def _place(offset: Offset, epoch: int | None) -> FoundTimestamp:
    return FoundTimestamp(
        NO_TIMESTAMP, offset, NO_PARTITION_LEADER_EPOCH if epoch is None else epoch
    )


def _of_max_timestamp(segments: list[WritableSegment]) -> FoundTimestamp | None:
    latest = max(segments, key=_max_timestamp)
    timestamp, offset = latest.indexes.largest
    position = latest.offset_index.lookup(offset).position
    for batch in latest.log.batches_from(position):
        if batch.max_timestamp == timestamp:
            return _record_with(batch, timestamp)
    return None


def _max_timestamp(segment: WritableSegment) -> Timestamp:
    return segment.indexes.largest.timestamp


def _record_with(batch: RecordBatch, timestamp: Timestamp) -> FoundTimestamp | None:
    if batch.magic == 0:
        return None
    for record in batch.records():
        if record.timestamp == timestamp:
            return FoundTimestamp(timestamp, record.offset, batch.leader_epoch)
    return None
