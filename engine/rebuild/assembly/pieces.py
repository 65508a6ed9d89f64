"""Pieces of a rebuilt log: ranges of good batches, and the bytes that are left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine.log.segment.chains import with_wrappers_opened
from engine.log.segment.damage import DamageKind
from engine.log.segment.resync import ScannedFile
from engine.log.segment.scan import BatchRun, Damage, scan
from engine.record.batch_frame import CURRENT_MAGIC, HEADER
from engine.units import MAX_INT32, Offset, Position

LARGEST_PIECE = 1024**3
REPAIRABLE = frozenset(DamageKind) | {
    "misplaced",
    "unloadable",
    "cannot_be_cut",
    "differs",
}
"""Kinds of bytes that are dropped for their content, not on request."""


class RecordsFile:
    """A records file of a source.

    Args:
        path: path for messages.
        base_offset: base offset in its name.
        open_file: returns the open file.
        copy: index of its copy of the partition, from 0.
    """

    __slots__ = ("_open", "base_offset", "copy", "path")

    def __init__(
        self, path: str, base_offset: Offset, open_file: Callable[[], ScannedFile], copy: int = 0
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.copy = copy
        self._open = open_file

    def __repr__(self) -> str:
        return f"RecordsFile({self.path!r})"

    @property
    def file(self) -> ScannedFile:
        """The open file. Raises OSError if it cannot be opened."""
        return self._open()


class Piece(NamedTuple):
    """Consecutive batches of a file with one leader epoch and ascending offsets.

    Attributes:
        origin: their records file; None for a rewritten batch with its bytes in `data`.
        position, size: bytes in that file.
        base_offset: offset of the first record; for a wrapper that does not inflate, the offset in
            its header.
        next_offset: one past the last batch's last offset.
        epoch: -1 before magic 2.
        batches, records: their numbers; a wrapper that does not inflate counts as one record.
        is_legacy: whether the first batch is of magic 0 or 1.
        data: see `origin`.
    """

    origin: RecordsFile | None
    position: Position
    size: int
    base_offset: Offset
    next_offset: Offset
    epoch: int
    batches: int
    records: int
    is_legacy: bool = False
    data: bytes = b""

    @property
    def end(self) -> Position:
        """End of the piece in its file."""
        return self.position + self.size

    def read(self, start: int, size: int) -> bytes:
        """Return bytes of the piece; `start` counts from its beginning."""
        if self.origin is None:
            return self.data[start : start + size]
        size = max(min(size, self.size - start), 0)
        return self.origin.file.read_at(self.position + start, size)

    def follows(self, other: Piece) -> bool:
        """Return whether the piece continues another one, so that the two can be one."""
        return (
            self.origin is not None
            and self.origin is other.origin
            and self.position == other.end
            and self.epoch == other.epoch
            and self.base_offset >= other.next_offset
            and self.next_offset - other.base_offset <= MAX_INT32
            and self.size + other.size <= LARGEST_PIECE
        )

    def joined_to(self, other: Piece) -> Piece:
        """Return one piece made of another one and this one."""
        return other._replace(
            size=other.size + self.size,
            next_offset=self.next_offset,
            batches=other.batches + self.batches,
            records=other.records + self.records,
        )

    def dropped(self, kind: str, reason: str, *, is_repaired: bool = False) -> Dropped:
        """Return the bytes of the piece as dropped."""
        return Dropped(
            "" if self.origin is None else self.origin.path,
            self.position,
            self.size,
            kind,
            reason,
            self.base_offset,
            self.next_offset - 1,
            is_repaired,
        )

    def runs(self) -> Iterator[BatchRun]:
        """Yield the batches again, with positions in their file, or from 0 for a rewritten batch."""
        if self.origin is None:
            file: ScannedFile = ScannedBytes(self.data)
            start, end = 0, len(self.data)
        else:
            file, start, end = self.origin.file, self.position, self.end
        for item in scan(file, start, end, path="", resync=False):
            if isinstance(item, BatchRun):
                yield with_wrappers_opened(item)
            elif isinstance(item, Damage):
                raise OSError(
                    f"the batch at {item.position} of {self} has changed since it was scanned"
                )
            del item  # free it before the next one is read: a batch may be as large as the budget


class Dropped(NamedTuple):
    """Bytes of a source that are not in the result.

    Attributes:
        path, position, size: file and place of the bytes.
        kind: a `DamageKind`, or "unreadable", "misplaced", "unloadable", "duplicate",
            "below_log_start", "outside", "diverged", "differs", "cannot_be_cut".
        reason: one sentence.
        first_offset, last_offset: range of offsets that may be lost, if known.
        is_repaired: whether the result has all of these offsets from elsewhere, or they were not requested.
    """

    path: str
    position: Position
    size: int
    kind: str
    reason: str
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    is_repaired: bool = False

    @property
    def is_loss(self) -> bool:
        """Whether records may be lost that the user wanted."""
        is_harmless = self.kind == DamageKind.ZERO_TAIL or self.is_repaired
        return self.kind in REPAIRABLE and not is_harmless


class ScannedBytes:
    """Bytes to scan, as a file."""

    path = "a rewritten batch"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: Position, size: int) -> bytes:
        """Return bytes, fewer only at the end."""
        return self._data[position : position + size]


def append_piece(pieces: list[Piece], piece: Piece, *, across_gaps: bool) -> None:
    """Append a piece, merging it into the last one if it continues that.

    With `across_gaps` merge also across missing offsets.
    """
    last = pieces[-1] if pieces else None
    if last is None or not piece.follows(last):
        pieces.append(piece)
    elif across_gaps or piece.is_legacy or piece.base_offset == last.next_offset:
        pieces[-1] = piece.joined_to(last)
    else:
        pieces.append(piece)


def coalesced(pieces: Sequence[Piece], *, across_gaps: bool) -> list[Piece]:
    """Return the pieces in order, with consecutive ones merged."""
    joined: list[Piece] = []
    for piece in pieces:
        append_piece(joined, piece, across_gaps=across_gaps)
    return joined


def where_expected(piece: Piece, before: Piece | None) -> Offset | None:
    """Return the first offset of a piece if no offset is missing before it, else None."""
    if piece.origin is None:
        return None
    if piece.position == 0:
        return piece.origin.base_offset
    if before is None or before.origin is not piece.origin or before.end != piece.position:
        return None
    return before.next_offset


def same_batch(pieces: Sequence[Piece], batch: Piece) -> bool:
    """Return whether the pieces have a batch with the same offsets and the same bytes except for its leader epoch."""
    at = bisect_right(pieces, batch.base_offset, key=lambda piece: piece.base_offset) - 1
    if at < 0 or pieces[at].next_offset <= batch.base_offset:
        return False
    found = pieces[at]
    for run in found.runs():
        rows = np.flatnonzero(run.table["base_offset"] == batch.base_offset)
        if len(rows):
            start = int(run.table["position"][rows[0]]) - found.position
            size = int(run.table["size"][rows[0]])
            return found.read(start, size)[16:] == batch.read(0, batch.size)[16:]
        if run.base_offset > batch.base_offset:
            return False
        del run
    return False


def rows_to_pieces(origin: RecordsFile, run: BatchRun, *, at_gaps: bool) -> Iterator[Piece]:
    """Yield the pieces of a run, split where the leader epoch changes; with `at_gaps` also at missing offsets."""
    table = run.table
    base, last, magic = table["base_offset"], table["last_offset"], table["magic"]
    epoch = np.where(magic >= 2, table["leader_epoch"], -1)
    records = np.maximum(table["record_count"], np.where(magic < 2, 1, 0))
    breaks = epoch[1:] != epoch[:-1]
    breaks |= table["position"][1:] != table["position"][:-1] + table["size"][:-1]
    if at_gaps:
        breaks |= (base[1:] != last[:-1] + 1) & (magic[1:] >= 2)
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1, [len(table)]))
    for first, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        position = int(table["position"][first])
        end = int(table["position"][stop - 1]) + int(table["size"][stop - 1])
        yield Piece(
            origin,
            position,
            end - position,
            int(base[first]),
            int(last[stop - 1]) + 1,
            int(epoch[first]),
            stop - first,
            int(np.maximum(records[first:stop], 0).sum()),
            bool(magic[first] < 2),
        )


def is_covered(pieces: Sequence[Piece], first: Offset, last: Offset) -> bool:
    """Return whether the pieces, in order, have no hole from `first` to `last`, both inclusive."""
    at = max(bisect_right(pieces, first, key=lambda piece: piece.base_offset) - 1, 0)
    for piece in pieces[at:]:
        if piece.next_offset <= first:
            continue
        if piece.base_offset > first:
            return False
        first = piece.next_offset
        if first > last:
            return True
    return first > last


def stated_end(file: ScannedFile, position: Position, expected: Offset | None) -> Offset | None:
    """Return the offset after a damaged batch if two fields of its header agree on it, else None."""
    head = file.read_at(position, HEADER.size)
    if len(head) < HEADER.size:
        return None
    header = HEADER.unpack(head)
    delta = header.last_offset_delta
    if header.magic != CURRENT_MAGIC or header.base_offset != expected or header.length <= 0:
        return None
    return header.base_offset + delta + 1 if 0 <= delta == header.record_count - 1 else None
