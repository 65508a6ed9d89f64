"""Judge damaged bytes, and find the next good batch after them.

Two ways lead past damage: the frame of the damaged batch, when a good batch or the end is behind it; and a search
byte by byte, in windows of up to 16 MiB that overlap by half. A batch that reaches beyond its window is read by
itself. A batch is good when its frame and its checksum are right.

The search also finds good batches inside the value of a damaged one, where another log was copied. Two signs tell
them from the log's own. The checksum does not cover the length: when it is right up to a later good batch, or up to
the end, the damaged batch ends there. Without such a place, a single good batch is compared with the next good
one, and with the next that another follows directly: it is skipped when one of them has lower offsets.

Where the offsets of the segment are known, a good batch with any of them is found, also one below those before the
damage: which batches are in their place is decided afterwards (`ordered_scan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine import kernel
from engine.arrays import np
from engine.budgets import Budgets, MiB
from engine.coding.checksums import crc32, crc32c
from engine.coding.fixed_width import read_int64, read_uint32
from engine.columns.batch_table import BATCH_ROW, BatchRow
from engine.files.source_files import SourceFile
from engine.files.unreadable import FilledFile, Stretch
from engine.files.zeros import behind_hole, first_data
from engine.log.segment.damage import DamageKind
from engine.memory_gate import batches_read
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CRC_POSITION,
    CURRENT_MAGIC,
    HEAD,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
)
from engine.units import MAX_INT32, MAX_INT64, Offset, Position

_SMALLEST_SEARCH = 16 * 1024
_LARGEST_SEARCH = 16 * MiB
_MOST_PROOFS = 256 * MiB
_MOST_HOPS = 1000
_MOST_RANGES = 100


@dataclass(slots=True)
class OffsetBounds:
    """The offsets that a segment can have: [lower, upper).

    Attributes:
        lower: its base offset.
        next_base: base offset of the next segment.
        overhangs: returns whether the segment was written beyond `next_base`; asked only where it matters.
    """

    lower: Offset = 0
    next_base: Offset = MAX_INT64
    overhangs: Callable[[], bool] = field(default=bool, compare=False)

    @property
    def upper(self) -> Offset:
        """One past the last offset."""
        return MAX_INT64 if self.overhangs() else self.next_base

    def is_above(self, offset: Offset) -> bool:
        """Return whether an offset is one of another segment behind this one."""
        return offset >= self.next_base and not self.overhangs()

    def begins_above(self, expected: Offset | None, offset: Offset) -> bool:
        """Return whether the segment begins above an offset, and a scan does not know it: it began inside the file."""
        return offset < self.lower and (expected or 0) < self.lower


class ScannedFile(Protocol):
    """The part of a file that a scan uses."""

    @property
    def path(self) -> str:
        """Path for reports."""

    def read_at(self, position: Position, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file. Raises UnreadableError."""


class Frame(NamedTuple):
    """The header at a position, judged.

    Attributes:
        kind, reason: damage of the batch; None and "" for a good one.
        size: size of the batch in bytes; 0 when its length is not usable.
        row: row of BATCH_ROW, when the batch is whole and its header can be read.
        found: the wrong value, where there is one.
    """

    kind: DamageKind | None
    reason: str
    size: int = 0
    row: BatchRow | None = None
    found: int | None = None

    @property
    def base_offset(self) -> Offset | None:
        """Base offset of a good batch; None for a damaged one."""
        return None if self.kind or self.row is None else self.row.base_offset


class Resync:
    """Search through the damaged parts of one file, up to `end`.

    Unreadable bytes are read as filler; a batch that touches some is never good.
    """

    __slots__ = (
        "_barren_from",
        "_chain",
        "_chain_from",
        "_proofs",
        "_room",
        "bounds",
        "budgets",
        "end",
        "file",
    )

    def __init__(
        self,
        file: ScannedFile,
        end: Position,
        budgets: Budgets,
        bounds: OffsetBounds | None = None,
    ) -> None:
        self.file = FilledFile(file)
        self.end = end
        self.budgets = budgets
        self.bounds = bounds
        self._barren_from = end  # no good batch starts from here on
        self._chain_from = end  # between it and `_chain` no good batch is followed by another
        self._chain: Position = end
        # Bytes that `_true_end` and `_longer` may still read: what they look at overlaps.
        self._room = end + _LARGEST_SEARCH
        self._proofs = end + _MOST_PROOFS

    def frame(self, position: Position) -> Frame:
        """Judge the header at a position, and its batch if that is whole."""
        head = self.file.read_at(position, min(HEADER.size, self.end - position))
        if len(head) < HEAD.size:
            return Frame(DamageKind.TORN_TAIL, "the file ends inside a batch's header")
        _, length, _, magic = HEAD.unpack_from(head)
        size = length + LOG_OVERHEAD
        bad = self.file.met.first_in(position + LENGTH_POSITION, position + HEAD.size)
        if bad is not None:
            return Frame(DamageKind.UNREADABLE, bad.reason)
        if not any(head):
            return Frame(DamageKind.ZEROS, "zeros where a batch should be")
        if length < SMALLEST_LENGTH:
            return Frame(
                DamageKind.BAD_LENGTH,
                "the batch states a length below that of any batch",
                found=length,
            )
        if magic not in SMALLEST_BATCH:
            return Frame(DamageKind.UNKNOWN_MAGIC, "a batch of an unknown format", found=magic)
        if size < SMALLEST_BATCH[magic]:
            return Frame(DamageKind.BAD_LENGTH, "a batch shorter than its own header", found=length)
        if position + size > self.end:
            return Frame(DamageKind.TORN_TAIL, "the file ends inside a batch", found=length)
        if size > self.budgets.batch_bytes:
            return Frame(DamageKind.BATCH_TOO_LARGE, "a batch above the limit", size, found=length)
        return self._whole(position, size)

    def _whole(self, position: Position, size: int) -> Frame:
        with batches_read.room(size):
            return self._judge(self.file.read_at(position, size), position, size)

    def _judge(self, data: bytes, position: Position, size: int) -> Frame:
        bad = self.file.met.first_in(position, position + size)
        row = only_row(data, position, self.budgets.batch_bytes)
        if row is None:
            return Frame(DamageKind.TORN_TAIL, "the file ends inside a batch")
        if bad is not None:
            is_known = bad.position >= position + HEADER.size
            return Frame(DamageKind.UNREADABLE, bad.reason, size, row if is_known else None)
        if row.crc_ok:
            return Frame(None, "", size, row)
        magic = data[MAGIC_POSITION]
        covered = memoryview(data)[CRC_COVERS_FROM[magic] :]
        found = crc32c(covered) if magic == CURRENT_MAGIC else crc32(covered)
        return Frame(DamageKind.CRC_MISMATCH, "the batch's checksum is wrong", size, row, found)

    def goes_on(self, position: Position, frame: Frame) -> bool:
        """Return whether the good batch with this frame is followed by another good one, or by the end."""
        following = position + frame.size
        return following >= self.end or not self.frame(following).kind

    def base_offset(self, position: Position) -> Offset:
        """Return the first offset of the good batch at a position; a wrapper of magic 0 or 1 is opened for it."""
        row = self.frame(position).row
        if row is None:
            return read_int64(self.file.read_at(position, 8))
        if row.magic < CURRENT_MAGIC and row.attributes & COMPRESSION_MASK:
            table = np.array([tuple(row)], BATCH_ROW.dtype)
            data = self.file.read_at(position, row.size)
            offsets = kernel.decode(
                data, table, 0, 1, start_position=position, budgets=self.budgets
            ).offset
            return int(offsets[0]) if len(offsets) else row.base_offset
        return row.base_offset

    def first_data(self, position: Position) -> Position:
        """Return the position of the first byte that is not zero, the end without one; holes are not read."""
        return first_data(self._fd, self.file.read_at, position, self.end)

    @property
    def _fd(self) -> int:
        """Descriptor of the file, -1 for one without, and for a stored file, whose holes are not the object's."""
        file = self.file.file
        return file.fd if type(file) is SourceFile else -1

    def unreadable(self, position: Position, size: int) -> tuple[Stretch, ...]:
        """Return the unreadable stretches met so far that touch [position, position + size)."""
        return self.file.met.all_in(position, position + size)

    def is_unreadable(self, position: Position) -> bool:
        """Return whether bytes of the batch at a position are unreadable."""
        return position < self.end and self.frame(position).kind is DamageKind.UNREADABLE

    def next_good(
        self, position: Position, frame: Frame, search_from: Position, min_offset: Offset
    ) -> Position | None:
        """Return the position of the next good batch after a damaged one, None without one.

        Args:
            position, frame: position and frame of the damaged batch.
            search_from: first position of the search byte by byte.
            min_offset: smallest base offset that the search accepts where the segment's bounds are not known.
        """
        if self.bounds is not None:
            min_offset = self.bounds.lower
        framed = self._framed(position, frame)
        limit = self.end if framed is None else framed
        inner = self._search(search_from, limit, min_offset)
        if inner is None:
            return framed if framed != self.end else None
        true_end = self._true_end(position, inner, limit, min_offset)
        if true_end is not None:
            return true_end if true_end < self.end else None
        if framed is not None and self._leads_to(inner, framed):
            return inner
        if framed is not None:
            return framed if framed < self.end else None
        return inner if self.bounds is not None else self._outer(inner, min_offset)

    def _framed(self, position: Position, frame: Frame) -> Position | None:
        """Return the good batch, or the end, that the frame leads to, directly or by the frames of other damaged batches."""
        if frame.size:
            return self._follow(position + frame.size)
        if frame.kind is not DamageKind.UNKNOWN_MAGIC:
            return None
        head = self.file.read_at(position, HEAD.size)
        following = position + HEAD.unpack(head)[1] + LOG_OVERHEAD
        is_good = position < following < self.end and not self.frame(following).kind
        return following if is_good else None

    def _leads_to(self, position: Position, target: Position) -> bool:
        """Return whether good batches reach from a position to another one; those inside a value do not."""
        for _ in range(_MOST_HOPS):
            if position >= target:
                return position == target
            frame = self.frame(position)
            if frame.kind:
                return False
            position += frame.size
        return False

    def _true_end(
        self, position: Position, inner: Position, limit: Position, min_offset: Offset
    ) -> Position | None:
        """Return the first good batch from `inner` on, or the limit, up to which a damaged batch's checksum is right.

        None without one in the 16 MiB from the damaged batch on.
        """
        head = self.file.read_at(position, HEADER.size)
        magic = head[MAGIC_POSITION] if len(head) > MAGIC_POSITION else -1
        index, room = inner - position, min(_LARGEST_SEARCH, self._room)
        if magic not in SMALLEST_BATCH or index < SMALLEST_BATCH[magic] or index > room:
            return None
        stored, checksum = read_uint32(head, CRC_POSITION[magic]), crc32
        if magic == CURRENT_MAGIC:
            checksum = crc32c
        covered = CRC_COVERS_FROM[magic]
        found = checksum(memoryview(self.file.read_at(position, index))[covered:])
        if found == stored:
            return inner
        data = self.file.read_at(position, min(room, self.end - position))
        self._room -= len(data)
        view, last = memoryview(data), min(limit - position, len(data))
        while index < last:
            size = HEAD.unpack_from(data, index)[1] + LOG_OVERHEAD
            following = self._find(data, position, min_offset, index + size)
            following = last if following < 0 else min(following, last)
            found = checksum(view[index:following], found)
            index = following
            if found == stored and (index < last or position + index == limit):
                return position + index
        return None

    def _outer(self, inner: Position, min_offset: Offset) -> Position:
        """Skip single good batches that later offsets contradict: they are inside a damaged batch's value."""
        while True:
            frame = self.frame(inner)
            if frame.row is None or self.goes_on(inner, frame):
                return inner
            behind = inner + max(frame.size, 1)
            later = self._search(behind, self.end, min_offset)
            if later is None:
                return inner
            bases = [self.base_offset(later)]
            chain = self._next_chain(behind, min_offset)
            if chain is not None:
                bases.append(self.base_offset(chain))
            if min(bases) > frame.row.last_offset:
                return inner
            inner = later

    def _next_chain(self, position: Position, min_offset: Offset) -> Position | None:
        """Return the first good batch from a position on that goes on; it is remembered, so each byte is searched once."""
        start = position
        if self._chain_from <= position <= self._chain:
            if self._chain >= self.end:
                return None
            if self.base_offset(self._chain) >= min_offset:
                return self._chain
            start = self._chain
        found = self._search(start, self.end, min_offset)
        while found is not None:
            frame = self.frame(found)
            if self.goes_on(found, frame):
                break
            found = self._search(found + max(frame.size, 1), self.end, min_offset)
        self._chain_from, self._chain = position, self.end if found is None else found
        return found

    def _follow(self, position: Position) -> Position | None:
        """Return the first good batch, or the end, on the chain of frames from a position."""
        for _ in range(_MOST_HOPS):
            if position >= self.end:
                return self.end if position == self.end else None
            frame = self.frame(position)
            if not frame.kind:
                return position
            if not frame.size:
                return None
            position += frame.size
        return None

    def _search(self, start: Position, limit: Position, min_offset: Offset) -> Position | None:
        first, limit = start, min(limit, self._barren_from)
        window = _SMALLEST_SEARCH
        while start < limit:
            # No batch starts in unreadable bytes, nor in zeros except in the last few.
            start = max(start, behind_hole(self._fd, start, self.end) - LOG_OVERHEAD)
            bad = self.file.met.first_in(start, start + 1)
            if bad is not None:
                start = bad.end
                continue
            data = self.file.read_at(start, min(window, self.end - start))
            index = self._find(data, start, min_offset)
            longer = self._longer(data, start, min_offset, index if index >= 0 else len(data) // 2)
            index = index if longer is None else longer
            if index >= 0:
                return start + index if start + index < limit else None
            if start + len(data) >= self.end or len(data) < 2:
                self._barren_from = min(self._barren_from, first)
                return None
            start += len(data) // 2
            window = min(window * 4, _LARGEST_SEARCH)
        return None

    def _longer(self, data: bytes, position: Position, min_offset: Offset, stop: int) -> int | None:
        """Return the index below `stop` of the first good batch that reaches beyond the bytes; None without one."""
        if position + len(data) >= self.end:
            return None
        octets = np.frombuffer(data, np.uint8)
        for first in range(0, stop, _SMALLEST_SEARCH):
            rows = np.arange(first, min(first + _SMALLEST_SEARCH, stop))
            rows = rows[octets[rows + MAGIC_POSITION] <= CURRENT_MAGIC]
            words = octets[rows[:, None] + np.arange(LOG_OVERHEAD)]
            bases = np.ascontiguousarray(words[:, :LENGTH_POSITION]).view(">i8")[:, 0]
            sizes = np.ascontiguousarray(words[:, LENGTH_POSITION:]).view(">i4")[:, 0]
            sizes = sizes.astype(np.int64) + LOG_OVERHEAD
            fits = (sizes > len(data) - rows) & (sizes <= self.budgets.batch_bytes)
            fits &= (rows + sizes <= self.end - position) & (bases >= min_offset)
            fits &= bases <= self._most(min_offset)
            for index, size in zip(rows[fits].tolist(), sizes[fits].tolist(), strict=True):
                if size > self._proofs:
                    return None
                self._proofs -= size
                if not self.frame(position + index).kind:
                    return int(index)
        return None

    def _most(self, min_offset: Offset) -> Offset:
        """Return the largest base offset that a search accepts."""
        upper = MAX_INT64 if self.bounds is None else self.bounds.upper
        return min(min_offset + MAX_INT32, upper - 1)

    def _find(self, data: bytes, position: Position, min_offset: Offset, start: int = 0) -> int:
        """Return the index, from `start` on, of a good batch less than 2^31 offsets ahead; -1 without one."""
        most = self._most(min_offset)
        index = start - 1
        while True:
            index = kernel.find_batch(
                data, index + 1, position + index + 1, min_offset, largest=self.budgets.batch_bytes
            )
            if index < 0:
                return index
            base, length, _, _ = HEAD.unpack_from(data, index)
            place = position + index
            if base <= most and not self.unreadable(place, length + LOG_OVERHEAD):
                return index


def only_row(data: bytes, position: Position, largest: int) -> BatchRow | None:
    """Return the header of the batch at the start of the bytes, with its checksum compared; None when it is cut off.

    Args:
        data: bytes of a file from `position` on.
        largest: size of the largest batch.
    """
    row = bytearray(BATCH_ROW.size)
    rows, _, _ = kernel.walk(data, row, 0, position, True, largest=largest)
    return BATCH_ROW.unpack(row) if rows else None


def unproven_offsets(
    file: FilledFile, row: BatchRow, stretches: Sequence[Stretch]
) -> tuple[tuple[Offset, Offset], ...]:
    """Return first and last offsets of runs of records that touch no unreadable stretch, at most 100 runs.

    The records are unproven: the checksum of their batch covers the unreadable bytes. Compressed batches and
    batches of magic 0 and 1 have no such records.

    Args:
        file: file of the batch.
        row: row of BATCH_ROW of the batch.
        stretches: unreadable stretches that touch the batch.
    """
    if row.magic < 2 or row.attributes & COMPRESSION_MASK:
        return ()
    position, size = row.position, row.size
    table = np.array([tuple(row)], BATCH_ROW.dtype)
    columns = kernel.decode(file.read_at(position, size), table, 0, 1, start_position=position)
    records = columns.table
    ends = position + records["headers_start"] + records["headers_size"]
    starts = np.concatenate(([position + HEADER.size], ends[:-1])) if len(ends) else ends
    can_be_read = np.ones(len(ends), bool)
    for stretch in stretches:
        can_be_read &= (ends <= stretch.position) | (starts >= stretch.end)
    offsets = columns.offset[can_be_read]
    if not len(offsets):
        return ()
    breaks = (np.diff(offsets) != 1).nonzero()[0]
    firsts = np.concatenate(([0], breaks + 1))[:_MOST_RANGES]
    lasts = np.concatenate((breaks, [len(offsets) - 1]))[:_MOST_RANGES]
    return tuple(zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True))


def stated_size(buffer: bytes, index: int) -> int:
    """Return the size that the header at an index states; the size of a header when that is not whole."""
    if len(buffer) - index < HEAD.size:
        return HEAD.size
    length: int = HEAD.unpack_from(buffer, index)[1]
    return length + LOG_OVERHEAD
