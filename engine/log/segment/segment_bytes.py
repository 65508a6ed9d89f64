"""The records file of a segment up to the end of its batches: read by position, or scanned.

Files are opened at the first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import BatchRows, Table
from engine.files.file_names import offset_index_name, time_index_name, transaction_index_name
from engine.files.source_files import SourceFile
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.segment.open_segments import SegmentFiles
from engine.log.segment.scan import CHUNK, BatchRun, ScanItem, scan
from engine.record.file_records import FileRecords
from engine.units import MAX_INT32, Offset, Position


@dataclass(slots=True, eq=False, repr=False)
class SegmentBytes:
    """The batches of one segment as bytes; immutable, safe from several threads.

    Args:
        files: files of the segment, shared with other states of the same segment.
        end: end of the last batch; None for a complete segment, which ends with its file.
        tail_end: end of the file, when the bytes after the last good batch count as damage.
        budgets: limits for reads.

    Reads raise FileNotFoundError once the file is gone, other OSError, SourceRefusedError.
    """

    files: SegmentFiles
    _end: Position | None = None
    _tail_end: Position | None = None
    budgets: Budgets = field(default=DEFAULT_BUDGETS, kw_only=True)
    base_offset: Offset = field(init=False)

    def __post_init__(self) -> None:
        self.base_offset = self.files.base_offset

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

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
        resync: bool = True,
    ) -> Iterator[ScanItem]:
        """Yield good batches and damage between two positions, by default of the whole segment.

        Damage is added to the problems of the partition.
        """
        opened = self.files.ensure_open()
        if next_offset is None and not start:
            next_offset = self.base_offset
        items = scan(
            opened.file,
            start,
            self.end if end is None else end,
            path=self.path,
            next_offset=next_offset,
            budgets=self.budgets,
            chunk=chunk,
            resync=resync,
        )
        last_possible = self.base_offset + MAX_INT32
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
            del item  # free it before the next read: a batch may be as large as the budget
