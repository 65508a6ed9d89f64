"""Scan a records file: yield runs of good batches, and the damage between them.

A batch is good when it is whole, its checksum is right and its offsets are possible. After damage the next good
batch is found by the frame of the damaged one, or else byte by byte. A good batch inside the stated length of a
damaged one counts: a wrong length must not hide the batches after it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.columns.batch_table import BATCH_DTYPE, Stop
from engine.columns.columns import Columns
from engine.errors import UnreadableError
from engine.files.unreadable import Stretch, stretch_of
from engine.log.segment.damage import DamageKind
from engine.log.segment.resync import Frame, Resync, ScannedFile, unproven_offsets
from engine.memory_gate import batches_read
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import HEAD, HEADER, LOG_OVERHEAD
from engine.units import MAX_INT64, Offset, Position

Table: TypeAlias = npt.NDArray[Any]

CHUNK = 1 * MiB
_ROWS = 4096
_BYTES_A_ROW = 256
_LEAST_BATCH = HEADER.size
_AFTER_DAMAGE = 16 * 1024
"""Bytes of the first read after damage; later reads are larger."""
_OPAQUE = np.dtype((np.void, BATCH_DTYPE.itemsize))


class BatchRun(NamedTuple):
    """Consecutive good batches in one buffer.

    Attributes:
        buffer: bytes of the file from `start_position` on.
        start_position: absolute position in the file.
        table: a row of BATCH_DTYPE for each batch, at least one; all checksums are right.
    """

    buffer: bytes
    start_position: Position
    table: Table

    @property
    def base_offset(self) -> Offset:
        """Base offset in the first batch's header."""
        return int(self.table["base_offset"][0])

    @property
    def next_offset(self) -> Offset:
        """One past the last batch's last offset."""
        return int(self.table["last_offset"][-1]) + 1

    @property
    def position(self) -> Position:
        """Position of the first batch in the file."""
        return int(self.table["position"][0])

    @property
    def end_position(self) -> Position:
        """Position after the last batch in the file."""
        return int(self.table["position"][-1]) + int(self.table["size"][-1])

    def columns(
        self, table: Table | None = None, budgets: Budgets = DEFAULT_BUDGETS
    ) -> Iterator[Columns]:
        """Yield the records of some batches at a time, as many as `kernel.decode` has room for.

        Args:
            table: rows of the run to decode instead of all; row numbers in the columns are those of this table.
            budgets: limits for each batch.
        """
        rows = self.table if table is None else table
        first = 0
        while first < len(rows):
            found = kernel.decode(
                self.buffer,
                rows,
                first,
                len(rows),
                start_position=self.start_position,
                budgets=budgets,
            )
            yield found
            first = found.next_row


class Damage(NamedTuple):
    """Bytes of a records file that are not good batches.

    Attributes:
        path, position, length: place of the bytes.
        kind, reason: kind of damage, and a sentence about it.
        expected, found: the right and the wrong value; None without them.
        first_offset, last_offset: offsets that the bytes may have held, where known.
        stretches: unreadable bytes in whole blocks; the first and the last may reach beyond the damage.
        unproven: first and last offsets of records on readable bytes of an uncompressed batch that no
            checksum proves; they are not in the runs.
    """

    path: str
    position: Position
    length: int
    kind: DamageKind
    reason: str
    expected: int | None = None
    found: int | None = None
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    stretches: tuple[Stretch, ...] = ()
    unproven: tuple[tuple[Offset, Offset], ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether the damage is harmless: the bytes never held a record."""
        return self.kind.is_quiet


class Disorder(NamedTuple):
    """A good batch with an offset that is not above the one before it; the batch is in the next run.

    Attributes:
        path, position, length: place of the batch.
        reason: a sentence.
        expected: smallest offset that belongs there.
        found: offset that is out of order.
        first_offset, last_offset: offsets in the batch's header.
    """

    path: str
    position: Position
    length: int
    reason: str
    expected: Offset
    found: Offset
    first_offset: Offset
    last_offset: Offset

    @property
    def kind(self) -> str:
        """The kind in reports, which is not a `DamageKind`."""
        return "offset_order"

    @property
    def is_quiet(self) -> bool:
        """Whether it is harmless: never."""
        return False


ScanItem: TypeAlias = BatchRun | Damage | Disorder


def scan(
    file: ScannedFile,
    start: Position,
    end: Position,
    *,
    path: str | None = None,
    next_offset: Offset | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    chunk: int = CHUNK,
    resync: bool = True,
) -> Iterator[ScanItem]:
    """Return the runs and the damage in [start, end) of a records file, in file order.

    A file that ends before `end` ends the scan.

    Args:
        file: a SourceFile, or another file that is read by position.
        start: position at which a batch should start.
        end: position to stop at; a batch that crosses it is a torn tail.
        path: path for reports, by default that of the file.
        next_offset: smallest offset that is in order; None for any.
        budgets: `batch_bytes` is the largest batch.
        chunk: bytes to read at a time; a larger batch is read whole.
        resync: look for good batches after damage; without it the first damage ends the scan.
    """
    items = _Scan(file, end, path or file.path, next_offset, budgets, chunk, resync).run(start)
    return items if resync else _up_to_damage(items)


def _up_to_damage(items: Iterable[ScanItem]) -> Iterator[ScanItem]:
    """Yield the items of a scan up to the first damage, with it."""
    for item in items:
        yield item
        if isinstance(item, Damage):
            return
        del item  # free it before the next read


def whole_run(
    file: ScannedFile, size: Position, base_offset: Offset, *, budgets: Budgets = DEFAULT_BUDGETS
) -> BatchRun | None:
    """Return a small file as one run, with an empty table for an empty file; None unless a scan would yield just that.

    Args:
        file: the records file.
        size: its size.
        base_offset: the smallest offset that is in order.
        budgets: `batch_bytes` is the largest batch.
    """
    try:
        buffer = file.read_at(0, size) if size else b""
    except UnreadableError:
        return None
    table = np.empty(size // _LEAST_BATCH + 1, BATCH_DTYPE)
    rows, consumed, _ = kernel.walk(buffer, table, 0, 0, True, largest=budgets.batch_bytes)
    if consumed != size:
        return None
    table = table[:rows]
    expected = base_offset
    for base, last, is_right in zip(
        table["base_offset"].tolist(),
        table["last_offset"].tolist(),
        table["crc_ok"].tolist(),
        strict=True,
    ):
        if not (is_right and expected <= base <= last < MAX_INT64):
            return None
        expected = last + 1
    return BatchRun(buffer, 0, table)


def headers(items: Iterable[ScanItem]) -> Iterator[Table | Damage | Disorder]:
    """Yield the tables of a scan's runs, and the damage; frees the bytes of a run before the next read."""
    for item in items:
        found = item.table if isinstance(item, BatchRun) else item
        del item
        yield found


def tables(items: Iterable[ScanItem]) -> Iterator[Table]:
    """Yield the tables of a scan's runs; frees the bytes of a run before the next read."""
    for item in items:
        found = item.table if isinstance(item, BatchRun) else None
        del item
        if found is not None:
            yield found


class _Scan:
    """State of one scan; `expected` is the offset after the last good batch."""

    def __init__(
        self,
        file: ScannedFile,
        end: Position,
        path: str,
        expected: Offset | None,
        budgets: Budgets,
        chunk: int,
        resync: bool,
    ) -> None:
        self.file = file
        self.end = end
        self.path = path
        self.expected = expected
        self.budgets = budgets
        self.chunk = max(chunk, HEADER.size)
        self.resync = resync
        self.damage: Resync | None = None
        self.scratch = np.empty(max(_ROWS, self.chunk // _BYTES_A_ROW), BATCH_DTYPE)

    def run(self, position: Position) -> Iterator[ScanItem]:
        """Scan from a position on."""
        size = self.chunk
        while position < self.end:
            wanted = min(size, self.end - position)
            with batches_read.room(wanted):
                buffer, is_cut = self._read(position, wanted)
                if len(buffer) < wanted and not is_cut:
                    self.end = position + len(buffer)
                    if not buffer:
                        return
                stopped, stop = yield from self._runs_of(buffer, position)
                needed = 0
                if stop == Stop.NEED_MORE and not is_cut:
                    needed = _stated_size(buffer, stopped - position)
                del buffer  # free it before the next read: a batch may be as large as the budget
            if needed and stopped + needed <= self.end:
                position, size = stopped, max(needed, min(4 * size, self.chunk))
                continue
            position, size = stopped, min(self.chunk, _AFTER_DAMAGE)
            if stop != Stop.TABLE_FULL and position < self.end:
                position = yield from self._pass_damage(position)

    def _read(self, position: Position, size: int) -> tuple[bytes, bool]:
        """Return the bytes up to the first unreadable one, and whether there is one."""
        is_cut = False
        while True:
            try:
                return self.file.read_at(position, size) if size else b"", is_cut
            except UnreadableError as error:
                self._look_around().file.met.add(stretch_of(error))
                size, is_cut = max(error.position - position, 0), True

    def _runs_of(
        self, buffer: bytes, position: Position
    ) -> Generator[ScanItem, None, tuple[Position, int]]:
        """Yield the good batches of a buffer; return the position after them and the Stop, TABLE_FULL to go on there."""
        index = 0
        while True:
            rows, consumed, stop = kernel.walk(
                buffer,
                self.scratch,
                index,
                position + index,
                True,
                largest=self.budgets.batch_bytes,
            )
            if rows:
                # Copied as opaque bytes: numpy copies a structure field by field, 20 times slower.
                table = self.scratch.view(_OPAQUE)[:rows].copy().view(BATCH_DTYPE)
                bad = yield from self._good_rows(buffer, position, table)
                if bad is not None:
                    return (yield from self._pass_bad_batch(table[bad])), Stop.TABLE_FULL
            index += consumed
            if stop != Stop.TABLE_FULL:
                return position + index, stop

    def _good_rows(
        self, buffer: bytes, position: Position, table: Table
    ) -> Generator[ScanItem, None, int | None]:
        """Yield the rows up to the first that is not good; return the number of that row."""
        base, last = table["base_offset"], table["last_offset"]
        good = (table["crc_ok"] != 0) & (base >= 0) & (last >= base) & (last < MAX_INT64)
        bad = None if good.all() else int(np.argmin(good))
        count = len(table) if bad is None else bad
        back = (base[1:count] <= last[: max(count - 1, 0)]).nonzero()[0] + 1
        first = 0
        for stop in [*back.tolist(), count] if count else ():
            if self.expected is not None and base[first] < self.expected:
                yield self._out_of_order(table[first], self.expected)
            self.expected = int(last[stop - 1]) + 1
            yield BatchRun(buffer, position, table[first:stop])
            first = stop
        return bad

    def _out_of_order(self, row: np.void, expected: Offset) -> Disorder:
        return Disorder(
            self.path,
            int(row["position"]),
            int(row["size"]),
            "the batch's offset is not above the one before it",
            expected=expected,
            found=int(row["base_offset"]),
            first_offset=int(row["base_offset"]),
            last_offset=int(row["last_offset"]),
        )

    def _pass_bad_batch(self, row: np.void) -> Generator[Damage, None, Position]:
        """Pass a batch that is whole but not good; return the position to go on at."""
        position, size = int(row["position"]), int(row["size"])
        if not row["crc_ok"]:
            return (yield from self._pass_damage(position))
        found = int(row["base_offset"])
        reason = "a batch with impossible offsets"
        yield Damage(
            self.path,
            position,
            size,
            DamageKind.BAD_OFFSETS,
            reason,
            found=found,
            first_offset=self.expected,
        )
        return position + size

    def _pass_damage(self, position: Position) -> Generator[Damage, None, Position]:
        """Pass damage; return the position of the next good batch, or the end."""
        damage, min_offset = self._look_around(), max(self.expected or 0, 0)
        frame = damage.frame(position)
        following = None
        if self.resync:
            data = damage.first_data(position) if frame.kind is DamageKind.ZEROS else position
            if data < self.end:
                # A batch's first bytes may be zeros: a small offset, the high bytes of its length.
                start = max(position + 1, data - LOG_OVERHEAD)
                following = damage.next_good(position, frame, start, min_offset)
        if following is None and self._is_tail(position, frame):
            yield self._tail(position, frame)
            return self.end
        until = self.end if following is None else following
        next_base = None if following is None else damage.base_offset(following)
        first = self.expected
        while position < until:
            frame = damage.frame(position)
            if not frame.kind:
                return position
            whole = frame.size > 0 and position + frame.size <= until
            size = frame.size if whole else until - position
            lost = self._lost(position, size, frame, first, next_base)
            yield lost
            if lost.stretches and whole and lost.last_offset is not None:
                first = lost.last_offset + 1
            position += size
        return until

    def _look_around(self) -> Resync:
        if self.damage is None:
            self.damage = Resync(self.file, self.end, self.budgets)
        return self.damage

    def _is_tail(self, position: Position, frame: Frame) -> bool:
        """Return whether the bytes from a position on, without a good batch, are a torn tail or zeros."""
        if frame.kind is not DamageKind.ZEROS or self.damage is None:
            return frame.kind is DamageKind.TORN_TAIL
        return self.damage.first_data(position) >= self.end

    def _tail(self, position: Position, frame: Frame) -> Damage:
        """Return the damage of a tail without any whole batch."""
        assert frame.kind is not None
        length = self.end - position
        kind, reason = frame.kind, frame.reason
        if kind is DamageKind.ZEROS:
            kind, reason = DamageKind.ZERO_TAIL, "zeros up to the end of the file"
        return self._as_unreadable(
            Damage(
                self.path,
                position,
                length,
                kind,
                reason,
                found=frame.found,
                first_offset=self.expected,
            )
        )

    def _as_unreadable(self, damage: Damage) -> Damage:
        """Return the damage, as kind "unreadable" where some of its bytes are unreadable."""
        stretches = self._look_around().unreadable(damage.position, damage.length)
        if not stretches:
            return damage
        reason = stretches[0].reason
        if len(stretches) > 1:
            reason += f", and {len(stretches) - 1} more stretches"
        return damage._replace(
            kind=DamageKind.UNREADABLE,
            reason=reason,
            expected=None,
            found=None,
            stretches=stretches,
        )

    def _lost(
        self,
        position: Position,
        size: int,
        frame: Frame,
        first: Offset | None,
        next_base: Offset | None,
    ) -> Damage:
        """Return the damage of one batch, or of all the bytes where its frame is not usable."""
        if next_base is None and self._is_tail(position, frame):
            return self._tail(position, frame)
        assert frame.kind is not None
        kind, reason = frame.kind, frame.reason
        if kind is DamageKind.TORN_TAIL:
            kind, reason = DamageKind.BAD_LENGTH, "a batch that states more bytes than the file has"
        expected, last = None, None if next_base is None else next_base - 1
        if frame.row is not None:
            expected = int(frame.row["crc"])
            base, end = int(frame.row["base_offset"]), int(frame.row["last_offset"])
            if (first or 0) <= base <= end and (last is None or end <= last):
                is_wrapper = frame.row["magic"] < 2 and frame.row["attributes"] & COMPRESSION_MASK
                first, last = first if is_wrapper else base, end
        damage = self._as_unreadable(
            Damage(self.path, position, size, kind, reason, expected, frame.found, first, last)
        )
        if frame.row is None or not damage.stretches:
            return damage
        unproven = unproven_offsets(self._look_around().file, frame.row, damage.stretches)
        return damage._replace(unproven=unproven)


def _stated_size(buffer: bytes, index: int) -> int:
    """Return the size that the header at an index states; the size of a header when that is not whole."""
    if len(buffer) - index < HEAD.size:
        return HEAD.size
    length: int = HEAD.unpack_from(buffer, index)[1]
    return length + LOG_OVERHEAD
