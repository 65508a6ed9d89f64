"""What of a log with moved blocks is to be served: the truth that the generator knows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_HEAD = 24
_OFFSET = 8


class Made(NamedTuple):
    """A batch, or a message of magic 0 or 1, as it was written, with its values by offset.

    `inner` are the messages of a wrapper, which has them as they are where they did not shrink; `stated` is its offset
    where that is not the one of its last message.
    """

    data: bytes
    values: dict[int, bytes]
    inner: tuple[tuple[bytes, int], ...] = ()
    stated: int | None = None

    def restated(self, stated: bytes) -> Made:
        """The batch with another base offset, which no checksum covers; messages in one of magic 0 have their own."""
        data, magic = stated + self.data[_OFFSET:], self.data[16]
        offset = int.from_bytes(stated, "big", signed=True)
        if magic == 0 and self.inner:
            return Made(data, self.values, self.inner, offset)
        by = offset - int.from_bytes(self.data[:_OFFSET], "big")
        return Made(data, {at + by: value for at, value in self.values.items()}, self.inner)

    @property
    def first(self) -> int:
        first = min(self.values)
        return first if self.stated is None else min(first, self.stated)

    @property
    def last(self) -> int:
        return max(self.values) if self.stated is None else self.stated


class Copy(NamedTuple):
    """A whole batch in a changed segment."""

    position: int
    batch: Made


@dataclass
class Segment:
    base: int
    batches: list[Made] = field(default_factory=list)
    data: bytes = b""

    @property
    def starts(self) -> list[int]:
        found, at = [], 0
        for each in self.batches:
            found.append(at)
            at += len(each.data)
        return found


@dataclass
class Case:
    """A changed log.

    Attributes:
        what: what was done.
        segments: the segments; `data` as it is on disk.
        other: batches of another log.
        next_offset: the log end as it was written.
        has_foreign: whether batches of another log may be among the changed bytes.
    """

    what: str
    segments: list[Segment]
    other: list[Segment]
    next_offset: int
    is_compacted: bool
    has_foreign: bool = False

    def every(self) -> Iterator[Made]:
        """All batches of both logs, and the messages in their wrappers, with the offsets that they state."""
        for one in (*self.segments, *self.other):
            for made in one.batches:
                yield made
                values = list(made.values.values())
                for (data, offset), value in zip(made.inner, values, strict=bool(made.inner)):
                    yield Made(data, {offset: value})


class Bytes:
    """A changed segment: every whole batch that anybody wrote, where it stands now, and which of them count.

    Whole batches inside a damaged one may be part of a value of it. They count unless its frame ends where a whole
    batch begins, or at the end: then only those count that lead there without a gap.

    A block that ends inside of a base offset leaves a batch whole, with the right checksum: it is one with the offset
    that it now states.
    """

    def __init__(self, case: Case, number: int) -> None:
        segment = case.segments[number]
        self.data = segment.data
        self.lower = segment.base
        self.upper = case.segments[number + 1].base if number < 2 else 1 << 62
        self._whole: dict[int, Made] = {}
        by_head: dict[bytes, list[Made]] = {}
        for made in case.every():
            by_head.setdefault(made.data[_OFFSET:_HEAD], []).append(made)
        for at in range(len(self.data) - _HEAD):
            found = [
                made
                for made in by_head.get(self.data[at + _OFFSET : at + _HEAD], ())
                if self.data.startswith(made.data[_OFFSET:], at + _OFFSET)
            ]
            stated = self.data[at : at + _OFFSET]
            exact = [made for made in found if made.data.startswith(stated)]
            if exact:
                self._whole[at] = exact[-1]
            elif found:
                self._whole[at] = found[0].restated(stated)
        self._starts = sorted(self._whole)
        self.found = list(self._walked())

    def _walked(self) -> Iterator[Copy]:
        at = 0
        while at < len(self.data):
            made = self._whole.get(at)
            if made is None:
                following = self._behind_damage(at)
                if following is None:
                    return
                at = following
                continue
            if self.lower <= made.first and made.last < self.upper:
                yield Copy(at, made)
            at += len(made.data)

    def _behind_damage(self, at: int) -> int | None:
        """Where the next batch that counts begins."""
        end = self._frame_end(at)
        target = None if end is None else self._followed(end)
        inner = self._first(at + 1, len(self.data) if target is None else target)
        if target is None or inner is None:
            return inner if target is None else target
        reached = inner
        while reached < target and reached in self._whole:
            reached += len(self._whole[reached].data)
        return inner if reached == target else target

    def _first(self, start: int, stop: int) -> int | None:
        """The first whole batch that states an offset of the segment; a wrapper states its last one."""
        for at in self._starts[bisect_left(self._starts, start) : bisect_left(self._starts, stop)]:
            stated = int.from_bytes(self.data[at : at + 8], "big")
            if self.lower <= stated < min(self.upper, self.lower + (1 << 31)):
                return at
        return None

    def _frame_end(self, at: int) -> int | None:
        """The end of the damaged batch that the bytes at a place state."""
        if at + 17 > len(self.data):
            return None
        length, magic = int.from_bytes(self.data[at + 8 : at + 12], "big"), self.data[at + 16]
        end = at + 12 + length
        smallest = {0: 26, 1: 34, 2: 61}.get(magic, 1 << 31)
        return end if 12 + length >= smallest and end <= len(self.data) else None

    def _followed(self, at: int | None) -> int | None:
        """The whole batch, or the end, that frames of damaged batches lead to."""
        while at is not None and at < len(self.data) and at not in self._whole:
            at = self._frame_end(at)
        return at

    def records(self, places: Iterable[int]) -> int:
        """The records that count of some copies."""
        return sum(
            len(self.found[place].batch.values) for place in places if not self._is_hit(place)
        )

    def _is_hit(self, place: int) -> bool:
        """Whether a copy continues no neighbour, and would if one bit of its first offset were another."""
        at, made = self.found[place]
        end, following = 0, self.lower
        if place:
            before = self.found[place - 1]
            end, following = before.position + len(before.batch.data), before.batch.last + 1
        if place + 1 < len(self.found):
            behind = self.found[place + 1]
            adjoins = behind.position == at + len(made.data)
            if adjoins and behind.batch.first == made.last + 1:
                return False
        return end == at and (made.first ^ following).bit_count() == 1

    def largest(self) -> int:
        """The most records of copies with ascending offsets, in file order."""
        last = np.array([copy.batch.last for copy in self.found])
        best = np.zeros(len(self.found), int)
        for place, copy in enumerate(self.found):
            before = best[:place][last[:place] < copy.batch.first]
            records = 0 if self._is_hit(place) else len(copy.batch.values)
            best[place] = records + before.max(initial=0)
        return int(best.max(initial=0))


def contradict(one: Copy, other: Copy) -> bool:
    """Whether two copies cannot be in one chain."""
    first, second = sorted((one, other))
    return first.batch.last >= second.batch.first
