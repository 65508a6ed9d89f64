"""Search for the records of one key: the newest one, or all in offset order.

Control records have no key of a producer and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from engine import kernel
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.units import Offset
from engine.workers import Workers
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.record_format import RecordFormat
from kafkafs.decode.searching.required_literal import RequiredLiteral
from kafkafs.decode.searching.search import (
    Chunk,
    DamageFacts,
    Match,
    Query,
    Search,
    controls,
)
from kafkafs.decode.searching.wanted_key import WantedKey

_MOST_PLACES = 20


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

    Searches raise FileNotFoundError for a segment that was deleted or replaced since the view was made, other OSError.
    """

    def __init__(
        self,
        view: LogView,
        key: WantedKey,
        options: kernel.LineOptions,
        jobs: int = 1,
        form: RecordFormat | None = None,
    ) -> None:
        self.view = view
        self._form = form
        self._key = key
        self._options = options
        self._jobs = jobs
        pattern = re.compile(re.escape(key.content), re.DOTALL)
        literal = RequiredLiteral(key.content, fold=False, is_all=True)
        self._query = Query(pattern, frozenset({"key"}), literal, None)

    def newest(self, cancel: Callable[[], bool] = lambda: False) -> KeyFindings:
        """Look for the newest record: read the segments from the newest one on, up to the first with the key.

        Args:
            cancel: called after each run of batches; True ends the search.

        Raises:
            Cancelled: `cancel` has returned True.
        """
        findings = KeyFindings()
        for start, stop in self._segments():
            findings.segments += 1
            newer = findings.places, list(findings.damage)
            for item in self._items(self._between(start, stop)):
                if isinstance(item, Passed):
                    findings.size += item.size
                    if cancel():
                        raise Cancelled
                elif isinstance(item, Chunk):
                    findings.offset = int(item.columns.offset[item.hits[-1]])
                    # Damage before the record in its segment cannot hold a newer one.
                    findings.places, findings.damage = newer[0], list(newer[1])
                else:
                    findings.add_place(item)
            if findings.offset is not None:
                break
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
        shown = Search(self.view, self._query, self._options, form=self._form)
        for item in self._items(self._between(start, stop)):
            if isinstance(item, Chunk):
                yield from shown.lines(item, item.hits)
            else:
                yield item

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
        return Search(self.view, self._query, options)

    def _items(self, search: Search) -> Iterator[Chunk | DamageFacts | Passed]:
        """Yield the records of the key and the damaged places of each run of batches, and then its end, in log order."""

        def work(task: tuple[LogSegment, ScanItem]) -> Iterator[Chunk | DamageFacts | Passed]:
            segment, part = task
            yield from self._found(search, segment, part)
            if isinstance(part, BatchRun):
                yield Passed(int(part.table["size"].sum()), part.next_offset)

        with Workers(self._jobs, "get") as workers:
            yield from workers.flat_map(work, search.parts(), _is_large)

    def _found(
        self, search: Search, segment: LogSegment, part: ScanItem
    ) -> Iterator[Chunk | DamageFacts]:
        for found in search.chunks(segment, part):
            if not isinstance(found, Chunk):
                yield found
                continue
            hits = found.hits
            hits = hits[~controls(found.run)[found.columns.row[hits]]]
            hits = self._key.among(found.columns, hits)
            if len(hits):
                yield found._replace(hits=hits, shown=hits)


def _is_large(task: tuple[LogSegment, ScanItem]) -> bool:
    return isinstance(task[1], BatchRun) and task[1].is_large
