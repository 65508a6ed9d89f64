"""Read the end markers of transactions at the positions of control batches."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.partition_under_check import SegmentUnderCheck
from engine.columns.batch_table import holds_control
from engine.errors import DamagedFileError, UnreadableError, UnsupportedCodecError
from engine.record.attributes import COMPRESSION_MASK, TRANSACTIONAL_MASK
from engine.record.batch_frame import HEADER
from engine.record.control_records import PLAIN_END_MARKER, ControlRecordType, end_marker_of
from engine.record.record_batch import make_batch
from engine.units import Position, Timestamp

Table: TypeAlias = npt.NDArray[Any]

_READ = 64 * 1024
_ENDS = {0: ControlRecordType.ABORT, 1: ControlRecordType.COMMIT}


class Marker(NamedTuple):
    """Type of a transaction's end, and the coordinator's epoch."""

    type: ControlRecordType
    coordinator_epoch: int
    timestamp: Timestamp


class MarkerReader:
    """Reads the markers of one segment in file order, with a read buffer."""

    def __init__(self, segment: SegmentUnderCheck) -> None:
        self._file = segment.segment.file
        self._path = segment.path
        self._start: Position = 0
        self._buffer = b""

    def read(self, row: np.void) -> Marker | None:
        """Return the marker in a control batch; None for another control record or an invalid one."""
        position, size = int(row["position"]), int(row["size"])
        at = position - self._start
        if at < 0 or at + size > len(self._buffer):
            try:
                self._buffer = self._file.read_at(position, max(size, _READ))
            except UnreadableError:  # after the batch, which is good
                self._buffer = self._file.read_at(position, size)
            self._start, at = position, 0
        batch = self._buffer[at : at + size]
        if size == HEADER.size + PLAIN_END_MARKER.size and not row["attributes"] & COMPRESSION_MASK:
            length, _, time_delta, _, key_size, version, kind, value_size, _, epoch, _ = (
                PLAIN_END_MARKER.unpack_from(batch, HEADER.size)
            )
            if (length, key_size, value_size, time_delta & 0x80) == (0x20, 8, 12, 0):
                known = _ENDS.get(kind) if version >= 0 else None
                if known is None:
                    return None
                return Marker(known, epoch, int(row["max_timestamp"]))
        return self._decoded(batch, position)

    def _decoded(self, data: bytes, position: Position) -> Marker | None:
        try:
            batch = make_batch(data, file_position=position, path=self._path)
            record = next(iter(batch.records()), None)
            if record is None:
                return None
            marker = end_marker_of(record)
        except (DamagedFileError, UnsupportedCodecError, ValueError):
            return None
        return Marker(marker.type, marker.coordinator_epoch, record.timestamp)


def is_marker(rows: Table) -> npt.NDArray[np.bool_]:
    """Return which batches can end a transaction; not those emptied by compaction."""
    marked = holds_control(rows)
    marked &= (rows["producer_id"] >= 0) & (rows["record_count"] > 0)
    return marked


def steps(rows: Table, *, transactional: bool) -> list[int]:
    """Return the rows of batches that change the known state of a producer, in file order.

    These are all markers, and the first and last of a producer's data batches in a row with the same epoch and the same
    transactional bit.

    Args:
        rows: batch headers.
        transactional: only data batches of transactions with records, and of these only the first in a row.
    """
    chosen = (rows["magic"] == 2) & (rows["producer_id"] >= 0)
    if not chosen.any():
        return []
    in_transaction = (rows["attributes"] & TRANSACTIONAL_MASK) != 0
    markers = is_marker(rows)
    if transactional:
        chosen &= (in_transaction & (rows["record_count"] > 0)) | markers
    chosen &= markers | ~holds_control(rows)
    picked = chosen.nonzero()[0]
    order = picked[rows["producer_id"][picked].argsort(kind="stable")]
    producers, ends = rows["producer_id"][order], markers[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (producers[1:] != producers[:-1]) | ends[1:] | ends[:-1]
    if not transactional:
        epochs, inside = rows["producer_epoch"][order], in_transaction[order]
        begins[1:] |= (epochs[1:] != epochs[:-1]) | (inside[1:] != inside[:-1])
        lasts = np.ones(len(order), np.bool_)
        lasts[:-1] = begins[1:]
        begins |= lasts
    found: list[int] = np.sort(order[begins]).tolist()
    return found
