"""Search for the records of one key: the newest one, or all in offset order.

Control records have no key of a producer and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from engine import kernel
from engine.budgets import MiB
from engine.log.segment.batch_search import Extent
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.segment.segment_cuts import pieces_from_the_end
from engine.log.view.log_view import LogView
from engine.units import Offset
from engine.verdict.log_losses import losses_of, wanted
from engine.verdict.log_runs import is_large
from engine.workers import Workers
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.searching.search import Chunk, DamageFacts, Match, Search
from kafkafs.forms.record_format import RecordFormat
from kafkafs.records.conditions.pattern import Query
from kafkafs.records.conditions.required_literal import RequiredLiteral
from kafkafs.records.conditions.wanted_keys import WantedKey

_MOST_PLACES = 20
_FIRST_PIECE = 256 * 1024
"""Bytes at the end of a segment that are searched first for the newest record."""
_LARGEST_PIECE = 4 * MiB
"""Most bytes that are searched at a time, by one thread."""


def never() -> bool:
    """Return False: the search is not cancelled."""
    return False


@dataclass
class KeyFindings:
    """What a search for the newest record of a key found in a partition.

    Attributes:
        offset: offset of the newest record; None without one.
        places: number of damaged places that may hold a newer record.
        damage: facts of the first of these places.
        segments: number of segments that were read.
        size: bytes of the batches that were read.
    """

    offset: Offset | None = None
    places: int = 0
    damage: list[DamageFacts] = field(default_factory=list)
    segments: int = 0
    size: int = 0

    def add_place(self, facts: DamageFacts) -> None:
        """Count a damaged place."""
        self.places += 1
        if len(self.damage) < _MOST_PLACES:
            self.damage.append(facts)

    def add(self, older: KeyFindings) -> None:
        """Add what was found in an older part of the partition."""
        self.offset = older.offset
        self.places += older.places
        self.damage += older.damage[: _MOST_PLACES - len(self.damage)]
        self.size += older.size


class Passed(NamedTuple):
    """A run of batches that was searched.

    Attributes:
        size: bytes of the batches.
        next_offset: offset after the last record; all records of the key below it have been yielded.
    """

    size: int
    next_offset: Offset


class KeySearch:
    """A search of a partition for the records with one key.

    Args:
        view: the partition.
        key: the key; a null key is no key.
        options: the fields of lines, their mask, and the range of offsets.
        jobs: number of threads that search.
        form: the text of each record, in place of its line.
        apart: set for records that are not part of a log.

    Attributes:
        view, key, jobs: as given.

    Searches raise FileNotFoundError for a segment that was deleted or replaced since the view was made, other OSError.
    """

    def __init__(
        self,
        view: LogView,
        key: WantedKey,
        options: kernel.LineOptions,
        jobs: int = 1,
        form: RecordFormat | None = None,
        apart: Apart | None = None,
    ) -> None:
        self.view = view
        self._apart = apart
        self._form = form
        self.key = key
        self._options = options
        self.jobs = jobs
        pattern = re.compile(re.escape(key.content), re.DOTALL)
        literal = RequiredLiteral(key.content, fold=False, is_all=True)
        self._query = Query(pattern, frozenset({"key"}), literal, None)

    def newest(self, cancel: Callable[[], bool] = never) -> KeyFindings:
        """Look for the newest record: read pieces of the log from its end on, up to the first with the key.

        Args:
            cancel: called after each run of batches, by several threads; True ends the search.

        Raises:
            Cancelled: `cancel` has returned True.
        """
        total, segments = KeyFindings(), set()
        with Workers(self.jobs, "get") as workers:
            work = partial(self._newest_in, cancel)
            for (segment, _, _), found in workers.map(work, self._pieces()):
                segments.add(segment.base_offset)
                total.add(found)
                if total.offset is not None:
                    break
        total.segments = len(segments)
        return total

    def _newest_in(
        self, cancel: Callable[[], bool], piece: tuple[LogSegment, Extent, Search]
    ) -> KeyFindings:
        """Return what is found in a piece of a segment."""
        segment, extent, search = piece
        findings = KeyFindings()
        options = search.options
        items = losses_of(self.view).read(
            segment,
            segment.scan(extent.start, extent.stop, next_offset=extent.next_offset),
            extent.start,
            extent.stop,
            extent.next_offset,
            wanted(self.view, options.from_offset, options.to_offset),
        )
        for part in items:
            for item in self._found(search, segment, part):
                if isinstance(item, Chunk):
                    # Damage before the record cannot hold a newer one.
                    offset = int(item.columns.offset[item.hits[-1]])
                    findings = KeyFindings(offset, size=findings.size)
                else:
                    findings.add_place(item)
            if isinstance(part, BatchRun):
                findings.size += int(part.table["size"].sum())
            if cancel():
                raise Cancelled
            del part  # free it before the next one is read: a batch may be as large as the budget
        return findings

    def value(self, offset: Offset) -> tuple[bytes | None] | None:
        """Return the value of the key's record at an offset; None without such a record."""
        for item in self._items(self._between(offset, offset + 1)):
            if isinstance(item, Chunk):
                value = item.columns.value(int(item.hits[-1]))
                return (None if value is None else bytes(value),)
        return None

    def line(self, offset: Offset) -> Iterator[Match] | None:
        """Return the line of the key's record at an offset, in parts; None without such a record."""
        parts = (each for each in self.lines(offset, offset + 1) if isinstance(each, Match))
        first = next(parts, None)
        return None if first is None else chain([first], parts)

    def lines(
        self, start: Offset | None = None, stop: Offset | None = None
    ) -> Iterator[Match | DamageFacts | Passed]:
        """Yield the lines of the key's records in a range of offsets, the damaged places, and what was searched."""
        shown = Search(self.view, self._query, self._options, form=self._form, apart=self._apart)
        for item in self._items(self._between(start, stop)):
            if isinstance(item, Chunk):
                yield from shown.lines(item, item.hits)
            else:
                yield item

    def _pieces(self) -> Iterator[tuple[LogSegment, Extent, Search]]:
        """Yield pieces of the segments from the log end on, each with its search."""
        for start, stop in self._segments():
            search = self._between(start, stop)
            for segment, extent in reversed(list(self.view.extents(start, stop))):
                for piece in pieces_from_the_end(segment, extent, _FIRST_PIECE, _LARGEST_PIECE):
                    yield segment, piece, search

    def _segments(self) -> Iterator[tuple[Offset, Offset]]:
        """Yield the ranges of offsets of the segments, the newest first; damage at the log end is in the first."""
        view, stop = self.view, self._options.to_offset
        lost = view.lost_segment
        for base in reversed(view.base_offsets):
            if lost is not None and base == lost.base_offset and len(view.base_offsets) > 1:
                continue  # it has no offsets: it is read with the segment before it
            start = max(base, self._options.from_offset)
            if start < stop or lost is not None:
                yield start, stop
            stop = min(stop, start)
            if base <= self._options.from_offset:
                return

    def _between(self, start: Offset | None, stop: Offset | None) -> Search:
        given = self._options
        # As base64: the search is for the bytes of the key, not for the text that they decode to.
        options = replace(
            given,
            values="base64",
            from_offset=given.from_offset if start is None else start,
            to_offset=given.to_offset if stop is None else stop,
        )
        return Search(self.view, self._query, options, apart=self._apart, shows_control=False)

    def _items(self, search: Search) -> Iterator[Chunk | DamageFacts | Passed]:
        """Yield the records of the key and the damaged places of each run of batches, and then its end, in log order."""

        def work(task: tuple[LogSegment, ScanItem]) -> Iterator[Chunk | DamageFacts | Passed]:
            segment, part = task
            yield from self._found(search, segment, part)
            if isinstance(part, BatchRun):
                yield Passed(int(part.table["size"].sum()), part.next_offset)

        with Workers(self.jobs, "get") as workers:
            yield from workers.flat_map(work, search.parts(), is_large)

    def _found(
        self, search: Search, segment: LogSegment, part: ScanItem
    ) -> Iterator[Chunk | DamageFacts]:
        for found in search.chunks(segment, part):
            if not isinstance(found, Chunk):
                yield found
                continue
            hits = self.key.among(found.columns, found.hits)
            if len(hits):
                yield found._replace(hits=hits, shown=hits)
