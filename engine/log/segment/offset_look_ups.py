"""Look-ups by offset in one segment.

Indexes only say where to begin: what they name is taken when a good batch stands there that does not lie past
what is looked for; else the search begins at the segment's start, and the partition's problems say so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError
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
from engine.log.segment.fetched import WHOLE, FetchDataInfo, fetch_slice
from engine.log.segment.open_segments import OpenSegment, SegmentFiles
from engine.log.segment.places import Extent, Landing
from engine.log.segment.scan import BatchRun, ScanItem, headers, tables
from engine.log.segment.segment_bytes import SegmentBytes
from engine.memory_gate import LARGE
from engine.units import MAX_INT64, BatchPosition, Offset, Position

_SCRATCH = 4 * 1024
_MOST_LANDINGS = 64


class _Scratch(threading.local):
    """A buffer for the headers that a look-up passes, per thread."""

    def __init__(self) -> None:
        self.buffer = bytearray(_SCRATCH)


_scratch = _Scratch()


class OffsetLookUps(SegmentBytes):
    """A segment whose batches and records are found by offset. Args as for SegmentBytes."""

    __slots__ = ("_landings", "_next_offset")

    def __init__(
        self,
        files: SegmentFiles,
        end: Position | None = None,
        tail_end: Position | None = None,
        *,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        super().__init__(files, end, tail_end, budgets=budgets)
        self._landings: dict[Offset, Landing] = {}  # at large batches: to prove one takes a second
        self._next_offset: Offset | None = None

    # Fast: frames are followed from a hint

    def locate(self, offset: Offset) -> BatchPosition | None:
        """The first batch whose last offset is `offset` or more; None when all of it lies below.

        Follows frames and does not check checksums: `batch` does, and finds what damage may hide. For magic 0
        and 1 the base offset is the last one, as the header has it.
        """
        opened, start, end = self._begin(offset)
        largest = self.budgets.batch_bytes
        found = opened.locate(start, end, offset, _scratch.buffer, largest)
        if found is None or (found[2] > offset and start and found[0] == start):
            return self._locate_proven(offset)
        return BatchPosition(found[2], found[3], found[0], found[1])

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

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None = WHOLE,
        min_one_message: bool = False,
    ) -> FetchDataInfo | None:
        """Batches from the first on that reaches an offset; None when all of it lies below. See `fetch_slice`."""
        return fetch_slice(
            self.records(),
            self.base_offset,
            self.locate(start_offset),
            max_size,
            max_position,
            min_one_message=min_one_message,
        )

    # Proven: all on the way is checked

    def seek(self, offset: Offset) -> Landing:
        """Where to read from for an offset: slower than `locate`, but nothing stays unproven."""
        known = self._landings.get(offset)
        if known is None:
            position, base = proven_hint(self, offset)
            items = self.scan(position, next_offset=base, chunk=LOOK_UP_CHUNK)
            known = land(headers(items), offset, base, self.end)
            if known.batch is not None and known.batch["size"][0] > LARGE:
                if len(self._landings) >= _MOST_LANDINGS:
                    self._landings.clear()
                self._landings[offset] = known._replace(batch=known.batch.copy())
        return known

    def scan_from(self, offset: Offset) -> Iterator[ScanItem]:
        """The batches from one on that is good and does not start above an offset; see `scan`."""
        position, base = proven_hint(self, offset)
        return self.scan(position, next_offset=base, chunk=LOOK_UP_CHUNK)

    def _locate_proven(self, offset: Offset) -> BatchPosition | None:
        batch = self.seek(offset).batch
        if batch is None:
            return None
        fields = ("base_offset", "last_offset", "position", "size")
        return BatchPosition(*(int(batch[name][0]) for name in fields))

    def _batch_proven(self, offset: Offset) -> BatchRun | None:
        """As `batch`, which tells a gap from damage."""
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

    def check_gap(self, offset: Offset, next_base: Offset) -> None:
        """An offset that no batch has is not in a gap when the batch behind it reaches into the next segment.

        Raises:
            CorruptRecordError: it does, so it may be the one that held the offset.
        """
        after = self.locate(offset)
        if after is not None and after.last_offset >= next_base:
            raise CorruptRecordError(
                "a batch states offsets of the next segment",
                path=self.path,
                position=after.position,
                expected=f"below {next_base}",
                found=after.last_offset,
            )

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
        known = self._next_offset
        if known is None:
            known = self.base_offset
            for table in tables(self.scan_from(MAX_INT64 - 1)):
                known = max(known, int(table["last_offset"][-1]) + 1)
            self._next_offset = known
        return known


@lru_cache(maxsize=16)
def _of_small(budgets: Budgets) -> Budgets:
    """Budgets under which no large batch is read."""
    return replace(budgets, batch_bytes=min(budgets.batch_bytes, LARGE))
