"""Look-ups by offset in one segment.

An index entry is a hint: a look-up starts at its position when a good batch is there that does not start above
the offset. Otherwise the look-up starts at the segment's start, and the entry is added to the partition's problems.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine import kernel
from engine.columns.batch_table import BatchRows
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError, UnreadableError
from engine.lines.record_line import LineOptions
from engine.log.segment import orders
from engine.log.segment.batch_search import (
    LOOK_UP_CHUNK,
    BatchSearch,
    Extent,
    Landing,
    first_offset,
    good_batch,
    holds,
    is_wrapper,
    land,
    proven_hint,
)
from engine.log.segment.fetch import WHOLE, FetchDataInfo, fetch_slice
from engine.log.segment.open_segments import OpenSegment
from engine.log.segment.scan import BatchRun, ScanItem, headers, tables
from engine.log.segment.segment_bytes import SegmentBytes
from engine.memory_gate import LARGE
from engine.units import MAX_INT32, MAX_INT64, BatchPosition, Offset, Position, Timestamp

_SCRATCH = 4 * 1024
_MOST_LANDINGS = 64


class _Scratch(threading.local):
    """A buffer for batch headers, one per thread."""

    def __init__(self) -> None:
        self.buffer = bytearray(_SCRATCH)


_scratch = _Scratch()


@dataclass(slots=True, eq=False, repr=False)
class OffsetLookUps(SegmentBytes):
    """A segment whose batches and records are found by offset."""

    # Landings at large batches are kept: to prove one takes up to a second.
    _landings: dict[Offset, Landing] = field(default_factory=dict, init=False)
    _next_offset: Offset | None = field(default=None, init=False)

    # Fast: frames are followed from a hint

    def locate(self, offset: Offset) -> BatchPosition | None:
        """Return the first batch with a last offset at or above an offset; None when all are below.

        Follows frames and checks no checksums; `batch` checks them and finds batches behind damage. For
        magic 0 and 1 the returned base offset is the one in the header, which is the last offset.
        """
        opened, start, end = self._begin(offset)
        largest = self.budgets.batch_bytes
        if opened.in_order != orders.disordered and not self.is_in_order(opened):
            return self._locate_proven(offset)
        found = opened.locate(start, end, offset, _scratch.buffer, largest)
        if (
            found is None
            or (found[2] > offset and start and found[0] == start)
            or self._is_elsewhere(found[3], offset)
        ):
            return self._locate_proven(offset)
        return BatchPosition(found[2], found[3], found[0], found[1])

    def _begin(self, offset: Offset) -> tuple[OpenSegment, Position, Position]:
        """Return the open files, the position that the index gives for an offset, and the end of the batches.

        The descriptor closes with the last reference to the open files, so the caller keeps one while it reads.
        """
        opened = self.files.opened
        if opened is None:
            opened = self.files.ensure_open()
        else:
            opened.was_used = True
        end = self._end
        return opened, opened.hints.position(offset), opened.size if end is None else end

    def _is_elsewhere(self, last_offset: Offset, offset: Offset) -> bool:
        """Return whether no batch of the segment that is the first to reach an offset states this last offset."""
        return last_offset - offset > MAX_INT32 or self.bounds.is_above(last_offset)

    def _reach_by_frames(self, opened: OpenSegment, start: Position, end: Position) -> Position:
        """Return up to where a look-up may follow frames; `start` where no descriptor leads to the bytes, a batch is
        known to be out of place, or bytes as unreadable.
        """
        if opened.file.descriptor < 0:
            return start
        if opened.in_order != orders.disordered and not self.is_in_order(opened):
            return start
        if opened.file.unreadable and not opened.can_be_read(start, end):
            return start
        try:
            return opened.file.reach(start, end)
        except UnreadableError:
            return start

    def record(self, offset: Offset) -> Columns | None:
        """Return the record with exactly this offset; None when there is none, or only `batch` can tell."""
        opened, start, end = self._begin(offset)
        end = self._reach_by_frames(opened, start, end)
        if end <= start:
            return None
        return kernel.read_record(
            opened.file.descriptor, start, end, offset, largest=LARGE, budgets=self.budgets
        )

    def line(self, offset: Offset, options: LineOptions) -> tuple[bytes, Timestamp] | None:
        """Return the line of the record with exactly this offset, and its timestamp; None where `record` does, and for
        a record of a transaction.
        """
        opened, start, end = self._begin(offset)
        end = self._reach_by_frames(opened, start, end)
        if end <= start:
            return None
        found = kernel.read_line(
            *(opened.file.descriptor, start, end, offset, options.bare),
            most=LARGE,
            budgets=self.budgets,
        )
        if found is None or options.mask is None:
            return found
        return options.mask.line(found[0]), found[1]

    def batch(
        self, offset: Offset, before_large: Callable[[int], object] | None = None
    ) -> BatchRun | None:
        """Return the batch that holds an offset, with its checksum checked, as a run of one row; None in a gap.

        Args:
            offset: offset of a record.
            before_large: called with the size of a batch above LARGE before it is read.

        Raises:
            CorruptRecordError: the batch is damaged, or damage may have taken it.
        """
        opened, start, end = self._begin(offset)
        largest = min(self.budgets.batch_bytes, LARGE)
        run = None
        end = self._reach_by_frames(opened, start, end)
        if end > start:
            found = kernel.read_batch(opened.file.descriptor, start, end, offset, largest=largest)
            if found is None:
                run = self._located_batch(offset, before_large)
            else:
                run = BatchRun(found[0], found[1], BatchRows(found[2]))
            del found
        if (
            run is not None
            and not self._is_elsewhere(run.headers[0].last_offset, offset)
            and holds(run, offset)
        ):
            return run
        del run  # free it before another batch is read
        return self._batch_proven(offset)

    def _located_batch(
        self, offset: Offset, before_large: Callable[[int], object] | None
    ) -> BatchRun | None:
        """Do the same for a large batch, or one after a large one; the kernel would hold its bytes twice."""
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
        """Return batches from the first that reaches an offset; None when all are below. See `fetch_slice`."""
        return fetch_slice(
            self.records(),
            self.base_offset,
            self.locate(start_offset),
            max_size,
            max_position,
            min_one_message=min_one_message,
        )

    # Proven: every batch on the way is checked

    def seek(self, offset: Offset) -> Landing:
        """Return the position to read an offset from; slower than `locate`, with every checksum checked."""
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
        """Scan from a good batch that does not start above an offset; see `scan`."""
        position, base = proven_hint(self, offset)
        return self.scan(position, next_offset=base, chunk=LOOK_UP_CHUNK)

    def _locate_proven(self, offset: Offset) -> BatchPosition | None:
        batch = self.seek(offset).batch
        if batch is None:
            return None
        fields = ("base_offset", "last_offset", "position", "size")
        return BatchPosition(*(int(batch[name][0]) for name in fields))

    def _batch_proven(self, offset: Offset) -> BatchRun | None:
        """Find the batch by a scan, which tells a gap from damage."""
        search = BatchSearch(offset)
        for item in self.scan_from(offset):
            if search.is_over(item):
                break
            del item  # free it before the next read
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
        """Check that the batch after a gap stays below the next segment.

        Raises:
            CorruptRecordError: the batch states offsets of the next segment, so it may be the one that held the offset.
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
        """Return the extent of the whole batches that hold offsets of [start_offset, stop_offset).

        The extent includes damage that may have held some of these offsets.
        """
        start, expected = 0, self.base_offset
        if start_offset > self.base_offset:
            first = self.seek(start_offset)
            start, expected = first.position, first.next_offset
        landing = self.seek(stop_offset)
        stop = landing.position
        if landing.batch is not None:
            header = BatchRows.of(landing.batch)[0]
            base, position = header.base_offset, header.position
            if is_wrapper(header):
                base = first_offset(self.run_of(landing.batch))
            if base < stop_offset:
                stop = position + header.size
            elif landing.damage and (landing.damage.first_offset or 0) < stop_offset:
                stop = position
        elif landing.damage and (landing.damage.first_offset or 0) < stop_offset:
            stop = self.end
        return Extent(start, max(start, stop), expected)

    def positions(self, start_offset: Offset, stop_offset: Offset) -> tuple[Position, Position]:
        """Return start and stop of the extent of [start_offset, stop_offset)."""
        found = self.extent(start_offset, stop_offset)
        return found.start, found.stop

    @property
    def next_offset(self) -> Offset:
        """One past the last offset of the last good batch; the base offset without one."""
        if (stated := self.file.stated_end) is not None:
            return stated.next_offset
        known = self._next_offset
        if known is None:
            known = self.base_offset
            for table in tables(self.scan_from(MAX_INT64 - 1)):
                known = max(known, int(table["last_offset"][-1]) + 1)
            self._next_offset = known
        return known
