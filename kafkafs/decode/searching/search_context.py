"""Matching records with the records before and behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from engine.log.segment.scan import BatchRun
from kafkafs.decode.searching.search import Chunk, DamageFacts, Match, Search
from kafkafs.records.visible import Indices

SEPARATOR = b"--\n"
"""Line between groups of records that do not follow each other, as grep prints it."""


class ContextSearch:
    """Lines of matching records, each with records before and behind it in its partition, in offset order.

    Args:
        before, behind: number of records.
        most: number of matching records to stop after; None for no limit.
    """

    def __init__(self, before: int, behind: int, most: int | None = None) -> None:
        self._behind = behind
        self._most = most
        self._held: deque[bytes] = deque(maxlen=before)
        """Lines of the last records, if they were not printed."""
        self._left = 0
        """Number of records behind the last match that are still to be printed."""
        self._has_printed = False
        self._is_gap = False
        """Whether a record was left out since a line was printed."""

    @property
    def has_enough(self) -> bool:
        """Whether as many records were found as are wanted."""
        return self._most == 0

    def results(self, searches: Iterable[Search]) -> Iterator[Match | DamageFacts | int]:
        """Yield a partition's lines with the number of matches, damaged places, and counts of read bytes."""
        self._leave_out()
        self._left = 0
        for search in searches:
            for segment, part in search.parts():
                if isinstance(part, BatchRun):
                    yield int(part.table["size"].sum())
                for chunk in search.chunks(segment, part, with_shown=True):
                    if not isinstance(chunk, Chunk):
                        yield chunk
                        continue
                    yield self._match(search, chunk)
                    if self._most == 0 and not self._left:
                        return

    def _match(self, search: Search, chunk: Chunk) -> Match:
        hits = set(chunk.hits[: self._most].tolist())
        if self._most is not None:
            self._most -= len(hits)
        shown = chunk.shown
        if not hits and not self._left:
            last = shown[max(len(shown) - (self._held.maxlen or 0), 0) :]
            if len(last) < len(shown):
                self._leave_out()
            shown = last
        found = bytearray()
        for index, line in zip(shown.tolist(), _lines(search, chunk, shown), strict=True):
            if index in hits:
                self._print_hit(found, line)
            elif self._left:
                found += line
                self._left -= 1
            else:
                self._is_gap |= len(self._held) == self._held.maxlen
                self._held.append(line)
        return Match(bytes(found), len(hits))

    def _print_hit(self, found: bytearray, line: bytes) -> None:
        if self._has_printed and self._is_gap:
            found += SEPARATOR
        found += b"".join(self._held) + line
        self._held.clear()
        self._left, self._has_printed, self._is_gap = self._behind, True, False

    def _leave_out(self) -> None:
        self._held.clear()
        self._is_gap = True


def _lines(search: Search, chunk: Chunk, indices: Indices) -> list[bytes]:
    if not len(indices):
        return []
    return b"".join(match.text for match in search.lines(chunk, indices)).splitlines(keepends=True)
