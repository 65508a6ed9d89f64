"""A segment as a reader sees it: its records file and the indexes beside it.

Nothing is opened before the first use. Indexes only say where to begin: what they name is taken when a
good batch stands there that does not lie past what is looked for; else the search begins at the segment's
start, and the partition's problems say so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import BATCH_DTYPE
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError, UnreadableError
from engine.files.file_names import time_index_name, transaction_index_name
from engine.files.source_files import SourceFile
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.segment import segment_times
from engine.log.segment.batch_search import (
    LOOK_UP_CHUNK,
    BatchSearch,
    first_offset,
    good_batch,
    holds,
    is_wrapper,
    land,
    proven_hint,
)
from engine.log.segment.fetched_records import NO_RECORDS, WHOLE, FetchedRecords
from engine.log.segment.open_segments import OpenSegment, SegmentFiles
from engine.log.segment.places import BatchLocation, Extent, Landing
from engine.log.segment.resync import Resync
from engine.log.segment.scan import CHUNK, BatchRun, Damage, Table, headers, scan
from engine.memory_gate import LARGE
from engine.record.file_records import FileRecords
from engine.units import (
    MAX_INT32,
    MAX_INT64,
    FoundTimestamp,
    LogOffsetMetadata,
    Offset,
    Position,
    Timestamp,
    TimestampOffset,
)

T = TypeVar("T")

_SCRATCH = 4 * 1024
_MOST_LANDINGS = 64
_ROW_SIZE = BATCH_DTYPE.itemsize


class _Scratch(threading.local):
    """A buffer for the headers that a look-up passes, per thread."""

    def __init__(self) -> None:
        self.buffer = bytearray(_SCRATCH)


_scratch = _Scratch()


class LogSegment:
    """One segment up to where its batches end; never changes, safe from several threads.

    Args:
        files: where it lies; shared with other states of the same segment.
        end: where its batches end; None for a segment that is complete: the file's size.
        tail_end: where the file ends, when what follows the last good batch is not just on its way.
        budgets: for what is read.

    Look-ups raise FileNotFoundError once the file is gone, other OSError, SourceRefusedError.
    """

    __slots__ = ("_end", "_facts", "_landings", "_tail_end", "base_offset", "budgets", "files")

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
        self._facts: dict[str, Any] | None = None
        self._landings: dict[Offset, Landing] = {}  # at large batches: to prove one takes a second

    def __repr__(self) -> str:
        return f"LogSegment({self.path!r})"

    def grown_to(self, end: Position, tail_end: Position) -> LogSegment:
        """The same segment with more batches in it."""
        grown = LogSegment(self.files, end, tail_end, budgets=self.budgets)
        known, old_end, times = self._facts or {}, self._end, segment_times.FACTS
        if old_end is not None:
            grown._facts = {f"{t}_before": (known[t], old_end) for t in times if t in known}
        return grown

    # Files

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

    # Look-ups by offset

    def locate(self, offset: Offset) -> BatchLocation | None:
        """The first batch whose last offset is `offset` or more; None when all of it lies below.

        Follows frames and does not check checksums: `batch` does, and finds what damage may hide.
        """
        opened, start, end = self._begin(offset)
        largest = self.budgets.batch_bytes
        found = opened.locate(start, end, offset, _scratch.buffer, largest)
        if found is None or (found[2] > offset and start and found[0] == start):
            return self._locate_proven(offset)
        return BatchLocation(self, found[0], found[1], found[2], found[3], found[4])

    def _begin(self, offset: Offset) -> tuple[OpenSegment, Position, Position]:
        """The files, where the index says to look for an offset, and where the batches end.

        Whoever reads holds on to the first: the descriptor is closed once nobody does.
        """
        opened = self.files.opened
        if opened is None:
            opened = self.files.ensure_open()
        else:
            opened.was_used = True
        end = self._end
        return opened, opened.hints.position(offset), opened.size if end is None else end

    def _locate_proven(self, offset: Offset) -> BatchLocation | None:
        landing = self.seek(offset)
        if landing.batch is None:
            return None
        row = landing.batch[0]
        fields = ("position", "size", "base_offset", "last_offset", "magic")
        return BatchLocation(self, *(int(row[name]) for name in fields))

    def record(self, offset: Offset) -> Columns | None:
        """The record with exactly this offset, alone; None: not there, or only `batch` can tell."""
        opened, start, end = self._begin(offset)
        if not opened.can_be_read(start, end):
            return None
        return kernel.read_record(opened.fd, start, end, offset, budgets=_of_small(self.budgets))

    def batch(
        self, offset: Offset, before_large: Callable[[int], object] | None = None
    ) -> BatchRun | None:
        """The batch whose offsets include this one, checksum checked: a run of one row; None in a gap.

        Args:
            offset: of a record.
            before_large: called with the size of a batch above LARGE before it is read.

        Raises:
            CorruptRecordError: damage took, or may have taken, the batch.
        """
        opened, start, end = self._begin(offset)
        largest = min(self.budgets.batch_bytes, LARGE)
        run = None
        if opened.can_be_read(start, end):
            found = kernel.read_batch(opened.fd, start, end, offset, largest=largest)
            run = self._located_batch(offset, before_large) if found is None else BatchRun(*found)
            del found
        if run is not None and holds(run, offset):
            return run
        del run  # before another one is read
        return self._batch_proven(offset)

    def _located_batch(
        self, offset: Offset, before_large: Callable[[int], object] | None
    ) -> BatchRun | None:
        """The same for a large batch, or one behind a large one; the kernel would hold the bytes twice."""
        opened, start, end = self._begin(offset)
        found = opened.locate(start, end, offset, _scratch.buffer, self.budgets.batch_bytes)
        if found is None:
            return None
        if before_large is not None and found[1] > LARGE:
            before_large(found[1])
        return good_batch(opened.file, found[0], found[1], self.budgets.batch_bytes)

    def _batch_proven(self, offset: Offset) -> BatchRun | None:
        """The same with everything on the way checked, which tells a gap from damage."""
        search = BatchSearch(offset)
        for item in self.scan_from(offset):
            if search.is_over(item):
                break
            del item  # before the next one is read
        if search.found is None and search.suspect is not None:
            damage = search.suspect
            raise CorruptRecordError(
                damage.reason,
                path=damage.path,
                position=damage.position,
                expected=damage.expected,
                found=damage.found,
            )
        return search.found

    def seek(self, offset: Offset) -> Landing:
        """Where to read from for an offset: slower than `locate`, but nothing stays unproven."""
        known = self._landings.get(offset)
        if known is None:
            known = land(self, offset)
            if known.batch is not None and known.batch["size"][0] > LARGE:
                if len(self._landings) >= _MOST_LANDINGS:
                    self._landings.clear()
                self._landings[offset] = known._replace(batch=known.batch.copy())
        return known

    def run_of(self, batch: Table) -> BatchRun:
        """The batch of a header that a look-up found, with its bytes."""
        position, size = int(batch["position"][0]), int(batch["size"][0])
        return BatchRun(self.file.read_at(position, size), position, batch)

    def scan_from(self, offset: Offset) -> Iterator[BatchRun | Damage]:
        """The batches from one on that is good and does not start above an offset; see `scan`."""
        position, base = proven_hint(self, offset)
        return self.scan(position, next_offset=base, chunk=LOOK_UP_CHUNK)

    def scan(
        self,
        start: Position = 0,
        end: Position | None = None,
        *,
        next_offset: Offset | None = None,
        chunk: int = CHUNK,
        resync: bool = True,
    ) -> Iterator[BatchRun | Damage]:
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
            if isinstance(item, Damage):
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

    def checked_bytes(self, position: Position, size: int) -> bytes:
        """A batch as it lies in the file.

        Raises:
            CorruptRecordError: no good batch of this size is there.
        """
        try:
            is_good = _is_good(data := self.file.read_at(position, size))
        except UnreadableError:
            is_good = False
        if not is_good:
            frame = Resync(self.file, self.end, self.budgets).frame(position)
            raise CorruptRecordError(
                frame.reason or "the batch is another one by now",
                path=self.path,
                position=position,
                expected=None if frame.row is None else int(frame.row["crc"]),
                found=frame.found,
            )
        return data

    def extent(self, start_offset: Offset, stop_offset: Offset) -> Extent:
        """The bytes of the whole batches that hold offsets of [start_offset, stop_offset).

        Damage that can have held some of them is inside; where offsets go back, all of the segment is.
        """
        start, expected, mixed = 0, self.base_offset, False
        if start_offset > self.base_offset:
            first = self.seek(start_offset)
            start, expected, mixed = first.position, first.next_offset, first.is_disordered
        landing = self.seek(stop_offset)
        if mixed or landing.is_disordered:
            return Extent(0, self.end, self.base_offset)
        stop = landing.position
        if landing.batch is not None:
            base, position, size = (
                int(landing.batch[name][0]) for name in ("base_offset", "position", "size")
            )
            if is_wrapper(landing.batch):
                base = first_offset(self.run_of(landing.batch))
            if base < stop_offset:
                stop = position + size
            elif landing.damage and (landing.damage.first_offset or 0) < stop_offset:
                stop = position
        elif landing.damage and (landing.damage.first_offset or 0) < stop_offset:
            stop = self.end
        return Extent(start, max(start, stop), expected)

    def positions(self, start_offset: Offset, stop_offset: Offset) -> tuple[Position, Position]:
        """Start and stop of the extent of these offsets."""
        found = self.extent(start_offset, stop_offset)
        return found.start, found.stop

    @property
    def next_offset(self) -> Offset:
        """One past its last good batch's last offset; the base offset when it holds none."""
        return self.fact("next_offset", self._read_next_offset)

    def _read_next_offset(self) -> Offset:
        last = self.base_offset
        for item in headers(self.scan_from(MAX_INT64 - 1)):
            if not isinstance(item, Damage):
                last = max(last, int(item["last_offset"][-1]) + 1)
        return last

    def fact(self, name: str, read: Callable[[], T]) -> T:
        """What is read once; two threads may both do it."""
        facts = self._facts
        if facts is None:
            facts = self._facts = {}
        if name not in facts:
            facts[name] = read()
        fact: T = facts[name]
        return fact

    # Reading

    def read(
        self,
        start_offset: Offset,
        *,
        max_size: int,
        max_position: Position | None = WHOLE,
        at_least_one: bool = False,
    ) -> FetchedRecords | None:
        """Records from the first batch on that reaches `start_offset`; None when all of it lies below.

        Args:
            start_offset: where to begin.
            max_size: bytes to give at most.
            max_position: where to stop in the file; None when that is not known: no records then, only
                where they would start.
            at_least_one: give the first batch whole, whatever its size.

        Raises:
            ValueError: `max_size` is negative.
        """
        if max_size < 0:
            raise ValueError(f"at most {max_size} bytes cannot be read")
        found = self.locate(start_offset)
        if found is None:
            return None
        start = LogOffsetMetadata(start_offset, self.base_offset, found.position)
        limit = max(max_size, found.size) if at_least_one else max_size
        if not limit or max_position is None:
            return FetchedRecords(start, NO_RECORDS)
        size = max(min(limit, min(max_position, self.end) - found.position), 0)
        return FetchedRecords(start, self.records(found.position, size), limit < found.size)

    def records(self, position: Position = 0, size: int | None = None) -> FileRecords:
        """A part of the records file; by default all of it."""
        end = self.end if size is None else min(position + size, self.end)
        return FileRecords(self.file, position, end, True, budgets=self.budgets)

    # Look-ups by time

    @property
    def first_batch_timestamp(self) -> Timestamp | None:
        """The first good batch's largest timestamp; None when there is no batch or no timestamp."""
        return segment_times.first_batch_timestamp(self)

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the first batch that has it; (-1, base) if none."""
        before = (self._facts or {}).get("max_timestamp_before")
        return self.fact("max_timestamp", lambda: segment_times.max_timestamp(self, before))

    def find_timestamp(self, timestamp: Timestamp, start_offset: Offset) -> FoundTimestamp | None:
        """The first record, in offset order, at or after a time and at or above `start_offset`.

        Raises:
            UnsupportedCodecError: the record may lie in a batch whose codec is not installed.
        """
        return segment_times.find_timestamp(self, timestamp, start_offset)


@lru_cache(maxsize=16)
def _of_small(budgets: Budgets) -> Budgets:
    """Budgets under which no large batch is read."""
    return replace(budgets, batch_bytes=min(budgets.batch_bytes, LARGE))


def _is_good(data: bytes) -> bool:
    """Whether the bytes are one whole batch of the right checksum."""
    table = np.ndarray(1, BATCH_DTYPE, bytearray(_ROW_SIZE))
    rows, consumed, _ = kernel.walk(data, table, 0, 0, True)
    return bool(rows and consumed == len(data) and table["crc_ok"][0])
