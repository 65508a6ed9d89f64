"""Which records a loading takes away: the good batches in what it cuts, deletes and renames.

Counted are records in batches whose checksum is right, also behind damage; of what is damaged nobody can say
how many records it held. What a finished compaction or a split puts elsewhere is not lost. Where offsets are not
in order in a file that stays, records beyond the log's end are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.files.file_names import FileKind, FileState
from engine.files.source_files import SourceRoot
from engine.log.segment.scan import BatchRun, Damage, scan
from engine.plan.kept_records import ReadableContent
from engine.plan.loading.java_text import offset_in_name
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from engine.plan.overlay.overlay_content import OverlayContent
from engine.record.attributes import CONTROL_MASK
from engine.units import Offset, Position

_LOG = FileKind.LOG.value
_SWAP = _LOG + FileState.SWAP.value


class LostOffsets(NamedTuple):
    """Offsets from `start` up to `end`, which is not one of them."""

    start: Offset
    end: Offset


class Losses(NamedTuple):
    """What is gone.

    Attributes:
        records: of good batches; control records are not among them.
        control_records: transaction markers and the like.
        bytes: of records files: good batches, damage, zeros.
        damaged_bytes: those of them that are in no good batch.
        ranges: the offsets of the good batches, ascending, neighbours joined.
    """

    records: int = 0
    control_records: int = 0
    bytes: int = 0
    damaged_bytes: int = 0
    ranges: tuple[LostOffsets, ...] = ()

    @property
    def end(self) -> Offset:
        """The offset after the last one that is gone; 0 when none is."""
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
    """What changes to a folder's files take away.

    Args:
        root, relative: where the folder is in the source.
        changes: what is done to its files.
        log_start: records below were deleted before.
        kept: offsets that are in new segments, in the place of what was there.
        hidden: records files that stay, and the offset from where on nobody sees them any more.
        ends: of files that are cut, by name, the offset after what stays: bytes that look like a batch below
            it are none.

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
    """From where on the records of a file are gone, None when they are not, or it is no records file."""
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

    def scan(
        self, root: SourceRoot, path: str, start: Position, next_offset: Offset | None
    ) -> None:
        """Count what a file has from a position on."""
        with root.open_fresh(path) as file:
            end = file.size()
            self._bytes += end - start
            for item in scan(file, start, end, next_offset=next_offset):
                if isinstance(item, BatchRun):
                    self._take(item, self._log_start, self._kept)
                elif isinstance(item, Damage):
                    self._damaged += item.length

    def scan_hidden(self, content: OverlayContent, first_offset: Offset) -> None:
        """Count the batches that a file has from an offset on; it stays as it is."""
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
                if count:  # an old compressed batch need not know the offsets that its records have
                    first, last = int(offsets.min()), int(offsets.max())
            if last < log_start or any(each.start <= first < each.end for each in kept):
                continue
            if batch["attributes"] & CONTROL_MASK and batch["magic"] >= 2:
                self._control += count
            else:
                self._records += count
            self._ranges.append(LostOffsets(max(first, log_start), last + 1))

    def losses(self) -> Losses:
        return Losses(
            self._records,
            self._control,
            self._bytes,
            self._damaged,
            tuple(joined(self._ranges)),
        )


def joined(ranges: Iterable[LostOffsets]) -> Iterator[LostOffsets]:
    """The same offsets, ascending, in as few ranges as can be."""
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
    """The offsets of a batch's records, taken apart."""
    columns = kernel.decode(run.buffer, run.table, row, row + 1, start_position=run.start_position)
    return columns.offset


def written_ranges(contents: Iterable[tuple[Offset, OverlayContent]]) -> Iterator[LostOffsets]:
    """The offsets that new records files hold, from their base offsets on."""
    for base_offset, content in contents:
        end = base_offset
        for item in scan(ReadableContent(content), 0, content.size):
            if isinstance(item, BatchRun):
                end = max(end, item.next_offset)
        if end > base_offset:
            yield LostOffsets(base_offset, end)
