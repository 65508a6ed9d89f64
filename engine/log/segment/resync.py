"""What stands where a good batch should be, and where the next good one starts.

Two ways lead past damage: the frame of the damaged batch, when what it points to proves itself; and a
search byte by byte, in stretches of up to 16 MiB that overlap by half, so that a batch of up to 8 MiB is
found wherever it starts. A batch proves itself by its frame and its checksum.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from engine import kernel
from engine.budgets import Budgets, MiB
from engine.coding.checksums import crc32, crc32c
from engine.coding.fixed_width import read_int64
from engine.columns.batch_table import BATCH_DTYPE
from engine.files.unreadable import FilledFile, Stretch
from engine.log.segment.damage import DamageKind
from engine.log.segment.zeros import behind_hole, first_data
from engine.memory_gate import batches_read
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    HEAD,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
)
from engine.units import MAX_INT32, Offset, Position

_SMALLEST_SEARCH = 16 * 1024
_LARGEST_SEARCH = 16 * MiB
_MOST_HOPS = 1000
_MOST_INNER = 100


class ScannedFile(Protocol):
    """What a scan needs of a file."""

    @property
    def path(self) -> str:
        """The file's name for reports."""

    def read_at(self, position: Position, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only where the file ends. Raises UnreadableError."""


class Frame(NamedTuple):
    """What the header at a position says.

    Attributes:
        kind, reason: what is wrong with the batch; None and "" when nothing is.
        size: bytes of the batch; 0 when its frame leads nowhere.
        row: of BATCH_DTYPE, when the batch is whole and its header can be read.
        found: the value that is wrong, if it is one.
    """

    kind: DamageKind | None
    reason: str
    size: int = 0
    row: np.void | None = None
    found: int | None = None

    @property
    def base_offset(self) -> Offset | None:
        """The base offset of the batch when it is good."""
        return None if self.kind or self.row is None else int(self.row["base_offset"])


class Resync:
    """Looks around in the damaged parts of one file up to `end`.

    Bytes that cannot be read are taken for filler: a batch that touches some is never good.
    """

    __slots__ = ("_barren", "budgets", "end", "file")

    def __init__(self, file: ScannedFile, end: Position, budgets: Budgets) -> None:
        self.file = FilledFile(file)
        self.end = end
        self.budgets = budgets
        self._barren = False  # a search up to the end found nothing

    def frame(self, position: Position) -> Frame:
        """Judge the header at a position, and the batch behind it if it is whole."""
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
                DamageKind.BAD_LENGTH, "no batch is as short as this one states", found=length
            )
        if magic not in SMALLEST_BATCH:
            return Frame(
                DamageKind.UNKNOWN_MAGIC, "a batch of a format that is not known", found=magic
            )
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
        table = np.zeros(1, BATCH_DTYPE)
        rows, _, _ = kernel.walk(data, table, 0, position, True, largest=self.budgets.batch_bytes)
        if not rows:
            return Frame(DamageKind.TORN_TAIL, "the file ends inside a batch")
        if bad is not None:
            is_known = bad.position >= position + HEADER.size
            return Frame(DamageKind.UNREADABLE, bad.reason, size, table[0] if is_known else None)
        if table["crc_ok"][0]:
            return Frame(None, "", size, table[0])
        magic = data[MAGIC_POSITION]
        covered = memoryview(data)[CRC_COVERS_FROM[magic] :]
        found = crc32c(covered) if magic == CURRENT_MAGIC else crc32(covered)
        return Frame(
            DamageKind.CRC_MISMATCH, "the batch's checksum is wrong", size, table[0], found
        )

    def goes_on(self, position: Position, frame: Frame) -> bool:
        """Whether behind the good batch with this frame stands another one, or the end."""
        following = position + frame.size
        return following >= self.end or not self.frame(following).kind

    def base_offset(self, position: Position) -> Offset:
        """The base offset that the header at a position states."""
        return read_int64(self.file.read_at(position, 8))

    def first_data(self, position: Position) -> Position:
        """Where the first byte that is not zero lies, the end if there is none; holes are not read."""
        return first_data(self._fd, self.file.read_at, position, self.end)

    @property
    def _fd(self) -> int:
        """The file's descriptor, -1 for what has none."""
        return int(getattr(self.file.file, "fd", -1))

    def unreadable(self, position: Position, size: int) -> tuple[Stretch, ...]:
        """The unreadable stretches that touch [position, position + size), as far as they were met."""
        return self.file.met.all_in(position, position + size)

    def is_unreadable(self, position: Position) -> bool:
        """Whether the batch at a position, or its header, cannot be read whole."""
        return position < self.end and self.frame(position).kind is DamageKind.UNREADABLE

    def next_good(
        self, position: Position, frame: Frame, search_from: Position, min_offset: Offset
    ) -> Position | None:
        """Where the next good batch after a damaged one starts, None if there is none.

        Args:
            position, frame: of the damaged one.
            search_from: where a batch may start at the earliest, when it is found by searching.
            min_offset: a batch found by searching starts at this offset or later.
        """
        framed = self._framed(position, frame)
        limit = self.end if framed is None else framed
        inner = self._search(search_from, limit, min_offset)
        if inner is None:
            return framed
        if framed is not None:
            return inner if self._leads_to(inner, framed) else framed
        return self._outer(inner, limit, min_offset)

    def _framed(self, position: Position, frame: Frame) -> Position | None:
        """Where the damaged batch's frame leads to a good one, directly or over others that are damaged."""
        if frame.size:
            return self._follow(position + frame.size)
        if frame.kind is not DamageKind.UNKNOWN_MAGIC:
            return None
        head = self.file.read_at(position, HEAD.size)
        following = position + HEAD.unpack(head)[1] + LOG_OVERHEAD
        is_good = position < following < self.end and not self.frame(following).kind
        return following if is_good else None

    def _leads_to(self, position: Position, target: Position) -> bool:
        """Whether the chain of frames from a good batch reaches a place: one in a value does not."""
        for _ in range(_MOST_HOPS):
            if position >= target:
                return position == target
            size = self.frame(position).size
            if not size:
                return False
            position += size
        return False

    def _outer(self, inner: Position, limit: Position, min_offset: Offset) -> Position:
        """Past batches in a damaged one's value: nothing good follows them, and what comes contradicts them."""
        for _ in range(_MOST_INNER):
            frame = self.frame(inner)
            if self.goes_on(inner, frame):
                return inner
            later = self._search(inner + max(frame.size, 1), limit, min_offset)
            if later is None or frame.row is None:
                return inner
            if self.base_offset(later) > int(frame.row["last_offset"]):
                return inner
            inner = later
        return inner

    def _follow(self, position: Position) -> Position | None:
        """The first good batch on the chain of frames from here on."""
        for _ in range(_MOST_HOPS):
            if position >= self.end:
                return None
            frame = self.frame(position)
            if not frame.kind:
                return position
            if not frame.size:
                return None
            position += frame.size
        return None

    def _search(self, start: Position, limit: Position, min_offset: Offset) -> Position | None:
        if self._barren:
            return None
        window = _SMALLEST_SEARCH
        while start < limit:
            # In zeros no batch begins but for those that lead its first bytes, in unreadable bytes none.
            start = max(start, behind_hole(self._fd, start, self.end) - LOG_OVERHEAD)
            bad = self.file.met.first_in(start, start + 1)
            if bad is not None:
                start = bad.end
                continue
            data = self.file.read_at(start, min(window, self.end - start))
            index = self._find(data, start, min_offset)
            if index >= 0:
                return start + index if start + index < limit else None
            if start + len(data) >= self.end or len(data) < 2:
                self._barren = True
                return None
            start += len(data) // 2
            window = min(window * 4, _LARGEST_SEARCH)
        return None

    def _find(self, data: bytes, position: Position, min_offset: Offset) -> int:
        """A good batch that is not absurdly far ahead: a log spans 2^31 offsets a segment."""
        index = -1
        while True:
            index = kernel.find_batch(
                data, index + 1, position + index + 1, min_offset, largest=self.budgets.batch_bytes
            )
            if index < 0:
                return index
            base, length, _, _ = HEAD.unpack_from(data, index)
            start = position + index
            if base - min_offset <= MAX_INT32 and not self.unreadable(start, length + LOG_OVERHEAD):
                return index
