"""The segments of a log by base offset, with the look-ups of Kafka's LogSegments.

Readers need no lock while the log's owner rolls and deletes segments: a new last segment is appended to the lists that
they see, any other change makes new lists, and a reader goes on with what it had. There is one writer at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from engine.errors import KafkaStorageError
from engine.units import Offset


class Segment(Protocol):
    """The part of a segment that `LogSegments` uses."""

    @property
    def base_offset(self) -> Offset:
        """The smallest offset that may be in the segment; also its name."""

    @property
    def size(self) -> int:
        """Size of the records file in bytes."""

    def close(self) -> None:
        """Close the files."""


S = TypeVar("S", bound=Segment)


class LogSegments(Generic[S]):
    """A log's segments, ordered by base offset; the last one is the active one."""

    __slots__ = ("_lists",)

    def __init__(self, segments: Iterable[S] = ()) -> None:
        self._lists: tuple[list[Offset], list[S]] = [], []
        for segment in sorted(segments, key=lambda each: each.base_offset):
            self.add(segment)

    def add(self, segment: S) -> S | None:
        """Add a segment; return the one of the same base offset that it replaced."""
        bases, segments = self._lists
        base = segment.base_offset
        place = bisect_left(bases, base)
        if place == len(bases):
            segments.append(segment)  # first: a reader that finds its offset finds it
            bases.append(base)
            return None
        if bases[place] == base:
            replaced, segments[place] = segments[place], segment
            return replaced
        self._lists = (
            [*bases[:place], base, *bases[place:]],
            [*segments[:place], segment, *segments[place:]],
        )
        return None

    def remove(self, base_offset: Offset) -> S | None:
        """Remove and return the segment of a base offset, None without one."""
        bases, segments = self._lists
        place = bisect_left(bases, base_offset)
        if bases[place : place + 1] != [base_offset]:
            return None
        self._lists = (
            bases[:place] + bases[place + 1 :],
            segments[:place] + segments[place + 1 :],
        )
        return segments[place]

    def clear(self) -> None:
        """Remove all segments."""
        self._lists = [], []

    def close(self) -> None:
        """Close every segment, even if one fails, and raise the first error. The segments are kept."""
        first: Exception | None = None
        for segment in self:
            try:
                segment.close()
            except (OSError, ValueError, KafkaStorageError) as error:
                first = first or error
        if first is not None:
            raise first

    def __len__(self) -> int:
        return len(self._lists[0])

    def __contains__(self, base_offset: Offset) -> bool:
        return self.get(base_offset) is not None

    def __iter__(self) -> Iterator[S]:
        return iter(self._lists[1])

    def get(self, base_offset: Offset) -> S | None:
        """Return the segment of exactly this base offset, None without one."""
        bases, segments = self._lists
        place = bisect_left(bases, base_offset)
        return segments[place] if bases[place : place + 1] == [base_offset] else None

    @property
    def base_offsets(self) -> list[Offset]:
        """All base offsets, ascending."""
        return self._lists[0].copy()

    def values(self, start: Offset, stop: Offset) -> Iterator[S]:
        """Return the segments that may hold offsets of [start, stop), from the floor of `start` on.

        Raises:
            ValueError: `start` is above `stop`.
        """
        if start > stop:
            raise ValueError(f"segments from offset {start}, which is above the limit {stop}")
        bases, segments = self._lists
        first, end = max(bisect_right(bases, start) - 1, 0), bisect_left(bases, stop)
        return map(segments.__getitem__, range(first, end if start < stop else first))

    def non_active_from(self, start: Offset) -> Iterator[S]:
        """Return the segments from the floor of `start` on, without the active one."""
        active = self.active_segment.base_offset
        return iter(()) if start > active else self.values(start, active)

    def higher_segments(self, base_offset: Offset) -> Iterator[S]:
        """Return the segments with a larger base offset."""
        bases, segments = self._lists
        return map(segments.__getitem__, range(bisect_right(bases, base_offset), len(bases)))

    def floor(self, offset: Offset) -> S | None:
        """Return the segment with the largest base offset at or below an offset."""
        bases, segments = self._lists
        place = bisect_right(bases, offset)
        return segments[place - 1] if place else None

    def lower(self, offset: Offset) -> S | None:
        """Return the segment with the largest base offset below an offset."""
        return self.floor(offset - 1)

    def ceiling(self, offset: Offset) -> S | None:
        """Return the segment with the smallest base offset at or above an offset."""
        return self.higher(offset - 1)

    def higher(self, offset: Offset) -> S | None:
        """Return the segment with the smallest base offset above an offset."""
        bases, segments = self._lists
        count = len(bases)  # before the search: segments are appended meanwhile
        place = bisect_right(bases, offset, 0, count)
        return segments[place] if place < count else None

    @property
    def first(self) -> S | None:
        """The oldest segment."""
        return next(iter(self), None)

    @property
    def last(self) -> S | None:
        """The newest segment."""
        return next(reversed(self._lists[1]), None)

    @property
    def active_segment(self) -> S:
        """The newest segment, the one that a broker appends to.

        Raises:
            LookupError: there is no segment.
        """
        active = self.last
        if active is None:
            raise LookupError("a log without segments has no active one")
        return active

    @property
    def size(self) -> int:
        """Size of all records files in bytes."""
        return sum(segment.size for segment in self)

    def filter(self, wanted: Callable[[S], bool]) -> list[S]:
        """Return the segments that pass a test, in order."""
        return [segment for segment in self if wanted(segment)]
