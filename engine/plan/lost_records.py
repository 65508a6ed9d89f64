"""Find the records that a loading removes: the good batches in truncated, deleted and renamed files.

Records count if their batch has a valid checksum, also after damage; damaged bytes have no known number of
records. Records that a compaction or a split moved to another file are not lost. In a file that stays, records
past the log end count only if its offsets are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from engine.columns.batch_table import holds_control
from engine.files.file_names import FileKind
from engine.files.source_files import SourceRoot
from engine.log.segment.scan import BatchRun, Damage, scan
from engine.plan.kept_records import ReadableContent
from engine.plan.loading.java_text import offset_in_name
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from engine.plan.overlay.overlay_content import OverlayContent
from engine.units import Offset, Position, Timestamp

_LOG = FileKind.LOG.value


class LostOffsets(NamedTuple):
    """Offsets [start, end)."""

    start: Offset
    end: Offset


class Losses(NamedTuple):
    """Records and bytes that a loading removes.

    Attributes:
        records: number of records in good batches, without control records.
        control_records: number of control records.
        bytes: bytes of records files: good batches, damage, zeros; not those of batches in other files.
        damaged_bytes: the part of `bytes` outside of good batches.
        ranges: offsets of the good batches, ascending, adjacent ranges merged.
        first_timestamp, last_timestamp: smallest and largest timestamp that the batches state; None without one.
    """

    records: int = 0
    control_records: int = 0
    bytes: int = 0
    damaged_bytes: int = 0
    ranges: tuple[LostOffsets, ...] = ()
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None

    @property
    def offsets(self) -> int:
        """Number of lost offsets."""
        return sum(end - start for start, end in self.ranges)

    @property
    def end(self) -> Offset:
        """One past the last lost offset; 0 without one."""
        return max((each.end for each in self.ranges), default=0)


NOTHING_LOST = Losses()


def lost_records(
    root: SourceRoot,
    relative: str,
    changes: Iterable[FileChange],
    log_start: Offset,
    kept: Iterable[LostOffsets],
    hidden: Iterable[tuple[OverlayContent, Offset]] = (),
    ends: Mapping[str, Offset] | None = None,
) -> Losses:
    """Return the losses by changes to a folder's files.

    Args:
        root, relative: source, and path of the folder in it.
        changes: changes to its files.
        log_start: log start offset; records below it were deleted before.
        kept: offsets in new segments that replace others.
        hidden: records files that stay, each with the offset from which readers no longer see them.
        ends: next offsets of truncated files by name: after the truncation, bytes that look like a batch with
            a lower offset are none.

    Raises:
        OSError: a file cannot be read.
    """
    count = _Count(log_start, list(kept))
    prefix = f"{relative}/" if relative else ""
    for change in changes:
        start = _gone_from(change)
        if start is not None:
            count.scan(root, prefix + change.name, start, (ends or {}).get(change.name))
    for content, offset in hidden:
        count.scan_hidden(content, max(log_start, offset))
    return count.losses()


def _gone_from(change: FileChange) -> Position | None:
    """Return the position from which a file loses its records; None if it is no records file, or loses none."""
    if not change.name.endswith(_LOG) or offset_in_name(change.name) is None:
        return None
    if change.change is ChangeKind.TRUNCATED:
        return change.size_after
    if change.change is ChangeKind.DELETED:
        return 0
    return 0 if change.change is ChangeKind.RENAMED and change.deleted_later else None


class _Count:
    def __init__(self, log_start: Offset, kept: list[LostOffsets]) -> None:
        self._log_start = log_start
        self._kept = kept
        self._records = self._control = self._bytes = self._damaged = 0
        self._ranges: list[LostOffsets] = []
        self._times: list[Timestamp] = []

    def scan(
        self, root: SourceRoot, path: str, start: Position, next_offset: Offset | None
    ) -> None:
        """Count the records of a file from a position on."""
        with root.open_fresh(path) as file:
            end = file.size()
            self._bytes += end - start
            for item in scan(file, start, end, next_offset=next_offset):
                if isinstance(item, BatchRun):
                    self._take(item, self._log_start, self._kept)
                elif isinstance(item, Damage):
                    self._damaged += item.length

    def scan_hidden(self, content: OverlayContent, first_offset: Offset) -> None:
        """Count the records of a file from an offset on, but not its bytes, which stay."""
        for item in scan(ReadableContent(content), 0, content.size):
            if isinstance(item, BatchRun):
                self._take(item, first_offset, [])

    def _take(self, run: BatchRun, log_start: Offset, kept: list[LostOffsets]) -> None:
        for row in range(len(run.table)):
            batch = run.table[row]
            first, last = int(batch["base_offset"]), int(batch["last_offset"])
            count = int(batch["record_count"])
            if count < 0 or first < log_start <= last:
                offsets = _offsets(run, row)
                offsets = offsets[offsets >= log_start]
                count = len(offsets)
                if count:  # the header of a wrapper need not state the offsets of its records
                    first, last = int(offsets.min()), int(offsets.max())
            if any(each.start <= first < each.end for each in kept):
                self._bytes -= int(batch["size"])
                continue
            if last < log_start:
                continue
            if holds_control(batch):
                self._control += count
            else:
                self._records += count
            self._ranges.append(LostOffsets(max(first, log_start), last + 1))
            stated = int(batch["base_timestamp"]), int(batch["max_timestamp"])
            self._times = [*self._times, *(each for each in stated if each >= 0)]
            self._times = [min(self._times), max(self._times)] if self._times else []

    def losses(self) -> Losses:
        times = self._times
        return Losses(
            self._records,
            self._control,
            self._bytes,
            self._damaged,
            tuple(joined(self._ranges)),
            min(times, default=None),
            max(times, default=None),
        )


def joined(ranges: Iterable[LostOffsets]) -> Iterator[LostOffsets]:
    """Yield the ranges in ascending order, with adjacent and overlapping ones merged."""
    current: LostOffsets | None = None
    for each in sorted(ranges):
        if current is None or each.start > current.end:
            if current is not None:
                yield current
            current = each
        else:
            current = LostOffsets(current.start, max(current.end, each.end))
    if current is not None:
        yield current


def _offsets(run: BatchRun, row: int) -> np.ndarray:
    """Decode a batch, and return the offsets of its records."""
    columns = run.decoded(row)
    return columns.offset


def written_ranges(contents: Iterable[tuple[Offset, OverlayContent]]) -> Iterator[LostOffsets]:
    """Yield the offsets in new records files, each from its base offset on."""
    for base_offset, content in contents:
        end = base_offset
        for item in scan(ReadableContent(content), 0, content.size):
            if isinstance(item, BatchRun):
                end = max(end, item.next_offset)
        if end > base_offset:
            yield LostOffsets(base_offset, end)
