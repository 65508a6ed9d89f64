"""Recover a segment after a crash: find the valid batches, rebuild the indexes, update producers and epochs.

The kernel walks the batches and checks their checksums, a chunk at a time. Then indexes, leader epochs
and producers are updated for all batches of the chunk at once, with the same result as batch by batch.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.coding.fixed_width import read_int32
from engine.columns.batch_table import BATCH_ROW, Stop, holds_control
from engine.errors import CorruptRecordError, InvalidRecordError, OffsetOverflowError
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.record.batch_frame import LENGTH_POSITION, LOG_OVERHEAD, SMALLEST_BATCH
from engine.record.record_batch import RecordBatch, make_batch
from engine.units import (
    MAX_INT32,
    NO_PRODUCER_ID,
    Offset,
    Position,
    TimestampOffset,
)
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)

Rows: TypeAlias = npt.NDArray[np.void]

CHUNK = 4 * 1024 * 1024
ROWS = 16 * 1024
_KEPT_BATCHES = 5
"""Number of last batches in the state of a producer."""


class _Piece(NamedTuple):
    """Rows of batches with a valid checksum, and the bytes of the batches from `position` of the file on."""

    rows: Rows
    buffer: memoryview
    position: Position


def recover(
    segment: WritableSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochFileCache | None = None,
    before_truncation: Callable[[], None] | None = None,
) -> int:
    """Rebuild the indexes of a segment, and cut off the bytes after the last valid batch.

    Args:
        segment: segment to read from its start.
        producer_state: producers at the base offset; updated by the batches.
        leader_epochs: leader epochs; the epochs that begin in the segment are added.
        before_truncation: called before bytes are cut off, if there are any.

    Returns:
        The number of bytes that were cut off.

    Raises:
        OffsetOverflowError: an offset is too far from the base offset; nothing was cut off.
        OSError: the file cannot be read.
        ProducerStateError: a batch contradicts the producer's state; nothing was cut off.
    """
    segment.indexes.empty()
    builder = _Rebuilder(segment, producer_state, leader_epochs)
    for piece in _pieces(segment):
        if not builder.take(piece):
            break
    truncated = segment.size - builder.valid_bytes
    if truncated:
        logger.warning("%s has %d invalid bytes at its end", segment.log.path, truncated)
        if before_truncation is not None:
            before_truncation()
    segment.finish_recovery(builder.valid_bytes)
    return truncated


def note_epoch(leader_epochs: LeaderEpochFileCache, epoch: int, first_offset: Offset) -> None:
    """Assign the leader epoch of a batch if it is above all earlier ones."""
    latest = leader_epochs.latest_epoch
    if epoch >= 0 and (latest is None or epoch > latest):
        leader_epochs.assign(epoch, first_offset)


def follow_producer(
    segment: WritableSegment, producer_state: ProducerStateManager, batch: RecordBatch
) -> None:
    """Apply a batch of a segment to its producer. Raises the errors of `ProducerAppendInfo.append`."""
    info = producer_state.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
    completed = info.append(batch)
    producer_state.update(info)
    if completed is not None:
        segment.update_txn_index(completed, producer_state.last_stable_offset(completed))
        producer_state.complete_txn(completed)


def _pieces(segment: WritableSegment) -> Iterator[_Piece]:
    """Yield the valid batches from the start of the file, up to the first invalid one.

    A batch with a magic above 2 is damage, as for readers; Kafka would read it as one of magic 2.
    """
    records = segment.log
    end, position = records.size, 0
    buffer = bytearray(min(CHUNK, end))
    table = np.zeros(min(ROWS, end // SMALLEST_BATCH[0] + 1), BATCH_ROW.dtype)
    while position < end:
        got = records.read_into(buffer, position)
        view = memoryview(buffer)[:got]
        start, stop = 0, int(Stop.TABLE_FULL)
        while stop == Stop.TABLE_FULL:
            count, used, stop = kernel.walk(
                view, table, start, position + start, True, largest=MAX_INT32
            )
            rows = table[:count]
            bad = np.flatnonzero(rows["crc_ok"] == 0)
            if len(bad):
                rows = rows[: bad[0]]
            if len(rows):
                yield _Piece(rows, view[start:], position + start)
            if len(bad):
                return
            start += used
        if stop != Stop.NEED_MORE:
            return
        if start == 0:
            needed = _size_at(view)
            if needed <= len(buffer) or position + needed > end:
                return
            buffer = bytearray(needed)
        position += start


def _size_at(view: memoryview) -> int:
    """Return the size of the batch at the start of a view; 0 if the view is too short to have it."""
    return 0 if len(view) < LOG_OVERHEAD else read_int32(view, LENGTH_POSITION) + LOG_OVERHEAD


class _Rebuilder:
    """Rebuilds indexes and state from valid batches in order."""

    def __init__(
        self,
        segment: WritableSegment,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochFileCache | None,
    ) -> None:
        self.segment = segment
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.valid_bytes: Position = 0
        self._last_indexed: Position = 0
        self._largest = segment.indexes.largest

    def take(self, piece: _Piece) -> bool:
        """Add batches; return whether to continue with the next ones."""
        rows = piece.rows
        distance = rows["last_offset"] - self.segment.base_offset
        outside = np.flatnonzero((distance < 0) | (distance > MAX_INT32))
        inside = rows[: outside[0]] if len(outside) else rows
        whole = True
        if len(inside):
            taken, whole = self._update_state(piece, inside)
            self._index(inside[:taken])
            self.valid_bytes = int(inside["position"][taken - 1] + inside["size"][taken - 1])
        if whole and len(outside):
            raise OffsetOverflowError(
                f"offset {rows['last_offset'][outside[0]]} in {self.segment.log.path} is too far"
                f" from the base offset {self.segment.base_offset}"
            )
        return whole

    # Leader epochs and producers

    def _update_state(self, piece: _Piece, rows: Rows) -> tuple[int, bool]:
        """Update leader epochs and producers; return the number of valid batches, and whether to continue.

        A batch with an invalid control record is the last valid one: its checksum is correct.
        """
        current = rows["magic"] >= 2
        steps = sorted({*self._epoch_steps(rows, current), *_producer_steps(rows, current)})
        taken = seen = len(rows)
        for row in steps:
            try:
                self._update_with(piece, rows[row])
            except (CorruptRecordError, InvalidRecordError) as error:
                logger.warning("%s has an invalid batch: %s", self.segment.log.path, error)
                taken, seen = row + 1, row
                break
        last = np.flatnonzero(current[:seen])
        if len(last):
            end = self.segment.offset_after(int(rows["last_offset"][last[-1]]))
            self.producer_state.update_map_end_offset(end)
        return taken, seen == taken

    def _epoch_steps(self, rows: Rows, current: npt.NDArray[np.bool_]) -> list[int]:
        """Return the rows of the batches that begin a leader epoch."""
        if self.leader_epochs is None:
            return []
        latest = self.leader_epochs.latest_epoch
        epochs = np.where(current, rows["leader_epoch"], -1)
        before = np.maximum.accumulate(np.concatenate(([-1 if latest is None else latest], epochs)))
        steps: list[int] = np.flatnonzero(epochs > before[:-1]).tolist()
        return steps

    def _update_with(self, piece: _Piece, row: np.void) -> None:
        if self.leader_epochs is not None:
            note_epoch(self.leader_epochs, int(row["leader_epoch"]), int(row["base_offset"]))
        if row["producer_id"] <= NO_PRODUCER_ID:
            return
        start = int(row["position"]) - piece.position
        batch = make_batch(
            piece.buffer[start : start + int(row["size"])],
            file_position=int(row["position"]),
            path=self.segment.log.path,
        )
        follow_producer(self.segment, self.producer_state, batch)

    # Indexes

    def _index(self, rows: Rows) -> None:
        """Add index entries where an append would have added them, and update the largest timestamp."""
        segment = self.segment
        timestamps = np.concatenate(([self._largest.timestamp], rows["max_timestamp"]))
        offsets = np.concatenate(([self._largest.offset], rows["last_offset"]))
        running = np.maximum.accumulate(timestamps)
        rises = timestamps[1:] > running[:-1]
        largest_at = np.concatenate(([0], np.flatnonzero(rises) + 1))
        indexed = self._rows_to_index(rows["position"].tolist())
        if indexed:
            at = np.array(indexed)
            segment.offset_index.extend(offsets[at + 1], rows["position"][at])
            largest = largest_at[np.unique(np.cumsum(rises)[at])]
            segment.time_index.extend(timestamps[largest], offsets[largest])
        last = largest_at[-1]
        if last:
            self._largest = TimestampOffset(int(timestamps[last]), int(offsets[last]))
            segment.indexes.known_largest = self._largest

    def _rows_to_index(self, positions: list[Position]) -> list[int]:
        """Return the rows with an index entry: each begins more than the interval after the last one."""
        interval = self.segment.indexes.interval_bytes
        chosen: list[int] = []
        row = bisect_right(positions, self._last_indexed + interval)
        while row < len(positions):
            chosen.append(row)
            self._last_indexed = positions[row]
            row = bisect_right(positions, self._last_indexed + interval, row + 1)
        return chosen


def _producer_steps(rows: Rows, current: npt.NDArray[np.bool_]) -> list[int]:
    """Return the rows of the batches that decide the final state of the producers.

    Of a run of batches of one producer and epoch, all or none in a transaction, these are the first, which
    may begin a transaction, and the last ones, which the state keeps; all markers.
    """
    of_producers = np.flatnonzero(current & (rows["producer_id"] > NO_PRODUCER_ID))
    if len(of_producers) <= _KEPT_BATCHES + 1:
        few: list[int] = of_producers.tolist()
        return few
    producers = rows["producer_id"][of_producers]
    order = np.argsort(producers, kind="stable")
    producers = producers[order]
    attributes = rows["attributes"][of_producers][order]
    epochs = rows["producer_epoch"][of_producers][order]
    is_marker = holds_control(rows)[of_producers][order]
    in_transaction = (attributes & TRANSACTIONAL_MASK) != 0
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (
        (producers[1:] != producers[:-1])
        | (epochs[1:] != epochs[:-1])
        | (in_transaction[1:] != in_transaction[:-1])
        | is_marker[1:]
        | is_marker[:-1]
    )
    keep = begins.copy()
    starts = np.append(np.flatnonzero(begins), len(order))
    ends = np.repeat(starts[1:], np.diff(starts))
    keep |= ends - np.arange(len(order)) <= _KEPT_BATCHES
    steps: list[int] = of_producers[order[keep]].tolist()
    return steps
