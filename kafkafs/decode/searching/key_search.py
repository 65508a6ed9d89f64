"""Search for the records of one key: the newest one, or all in offset order.

Keys are compared as bytes. Control records have no key of a producer and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from engine import kernel
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.units import Offset
from kafkafs.decode.searching.required_literal import RequiredLiteral
from kafkafs.decode.searching.search import (
    Chunk,
    DamageFacts,
    Match,
    Query,
    Search,
    controls,
)

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


class KeySearch:
    """A search of a partition for the records with one key.

    Args:
        view: the partition.
        key: the key; a null key is no key.
        options: the fields of lines, and the range of offsets.
    """

    def __init__(
        self,
        view: LogView,
        key: bytes,
        options: kernel.LineOptions,
    ) -> None:
        self.view = view
        self._key = key
        self._options = options
        pattern = re.compile(rb"\A%b\Z" % re.escape(key), re.DOTALL)
        literal = RequiredLiteral(key, fold=False, is_all=True)
        self._query = Query(pattern, frozenset({"key"}), literal, None)

    def newest(self) -> KeyFindings:
        """Look for the newest record: read the segments from the newest one on, up to the first with the key."""
        findings = KeyFindings()
        for start, stop in self._segments():
            findings.segments += 1
            newer = findings.places, list(findings.damage)
            for item in self._items(self._between(start, stop)):
                if isinstance(item, int):
                    findings.size += item
                elif isinstance(item, Chunk):
                    findings.offset = int(item.columns.offset[item.hits[-1]])
                    # Damage before the record in its segment cannot hold a newer one.
                    findings.places, findings.damage = newer[0], list(newer[1])
                else:
                    findings.add_place(item)
            if findings.offset is not None:
                break
        return findings

    def chunks(
        self, start: Offset | None = None, stop: Offset | None = None
    ) -> Iterator[Chunk | DamageFacts]:
        """Yield the records of the key in a range of offsets, some at a time, and the damaged places."""
        for item in self._items(self._between(start, stop)):
            if not isinstance(item, int):
                yield item

    def lines(
        self, start: Offset | None = None, stop: Offset | None = None
    ) -> Iterator[Match | DamageFacts]:
        """Yield the lines of the key's records in a range of offsets, and the damaged places."""
        shown = Search(self.view, self._query, self._options)
        for item in self.chunks(start, stop):
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

    def _items(self, search: Search) -> Iterator[Chunk | DamageFacts | int]:
        """Yield the records of the key, the damaged places, and the size of each run of batches."""
        for segment, part in search.parts():
            if isinstance(part, BatchRun):
                yield int(part.table["size"].sum())
            yield from self._found(search, segment, part)
            del part  # free it before the next one is read: a batch may be as large as the budget

    def _found(
        self, search: Search, segment: LogSegment, part: ScanItem
    ) -> Iterator[Chunk | DamageFacts]:
        for found in search.chunks(segment, part):
            if not isinstance(found, Chunk):
                yield found
                continue
            columns, hits = found.columns, found.hits
            hits = hits[columns.key_size[hits] == len(self._key)]  # those that hold it are it
            hits = hits[~controls(found.run)[columns.row[hits]]]
            if len(hits):
                yield found._replace(hits=hits, shown=hits)
