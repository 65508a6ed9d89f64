"""Lay out the pieces of a log in segments, so that a broker finds the same log start and log end.

If the last records are missing, a batch without records, as compaction leaves one, keeps the log
end: no offset is assigned twice, and consumers get past the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.rebuild.assembly.pieces import Piece
from engine.record.attributes import TimestampType
from engine.record.encoding.batch_encoding import encode_empty_batch
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import (
    MAX_INT32,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
)


class NewSegment(NamedTuple):
    """A segment to write; one without pieces is empty and only keeps the log end."""

    base_offset: Offset
    pieces: list[Piece]

    @property
    def size(self) -> int:
        """Bytes of the records file."""
        return sum(piece.size for piece in self.pieces)


def lay_out(
    pieces: Sequence[Piece],
    log_start: Offset,
    log_end: Offset,
    *,
    epochs: LeaderEpochCache | None = None,
    segment_bytes: int = 1024**3,
    ends_with_batch: bool = True,
) -> list[NewSegment]:
    """Return the segments of a log, with the source's base offsets where possible.

    Args:
        pieces: in offset order, not overlapping; none is larger than `segment_bytes`.
        log_start: log start offset.
        log_end: log end offset.
        epochs: leader epochs of the log.
        segment_bytes: largest size of a segment.
        ends_with_batch: whether batches without records may keep the log end; otherwise an empty
            segment does.
    """
    known = LeaderEpochCache() if epochs is None else epochs
    held = _end_of(pieces, log_start, log_end, known) if ends_with_batch else []
    segments: list[NewSegment] = []
    size = 0
    before: Piece | None = None
    for piece in [*pieces, *held]:
        if not segments or _begins_segment(segments[-1], size, before, piece, segment_bytes):
            end = log_start if before is None else before.next_offset
            segments.append(NewSegment(_base_of(piece, before is None, log_start, end), []))
            size = 0
        segments[-1].pieces.append(piece)
        size += piece.size
        before = piece
    end = log_start if before is None else before.next_offset
    if not segments or log_end > end:
        segments.append(NewSegment(max(end, log_end), []))
    return segments


def _end_of(
    pieces: Sequence[Piece], log_start: Offset, log_end: Offset, epochs: LeaderEpochCache
) -> list[Piece]:
    """Return batches without records, one for each leader epoch, with the offsets after the last piece."""
    start = pieces[-1].next_offset if pieces else log_start
    if start >= log_end or log_end - start > MAX_INT32:
        return []
    changes = [entry.start_offset for entry in epochs if start < entry.start_offset < log_end]
    before = pieces[-1].epoch if pieces else NO_PARTITION_LEADER_EPOCH
    held = []
    for first, following in pairwise([start, *changes, log_end]):
        epoch = epochs.epoch_for(first)
        held.append(_empty_batch(first, following, before if epoch is None else epoch))
    return held


def _empty_batch(first: Offset, following: Offset, epoch: int) -> Piece:
    data = encode_empty_batch(
        base_offset=first,
        last_offset=following - 1,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        partition_leader_epoch=epoch,
        timestamp_type=TimestampType.CREATE_TIME,
        timestamp=NO_TIMESTAMP,
        is_transactional=False,
        is_control=False,
    )
    return Piece(None, 0, len(data), first, following, epoch, 1, 0, data=bytes(data))


def _begins_segment(
    segment: NewSegment, size: int, before: Piece | None, piece: Piece, segment_bytes: int
) -> bool:
    if size + piece.size > segment_bytes or piece.next_offset - segment.base_offset > MAX_INT32:
        return True
    if before is None or before.origin is None or piece.origin is None:
        return False
    changes = piece.origin.base_offset != before.origin.base_offset
    return changes and before.next_offset <= piece.origin.base_offset <= piece.base_offset


def _base_of(piece: Piece, is_first: bool, log_start: Offset, end: Offset) -> Offset:
    """Return the base offset of the segment that starts with a piece; `end` is the end of the previous piece."""
    name = -1 if piece.origin is None else piece.origin.base_offset
    if is_first:
        if piece.base_offset < log_start and not piece.is_legacy:
            return piece.base_offset
        low = min(log_start, piece.base_offset)
        is_far = piece.next_offset - low > MAX_INT32
        return piece.base_offset if is_far and not piece.is_legacy else low
    if end <= name <= piece.base_offset and piece.next_offset - name <= MAX_INT32:
        return name
    return end if piece.is_legacy else piece.base_offset
