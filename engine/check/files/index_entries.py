"""Entries of a segment's index as a numpy table, and helpers for the index checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.partition_under_check import SegmentUnderCheck
from engine.check.rules.finding import Finding, failed_read
from engine.check.rules.rules import RULES, Severity
from engine.errors import SourceRefusedError
from engine.units import MAX_INT64, Offset, Position

Table: TypeAlias = npt.NDArray[Any]

MOST_ENTRIES = 2_097_152
"""Entries of an index that are checked: enough for a segment of 2 GiB with an entry per kilobyte."""


class IndexEntries(NamedTuple):
    """Entries of an index file.

    Attributes:
        table: one row per entry.
        byte_size: size of the file.
        leftover: bytes after the last whole entry, unless they are zeros of a preallocated file.
        unread: bytes after the first MOST_ENTRIES entries.
    """

    table: Table
    byte_size: int
    leftover: int
    unread: int


def read_entries(
    segment: SegmentUnderCheck, name: str, dtype: np.dtype[Any], *, is_padded: bool = True
) -> IndexEntries | None:
    """Read the first MOST_ENTRIES entries of an index; None if the file is missing.

    With `is_padded`, zeros at the end are not entries.

    Raises:
        OSError: the file cannot be read.
    """
    partition = segment.partition
    try:
        file = partition.open(name)
    except FileNotFoundError:
        return None
    with file:
        size = file.size()
        data = file.read_at(0, min(size, MOST_ENTRIES * dtype.itemsize))
    whole = len(data) // dtype.itemsize * dtype.itemsize
    used = len(data.rstrip(b"\0")) if is_padded else whole
    count = min(-(-used // dtype.itemsize), whole // dtype.itemsize)
    table = np.frombuffer(data, dtype, count)
    return IndexEntries(table, size, size % dtype.itemsize, size - len(data))


def size_findings(
    segment: SegmentUnderCheck, name: str, entries: IndexEntries, entry_size: int
) -> Iterator[Finding]:
    """Yield findings about the size of an index."""
    size = entries.byte_size
    if entries.leftover:
        yield segment.partition.found(
            "index-length",
            name,
            f"the size {size} is not a multiple of {entry_size}",
            position=size - entries.leftover,
            length=entries.leftover,
            expected=f"a multiple of {entry_size}",
            found=size,
        )
    if entries.unread:
        yield segment.partition.found(
            "index-length",
            name,
            f"the index has {size} bytes: only its first {MOST_ENTRIES} entries are checked",
            position=size - entries.unread,
            length=entries.unread,
        )


class EntryFindings(NamedTuple):
    """Makes the findings about entries of an index.

    Attributes:
        segment: segment of the index.
        name: name of the index file.
        entry_size: bytes of an entry.
        offsets: offset of each entry.
    """

    segment: SegmentUnderCheck
    name: str
    entry_size: int
    offsets: Table

    def found(
        self,
        rule: str,
        slot: int,
        sentence: str,
        *,
        first_offset: Offset | None = None,
        next_offset: Offset | None = None,
        **facts: object,
    ) -> Finding:
        """Return a finding about the entry in `slot`; by default it concerns the entry's offset."""
        offset = int(self.offsets[slot])
        is_offset = 0 <= offset < MAX_INT64
        first = offset if first_offset is None else first_offset
        return self.segment.partition.found(
            rule,
            self.name,
            sentence,
            position=slot * self.entry_size,
            length=self.entry_size,
            first_offset=first if is_offset else None,
            next_offset=(next_offset or offset + 1) if is_offset else None,
            severity=severity_of(self.segment, rule),
            facts=facts,
        )

    def not_above(self, rule: str, slot: int, sentence: str) -> Finding:
        """Return the finding for an entry that is not above the entry before it, in `slot`."""
        pair = self.offsets[slot : slot + 2]
        return self.segment.partition.found(
            rule,
            self.name,
            sentence,
            position=slot * self.entry_size,
            length=2 * self.entry_size,
            first_offset=int(min(pair)),
            next_offset=int(max(pair)) + 1,
            severity=severity_of(self.segment, rule),
        )


def unreadable(segment: SegmentUnderCheck, name: str, error: OSError) -> Iterator[Finding]:
    """Report an index that cannot be read. Links and devices are reported by `check_folder`."""
    if not isinstance(error, SourceRefusedError):
        yield segment.partition.found("file-unreadable", name, **failed_read(error))


def damaged_spans(segment: SegmentUnderCheck) -> tuple[Table, Table]:
    """Return the starts and ends of the segment's damage, in file order."""
    spans = [(each.position, each.position + each.length) for each in segment.damages]
    starts, ends = np.array(spans, "i8").reshape(-1, 2).T
    return starts, ends


def within(positions: Table, starts: Table, ends: Table) -> npt.NDArray[np.bool_]:
    """Return which positions are inside one of some ordered ranges."""
    if not len(starts):
        return np.zeros(len(positions), np.bool_)
    place = starts.searchsorted(positions, "right") - 1
    return (place >= 0) & (positions < ends[np.maximum(place, 0)])


def looked_at(segment: SegmentUnderCheck) -> Position:
    """Return the position up to which the segment's file was checked, damage included."""
    last = max((each.position + each.length for each in segment.damages), default=0)
    return max(segment.end, last)


def severity_of(segment: SegmentUnderCheck, rule: str) -> Severity | None:
    """Return the severity of an index's breach, if it differs from the rule's.

    After a truncation, old entries remain at the end of the active segment's indexes until the indexes are closed; and
    after a crash a broker rebuilds these indexes.
    """
    if not segment.is_active:
        return None
    if segment.partition.is_live:
        return Severity.NOTE
    if RULES[rule].severity is Severity.ERROR and not segment.partition.has_clean_shutdown:
        return Severity.WARNING
    return None
