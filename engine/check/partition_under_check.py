"""A partition under check: its view, its files, and the headers of all its batches.

A partition can have more batches than memory can hold rows, so the headers come in chunks: kept if they are few, else
walked again (without checksums, which were checked the first time).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.check.rules.finding import Finding, found
from engine.check.rules.rules import RULES, Severity
from engine.columns.batch_table import BATCH_ROW
from engine.errors import InvalidNameError
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    FolderState,
    parse_folder_name,
)
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.units import Offset, Position, TopicPartition
from engine.verdict.log_losses import losses_of
from engine.verdict.words import may_be_in

Table: TypeAlias = npt.NDArray[Any]

ROWS_PER_CHUNK = 65_536
ROWS_KEPT = 1_000_000
"""Rows of one partition that stay in memory: 80 MB."""
_READ = 1 << 20
_LOSSES = {
    "log-start-short",
    "log-end-short",
    *(kind.rule for kind in DamageKind if kind is not DamageKind.TORN_TAIL),
}
"""Rules of findings about lost records."""
_OPAQUE = np.dtype((np.void, BATCH_ROW.size))
"""A row as bytes: numpy copies a structure field by field, 20 times slower."""


class SegmentUnderCheck:
    """One segment after its records file was read from start to end.

    Attributes:
        partition: its partition.
        segment: the segment, for look-ups.
        base_offset: base offset in its name.
        next_base: the next segment's base offset; None for the active one.
        name, path: name of the records file, and its path relative to `partition.root`.
        end: position where its batches end, up to which it was checked. Index entries may name positions below.
        damages: its damage, in file order.
        extents: (start, end) of each range of adjacent good batches, in file order.
        row_count: number of good batches.
        next_offset: one past the largest offset of its good batches; its base offset without any.
        max_timestamp: largest timestamp of its batches, -1 without any.
    """

    def __init__(
        self,
        partition: PartitionUnderCheck,
        segment: LogSegment,
        next_base: Offset | None,
    ) -> None:
        self.partition = partition
        self.segment = segment
        self.base_offset: Offset = segment.base_offset
        self.next_base = next_base
        self.name = segment.name
        self.path = segment.path
        self.end: Position = 0
        self.damages: list[Damage] = []
        self.extents: list[tuple[Position, Position]] = []
        self.row_count = 0
        self.next_offset: Offset = segment.base_offset
        self.max_timestamp = -1
        self._kept: Iterable[Table] | None = None

    def __repr__(self) -> str:
        return f"SegmentUnderCheck({self.path!r})"

    def take(self, run: BatchRun) -> None:
        """Count the next good batches."""
        if self.extents and self.extents[-1][1] == run.position:
            self.extents[-1] = self.extents[-1][0], run.end_position
        else:
            self.extents.append((run.position, run.end_position))
        self.row_count += len(run.table)
        self.next_offset = max(self.next_offset, run.next_offset)
        self.max_timestamp = max(self.max_timestamp, int(run.table["max_timestamp"].max()))

    @property
    def had_damage(self) -> bool:
        """Whether damage may have taken records; zeros at the end have not."""
        return any(not each.is_quiet for each in self.damages)

    @property
    def is_active(self) -> bool:
        """Whether it is the last segment, which a broker appends to."""
        return self.next_base is None

    def chunks(self) -> Iterator[Table]:
        """Yield the headers of its good batches in file order: BATCH_ROW, at most ROWS_PER_CHUNK rows each.

        Raises OSError if the file can no longer be read.
        """
        if self._kept is not None:
            yield from self._kept
            return
        for start, end in self.extents:
            yield from self._walk(start, end)

    def _walk(self, position: Position, end: Position) -> Iterator[Table]:
        file, size = self.segment.file, _READ
        largest = self.partition.view.log.budgets.batch_bytes
        scratch = np.empty(ROWS_PER_CHUNK, BATCH_ROW.dtype)
        while position < end:
            buffer = file.read_at(position, min(size, end - position))
            rows, consumed, _ = kernel.walk(buffer, scratch, 0, position, False, largest=largest)
            if not rows:
                if len(buffer) >= min(largest, end - position):
                    return  # the file was replaced
                size *= 4
                continue
            size = _READ
            table = scratch.view(_OPAQUE)[:rows].copy().view(BATCH_ROW.dtype)
            table["crc_ok"] = 1
            yield table
            position += consumed

    def keep(self, tables: Iterable[Table]) -> None:
        """Keep the headers, which can be iterated repeatedly."""
        self._kept = tables


class PartitionUnderCheck:
    """A partition after all its records files were read.

    Attributes:
        view: the state of the log under check.
        root, folder: the source, and the partition's folder in it ("" for the source itself).
        log_dir: the log dir around it, None for a folder on its own.
        name, partition: its name in the source, and its topic and number.
        is_live: whether a broker has it open: then findings are confirmed by a second look.
        may_be_tiered: whether the broker has tiered storage, which can hold a part of the log.
        segments: in log order.
    """

    def __init__(
        self,
        log: PartitionLog,
        view: LogView,
        log_dir: SourceRoot | None,
        *,
        is_live: bool | None = None,
        may_be_tiered: bool = False,
    ) -> None:
        self._log = log
        self.view = view
        self.root: SourceRoot = view.log.root
        self.folder: str = view.log.folder
        self.log_dir = log_dir
        self.name = view.name
        self.partition: TopicPartition = view.partition
        self.is_live = view.live if is_live is None else is_live
        self.may_be_tiered = may_be_tiered
        self.segments: tuple[SegmentUnderCheck, ...] = ()
        self._epochs: tuple[bytes | None] | None = None

    def __repr__(self) -> str:
        return f"PartitionUnderCheck({self.name!r})"

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is served."""
        return self.view.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """One past the last record's offset."""
        return self.view.log_end_offset

    @property
    def has_unreadable_end(self) -> bool:
        """Whether unreadable bytes may hold the log's last batches, so that its end is unknown."""
        if not self.segments:
            return False
        last = self.segments[-1]
        good = last.extents[-1][1] if last.extents else 0
        return any(
            each.kind is DamageKind.UNREADABLE and each.position >= good for each in last.damages
        )

    def newest_view(self) -> LogView:
        """State of the log now; later than `view` if the log is live."""
        return self._log.view(max_age=0)

    def relative(self, name: str) -> str:
        """Return the path below `root` of one of the partition's files, by its name in the log."""
        name = self.view.listing.real(name)
        return f"{self.folder}/{name}" if self.folder else name

    def display(self, name: str = "") -> str:
        """Return the path of a file of the partition as shown to people; without a name, the folder's path."""
        return self.root.display(self.relative(name) if name else self.folder)

    def open(self, name: str) -> SourceFile:
        """Return one of the partition's files. Raises FileNotFoundError, other OSError, SourceRefusedError."""
        is_listed = self.view.is_listed_file(name)
        return self.root.open_fresh(self.relative(name), is_listed=is_listed)

    def read(self, name: str) -> bytes | None:
        """Return a whole side file, None if it is missing.

        Raises LimitExceededError, OSError, SourceRefusedError.
        """
        try:
            return self.view.read_side_file(name)
        except FileNotFoundError:
            return None

    def read_epochs(self) -> bytes | None:
        """Return the leader-epoch-checkpoint, which several checks use; None if it is missing. Raises as `read` does."""
        if self._epochs is None:
            self._epochs = (self.read(LEADER_EPOCH_CHECKPOINT),)
        return self._epochs[0]

    @cached_property
    def is_served(self) -> bool:
        """Whether the folder is the partition's log: not future, deleted or stray."""
        try:
            folder = self.folder.rpartition("/")[2] or os.path.basename(self.root.path)
            return parse_folder_name(folder).state is FolderState.LOG
        except InvalidNameError:
            return True

    @cached_property
    def has_clean_shutdown(self) -> bool:
        """Whether the log dir has a clean shutdown: then the active segment's indexes are complete."""
        if self.log_dir is None:
            return False
        try:
            self.log_dir.stat(CLEAN_SHUTDOWN)
        except OSError:
            return False
        return True

    def found(self, rule: str, name: str, sentence: str, **more: Any) -> Finding:  # noqa: ANN401
        """Make a finding about one of the partition's files ("": its folder); see `rules.finding.found`."""
        first = more.get("first_offset")
        if rule in _LOSSES and first is not None:
            places = losses_of(self.view).elsewhere(first, more.get("next_offset"))
            if places:
                advice = more.get("advice") or RULES[rule].advice
                more["advice"] = f"{advice} Here: {may_be_in(places)}."
                more["elsewhere"] = [each.to_json() for each in places]
        if rule.endswith("-missing") and (remark := self.root.remark(self.relative(name))):
            more["severity"], sentence = Severity.NOTE, remark
        return found(rule, self.display(name), sentence, partition=self.name, **more)


SegmentCheck: TypeAlias = Callable[[SegmentUnderCheck], Iterator[Finding]]
"""Check of one segment's index; several run in threads at once."""
PartitionCheck: TypeAlias = Callable[[PartitionUnderCheck], Iterator[Finding]]
"""Check of a partition's side files, after all its segments were read."""
