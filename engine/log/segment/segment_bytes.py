"""A segment's records file up to where its batches end: read by position, or scanned.

Nothing is opened before the first use.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.files.file_names import time_index_name, transaction_index_name
from engine.files.source_files import SourceFile
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.segment.open_segments import SegmentFiles
from engine.log.segment.scan import CHUNK, BatchRun, ScanItem, Table, scan
from engine.record.file_records import FileRecords
from engine.units import MAX_INT32, Offset, Position


class SegmentBytes:
    """The bytes of one segment's batches; never changes, safe from several threads.

    Args:
        files: where it lies; shared with other states of the same segment.
        end: where its batches end; None for a segment that is complete: the file's size.
        tail_end: where the file ends, when what follows the last good batch is not just on its way.
        budgets: for what is read.

    Reading raises FileNotFoundError once the file is gone, other OSError, SourceRefusedError.
    """

    __slots__ = ("_end", "_tail_end", "base_offset", "budgets", "files")

    def __init__(
        self,
        files: SegmentFiles,
        end: Position | None = None,
        tail_end: Position | None = None,
        *,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        self.files = files
        self.base_offset = files.base_offset
        self.budgets = budgets
        self._end = end
        self._tail_end = tail_end

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def path(self) -> str:
        """The records file relative to the source."""
        return self.files.path

    @property
    def name(self) -> str:
        """The records file's name."""
        return self.files.path.rpartition("/")[2]

    def close(self) -> None:
        """Close its files, once nobody reads them any more; the next use opens them again."""
        self.files.let_go()

    @property
    def file(self) -> SourceFile:
        """The records file, opened if it is not."""
        return self.files.ensure_open().file

    @property
    def end(self) -> Position:
        """Where its batches end: the file's size, or what is known to be good of an active one."""
        end = self._end
        return self.files.ensure_open().size if end is None else end

    @property
    def tail_end(self) -> Position:
        """Where the file ended, for an active segment that nobody writes to; else the same as `end`."""
        return self.end if self._tail_end is None else self._tail_end

    @property
    def size(self) -> int:
        """Bytes of its batches; opens nothing."""
        if self._end is not None:
            return self._end
        opened = self.files.opened
        return opened.size if opened is not None else self.files.root.stat(self.path).st_size

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the records file."""
        file = self.files.ensure_open().file
        return file.device, file.inode

    @property
    def is_complete(self) -> bool:
        """Whether nothing is appended any more, as far as is known: it is not the active one."""
        return self._end is None

    def time_index(self) -> TimeIndex:
        """The time index; look-ups in it raise FileNotFoundError when there is none."""
        path = self.files.relative(time_index_name(self.base_offset))
        return TimeIndex(lambda: self.files.root.open(path), self.base_offset, path=path)

    def transaction_index(self) -> TransactionIndex:
        """The index of aborted transactions; empty when there is none."""
        path = self.files.relative(transaction_index_name(self.base_offset))
        return TransactionIndex(lambda: self.files.root.open(path), self.base_offset, path=path)

    def records(self) -> FileRecords:
        """The bytes as Kafka's file records, from which a fetch takes its part."""
        return FileRecords(self.file, 0, self.end, True, budgets=self.budgets)

    def run_of(self, batch: Table) -> BatchRun:
        """The batch of a header that a look-up found, with its bytes."""
        position, size = int(batch["position"][0]), int(batch["size"][0])
        return BatchRun(self.file.read_at(position, size), position, batch)

    def scan(
        self,
        start: Position = 0,
        end: Position | None = None,
        *,
        next_offset: Offset | None = None,
        chunk: int = CHUNK,
        resync: bool = True,
    ) -> Iterator[ScanItem]:
        """Good batches and damage between two positions, by default the whole segment.

        Damage is noted in the partition's problems.
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
            del item  # before the next one is read: a batch may be as large as the budget
