"""The segments of a log by base offset, with the look-ups of Kafka's LogSegments.

They are kept in a skip list, so readers need no lock while the log's owner rolls and deletes segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from engine.errors import KafkaStorageError
from engine.log.skip_list import SkipList
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

    __slots__ = ("_active", "_segments")

    def __init__(self, segments: Iterable[S] = ()) -> None:
        self._segments: SkipList[S] = SkipList(
            (segment.base_offset, segment) for segment in segments
        )
        self._active = self.last

    def add(self, segment: S) -> S | None:
        """Add a segment; return the one of the same base offset that it replaced."""
        replaced = self._segments.insert(segment.base_offset, segment)
        self._active = self.last
        return replaced

    def remove(self, base_offset: Offset) -> S | None:
        """Remove and return the segment of a base offset, None without one."""
        removed = self._segments.remove(base_offset)
        self._active = self.last
        return removed

    def clear(self) -> None:
        """Remove all segments."""
        self._segments.clear()
        self._active = None

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
        return len(self._segments)

    def __contains__(self, base_offset: Offset) -> bool:
        return base_offset in self._segments

    def __iter__(self) -> Iterator[S]:
        return self._segments.values()

    def get(self, base_offset: Offset) -> S | None:
        """Return the segment of exactly this base offset, None without one."""
        return self._segments.get(base_offset)

    @property
    def base_offsets(self) -> list[Offset]:
        """All base offsets, ascending."""
        return list(self._segments)

    def values(self, start: Offset, stop: Offset) -> Iterator[S]:
        """Return the segments that may hold offsets of [start, stop), from the floor of `start` on.

        Raises:
            ValueError: `start` is above `stop`.
        """
        if start > stop:
            raise ValueError(f"segments from offset {start}, which is above the limit {stop}")
        if start == stop:
            return iter(())
        floor = self._segments.floor(start)
        first = None if floor is None else floor[0]
        return (segment for _, segment in self._segments.between(first, stop))

    def non_active_from(self, start: Offset) -> Iterator[S]:
        """Return the segments from the floor of `start` on, without the active one."""
        active = self.active_segment.base_offset
        return iter(()) if start > active else self.values(start, active)

    def higher_segments(self, base_offset: Offset) -> Iterator[S]:
        """Return the segments with a larger base offset."""
        return (segment for _, segment in self._segments.between(base_offset + 1, None))

    def floor(self, offset: Offset) -> S | None:
        """Return the segment with the largest base offset at or below an offset."""
        return _value(self._segments.floor(offset))

    def lower(self, offset: Offset) -> S | None:
        """Return the segment with the largest base offset below an offset."""
        return _value(self._segments.lower(offset))

    def ceiling(self, offset: Offset) -> S | None:
        """Return the segment with the smallest base offset at or above an offset."""
        return _value(self._segments.ceiling(offset))

    def higher(self, offset: Offset) -> S | None:
        """Return the segment with the smallest base offset above an offset."""
        return _value(self._segments.higher(offset))

    @property
    def first(self) -> S | None:
        """The oldest segment."""
        return _value(self._segments.first())

    @property
    def last(self) -> S | None:
        """The newest segment."""
        return _value(self._segments.last())

    @property
    def active_segment(self) -> S:
        """The newest segment, the one that a broker appends to.

        Raises:
            LookupError: there is no segment.
        """
        active = self._active
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


def _value(entry: tuple[int, S] | None) -> S | None:
    return None if entry is None else entry[1]
