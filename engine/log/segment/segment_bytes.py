"""The records file of a segment up to the end of its batches: read by position, or scanned.

Files are opened at the first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice

from engine import kernel
from engine.arrays import np
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.fixed_width import read_int32, read_int64
from engine.columns.batch_table import BATCH_ROW, BatchRows, Table
from engine.errors import KafkaStorageError
from engine.files.file_names import offset_index_name, time_index_name, transaction_index_name
from engine.files.source_files import SourceFile
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.segment import orders
from engine.log.segment.open_segments import OpenSegment, SegmentFiles
from engine.log.segment.ordered_scan import decided_first, decided_where_needed
from engine.log.segment.resync import OffsetBounds
from engine.log.segment.scan import CHUNK, BatchRun, FileScan, ScanItem, scan
from engine.record.batch_frame import CURRENT_MAGIC, HEADER, MAGIC_POSITION
from engine.record.file_records import FileRecords
from engine.units import MAX_INT32, MAX_INT64, Offset, OffsetPosition, Position

_SOME_BYTES = 64 * 1024
_SOME_ENTRIES = 64
_LAST_OFFSET_DELTA = HEADER.position_of("last_offset_delta")


@dataclass(slots=True, eq=False, repr=False)
class SegmentBytes:
    """The batches of one segment as bytes; immutable, safe from several threads.

    Args:
        files: files of the segment, shared with other states of the same segment.
        end: end of the last batch; None for a complete segment, which ends with its file.
        tail_end: end of the file, when the bytes after the last good batch count as damage.
        budgets: limits for reads.
        next_base: base offset of the next segment.

    Reads raise FileNotFoundError once the file is gone, other OSError, SourceRefusedError.
    """

    files: SegmentFiles
    _end: Position | None = None
    _tail_end: Position | None = None
    budgets: Budgets = field(default=DEFAULT_BUDGETS, kw_only=True)
    next_base: Offset = field(default=MAX_INT64, kw_only=True)
    base_offset: Offset = field(init=False)
    _is_overhanging: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.base_offset = self.files.base_offset
        opened = self.files.opened
        if opened is not None:  # what was known was about another end
            opened.in_order = opened.sound = -1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def bounds(self) -> OffsetBounds:
        """The offsets that the segment can have."""
        return OffsetBounds(self.base_offset, self.next_base, self._overhangs)

    @property
    def path(self) -> str:
        """Path of the records file, relative to the source."""
        return self.files.path

    @property
    def name(self) -> str:
        """Name of the records file."""
        return self.files.path.rpartition("/")[2]

    def close(self) -> None:
        """Close the files once no thread reads them; the next use opens them again."""
        self.files.let_go()

    @property
    def file(self) -> SourceFile:
        """The open records file."""
        return self.files.ensure_open().file

    @property
    def end(self) -> Position:
        """Position after the last batch: the size of the file, or the proven end of an active segment."""
        end = self._end
        return self.files.ensure_open().size if end is None else end

    @property
    def tail_end(self) -> Position:
        """End of the file for an active segment without a writer; else the same as `end`."""
        return self.end if self._tail_end is None else self._tail_end

    @property
    def size(self) -> int:
        """Size of the batches in bytes; opens no file."""
        if self._end is not None:
            return self._end
        opened = self.files.opened
        if opened is not None:
            return opened.size
        try:
            return self.files.status().st_size
        except FileNotFoundError as error:
            if not self.files.was_renamed(error):
                raise
        return self.files.status().st_size

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the records file."""
        file = self.files.ensure_open().file
        return file.device, file.inode

    @property
    def is_complete(self) -> bool:
        """Whether the segment was not the active one when it was listed."""
        return self._end is None

    def offset_index(self) -> OffsetIndex:
        """Return the offset index; its look-ups raise FileNotFoundError when there is none."""
        path = self.files.relative(offset_index_name(self.base_offset))
        return OffsetIndex(lambda: self.files.root.open(path), self.base_offset, path=path)

    def time_index(self) -> TimeIndex:
        """Return the time index; its look-ups raise FileNotFoundError when there is none."""
        path = self.files.relative(time_index_name(self.base_offset))
        return TimeIndex(lambda: self.files.root.open(path), self.base_offset, path=path)

    def transaction_index(self) -> TransactionIndex:
        """Return the index of aborted transactions, empty when there is none."""
        path = self.files.relative(transaction_index_name(self.base_offset))
        return TransactionIndex(lambda: self.files.root.open(path), self.base_offset, path=path)

    def _overhangs(self) -> bool:
        """Return whether the segment was written beyond the base offset of the next one.

        A replacement of segments that a crash interrupted leaves both. The segment's indexes then name such offsets; or
        the index is of the first part of the segment; or it is missing or that of other batches, and all batches of the
        file are good and ascend. This is not so where a block of a later segment was written into the file.
        """
        if self.next_base == MAX_INT64:
            return False
        if not self.reaches_beyond and self._is_overhanging is None:
            self._is_overhanging = self._ascends_beyond()
        return bool(self._is_overhanging)

    @property
    def reaches_beyond(self) -> bool:
        """Whether the segment was written beyond the base offset of the next one, as its indexes tell.

        Without them, a file of up to 1 MiB is read; a larger one has to be scanned first.
        """
        if self._is_overhanging is None and self.next_base < MAX_INT64:
            self._is_overhanging = self._indexes_reach_beyond()
            if self._is_overhanging is None and orders.is_small(self.file):
                self._is_overhanging = self._ascends_beyond()
        return bool(self._is_overhanging)

    def _indexes_reach_beyond(self) -> bool | None:
        """Return whether the indexes say so; None if only all batches tell."""
        last, is_of_file = self.base_offset, False
        with suppress(OSError, KafkaStorageError):
            index = self.offset_index()
            end = index.last_entry
            last = end.offset
            if last < self.next_base and end.position and self._fits(end):
                return self._goes_on_behind(end.position)
            entries = list(islice(index, _SOME_ENTRIES))
            is_of_file = not entries
            if last < self.next_base and any(map(self._fits, entries)):
                return False
        with suppress(OSError, KafkaStorageError):
            last = max(last, self.time_index().last_entry.offset)
        if last >= self.next_base:
            return True
        return False if is_of_file else None

    def _fits(self, entry: OffsetPosition) -> bool:
        """Return whether the batch at the position of an index entry ends with the entry's offset."""
        header = self.file.read_at(entry.position, HEADER.size)
        if len(header) < HEADER.size:
            return False
        base, delta = read_int64(header), read_int32(header, _LAST_OFFSET_DELTA)
        return base + (delta if header[MAGIC_POSITION] == CURRENT_MAGIC else 0) == entry.offset

    def _goes_on_behind(self, position: Position) -> bool:
        """Return whether the next batches ascend, and one of them begins at the next base offset."""
        data = self.file.read_at(position, _SOME_BYTES)
        rows = BatchRows(bytearray(len(data) // HEADER.size * BATCH_ROW.size))
        count = kernel.walk(data, rows.data, 0, position, False)[0]
        bases = rows.part(0, count).table["base_offset"].tolist()
        return self.next_base in bases and bases == sorted(bases)

    def _ascends_beyond(self) -> bool:
        """Return whether the file has nothing but good batches with ascending offsets, up to some beyond the next base.

        Where no offset is missing before these, none may be between, as behind a block of a later segment.
        """
        from engine.log.segment.chains import with_wrappers_opened

        bases, ends = [np.empty(0, np.int64)], [np.array([self.base_offset])]
        items = scan(self.file, 0, self.file.size(), next_offset=self.base_offset, resync=False)
        for item in items:
            if not isinstance(item, BatchRun):
                return False
            table = with_wrappers_opened(item).table
            bases.append(table["base_offset"].astype(np.int64))
            ends.append(table["last_offset"].astype(np.int64) + 1)
            del table
            del item  # free it before the next read: a batch may be as large as the budget
        base, end = np.concatenate(bases), np.concatenate(ends)
        own = int(np.searchsorted(base, self.next_base))
        if not own or end[-1] <= self.next_base:
            return False
        is_missing = base > end[:-1]
        return bool(own == len(base) or not is_missing[own] or is_missing[:own].any())

    def is_in_order(self, opened: OpenSegment) -> bool:
        """Return whether all batches are in their place; of a large file, as far as known."""
        if opened.in_order == orders.disordered:
            return True
        order = orders.cheap_order(opened.file, self.bounds, self.budgets)
        if order is not None and not order.is_sound:
            return False
        opened.in_order = orders.disordered
        return True

    def _is_sound(self, opened: OpenSegment) -> bool:
        """Return whether a scan needs no decision: all batches are in their place, or those of a large file may be."""
        if opened.sound == orders.disordered:
            return True
        file = opened.file
        if orders.disordered or orders.is_small(file):
            order = orders.known_order(file, self.bounds, self.budgets)
            if order is None or not order.is_sound:
                return False
        opened.sound = orders.disordered
        return True

    def records(self) -> FileRecords:
        """Return the batches as Kafka's FileRecords, for a fetch."""
        return FileRecords(self.file, 0, self.end, True, budgets=self.budgets)

    def run_of(self, batch: Table) -> BatchRun:
        """Read the batch of a header that a look-up found."""
        position, size = int(batch["position"][0]), int(batch["size"][0])
        return BatchRun(self.file.read_at(position, size), position, BatchRows.of(batch))

    def scan(
        self,
        start: Position = 0,
        end: Position | None = None,
        *,
        next_offset: Offset | None = None,
        chunk: int = CHUNK,
        in_order: bool = True,
    ) -> Iterator[ScanItem]:
        """Yield good batches and damage between two positions, by default of the whole segment.

        Damage is added to the problems of the partition. Without `in_order` the runs have all good batches, also
        those that are out of place, and `Disorder` tells where offsets go back.
        """
        opened = self.files.ensure_open()
        if next_offset is None and not start:
            next_offset = self.base_offset
        stop, bounds = self.end if end is None else end, self.bounds
        reading = FileScan(opened.file, stop, self.path, next_offset, bounds, self.budgets, chunk)
        reading.any_order = in_order
        last_possible = self.base_offset + MAX_INT32
        items = reading.run(start)
        if in_order and self._is_sound(opened):
            most, expected = min(self.next_base, last_possible + 1), next_offset
            for item in items:
                following = reading.expected or 0
                if (
                    not isinstance(item, BatchRun)
                    or reading.goes_back
                    or following > most
                    or bounds.begins_above(expected, item.base_offset)
                ):
                    items = decided_where_needed(reading, chain((item,), items), bounds, expected)
                    break
                yield item
                expected = following
                del item  # free it before the next read: a batch may be as large as the budget
            else:
                return
        elif in_order:
            items = decided_first(reading, start, bounds)
        for item in items:
            if not isinstance(item, BatchRun):
                self.files.problems.add_damage(self.path, item)
            elif item.next_offset - 1 > last_possible:
                self.files.problems.add(
                    "offset_range",
                    self.path,
                    "offsets too far from the segment's base offset: Kafka would split it",
                    expected=f"at most {last_possible}",
                    found=item.next_offset - 1,
                )
            yield item
            del item  # as above
