"""Compare leader-epoch-checkpoint with the epochs of the batches.

An epoch begins at the log end that its leader found, with or without batches. So each batch must be in the range of its
epoch. If an entry and batches differ, the side with fewer agreeing batches is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.partition_under_check import PartitionUnderCheck, SegmentUnderCheck
from engine.check.rules.finding import Finding, failed_read
from engine.check.rules.rules import Severity
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.errors import DamagedFileError, SourceRefusedError
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT
from engine.units import EpochEntry, Offset

Table: TypeAlias = npt.NDArray[Any]

_MOST_NAMED = 20


def check_leader_epochs(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about a partition's leader-epoch-checkpoint, and about the epochs of its batches."""
    if partition.view.log.only is not None:
        return
    name = LEADER_EPOCH_CHECKPOINT
    entries: list[EpochEntry] = []
    try:
        data = partition.read_epochs()
        entries = [] if data is None else parse_leader_epochs(data, path=name)
    except DamagedFileError as error:
        yield _unreadable(partition, error)
        return
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            yield partition.found("file-unreadable", name, **failed_read(error))
        return
    if not entries:
        yield from _nothing(partition, is_there=data is not None)
        return
    yield from _order(partition, entries)
    yield from _past_end(partition, entries)
    if all(entry < after for entry, after in pairwise(entries)):
        yield from _Comparison(partition, entries).run()


def _unreadable(partition: PartitionUnderCheck, error: DamagedFileError) -> Finding:
    return partition.found(
        "epochs-unreadable",
        LEADER_EPOCH_CHECKPOINT,
        str(error.reason),
        position=error.position,
        line=getattr(error, "line", None),
        expected=error.expected,
        found=error.found,
    )


def _nothing(partition: PartitionUnderCheck, *, is_there: bool) -> Iterator[Finding]:
    """Report missing entries, unless no batch has an epoch: magic 0 and 1, or an empty log."""
    for segment in partition.segments:
        for rows in segment.chunks():
            if (rows["leader_epoch"] >= 0).any():
                what = "the file has no epochs" if is_there else "the file is missing"
                epoch = int(rows["leader_epoch"].max())
                yield partition.found(
                    "epochs-missing",
                    LEADER_EPOCH_CHECKPOINT,
                    f"{what}, but batches have epochs up to {epoch}",
                )
                return


def _order(partition: PartitionUnderCheck, entries: Sequence[EpochEntry]) -> Iterator[Finding]:
    for before, entry in pairwise(entries):
        if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
            yield partition.found(
                "epochs-order",
                LEADER_EPOCH_CHECKPOINT,
                f"epoch {entry.epoch} from offset {entry.start_offset} follows epoch {before.epoch}"
                f" from offset {before.start_offset}",
                first_offset=min(entry.start_offset, before.start_offset),
                severity=None if entry.epoch > before.epoch else Severity.ERROR,
            )


def _past_end(partition: PartitionUnderCheck, entries: Sequence[EpochEntry]) -> Iterator[Finding]:
    end = partition.log_end_offset
    for entry in entries:
        if entry.start_offset > end and not partition.is_live:
            yield partition.found(
                "epochs-past-end",
                LEADER_EPOCH_CHECKPOINT,
                f"epoch {entry.epoch} begins at offset {entry.start_offset}, but the log ends at {end}",
                first_offset=entry.start_offset,
                expected=f"at most {end}",
                found=entry.start_offset,
            )


class _Run(NamedTuple):
    """Adjacent batches with an epoch other than that of the checkpoint."""

    segment: SegmentUnderCheck
    position: int
    length: int
    first_offset: Offset
    next_offset: Offset
    stated: int
    expected: int
    batches: int


class _Comparison:
    def __init__(self, partition: PartitionUnderCheck, entries: Sequence[EpochEntry]) -> None:
        self.partition = partition
        self.epochs = np.array([entry.epoch for entry in entries], "i8")
        self.starts = np.array([entry.start_offset for entry in entries], "i8")
        self.agreeing = np.zeros(len(entries) + 1, "i8")
        self.differing = np.zeros(len(entries) + 1, "i8")
        self.runs: list[_Run] = []
        self.uncovered: tuple[Offset, int] | None = None

    def run(self) -> Iterator[Finding]:
        for segment in self.partition.segments:
            for rows in segment.chunks():
                with_epoch = rows["magic"] >= 2
                self._take(segment, rows if with_epoch.all() else rows[with_epoch])
        yield from self._start()
        file_is_wrong = self.differing[1:] > self.agreeing[1:]
        for slot in file_is_wrong.nonzero()[0].tolist():
            yield self._entry_is_wrong(slot)
        for each in self.runs[:_MOST_NAMED]:
            yield self._batch_differs(each)

    def _take(self, segment: SegmentUnderCheck, rows: Table) -> None:
        if not len(rows):
            return
        slots = self.starts.searchsorted(rows["base_offset"], "right") - 1
        ends = self.starts.searchsorted(rows["last_offset"], "right") - 1
        stated = rows["leader_epoch"]
        before_all = slots < 0
        if before_all.any() and self.uncovered is None:
            first = int(before_all.nonzero()[0][0])
            self.uncovered = int(rows["base_offset"][first]), int(stated[first])
        place = np.maximum(slots, 0)
        differs = ~before_all & ((self.epochs[place] != stated) | (ends != slots))
        self.differing += np.bincount(slots[differs] + 1, minlength=len(self.differing))
        same = ~before_all & ~differs
        self.agreeing += np.bincount(slots[same] + 1, minlength=len(self.agreeing))
        if differs.any() and len(self.runs) <= _MOST_NAMED:
            self._note(segment, rows, differs, self.epochs[place])

    def _note(
        self,
        segment: SegmentUnderCheck,
        rows: Table,
        differs: npt.NDArray[np.bool_],
        expected: Table,
    ) -> None:
        wrong = differs.nonzero()[0]
        breaks = (np.diff(wrong) > 1) | (np.diff(rows["leader_epoch"][wrong]) != 0)
        for part in np.split(wrong, breaks.nonzero()[0] + 1):
            first, last = rows[part[0]], rows[part[-1]]
            self.runs.append(
                _Run(
                    segment,
                    int(first["position"]),
                    int(last["position"] + last["size"] - first["position"]),
                    int(first["base_offset"]),
                    int(last["last_offset"]) + 1,
                    int(first["leader_epoch"]),
                    int(expected[part[0]]),
                    len(part),
                )
            )

    def _start(self) -> Iterator[Finding]:
        """Report a first entry above the log start; the file may be newer than log-start-offset-checkpoint."""
        if self.uncovered is None or self.partition.is_live or not self.partition.segments:
            return
        offset, epoch = self.uncovered
        start = int(self.starts[0])
        if max(offset, self.partition.log_start_offset) >= start:
            return
        is_sure = self.partition.has_clean_shutdown
        yield self.partition.found(
            "epochs-start",
            LEADER_EPOCH_CHECKPOINT,
            f"the first epoch begins at offset {start}, but a batch of epoch {epoch} at {offset}",
            first_offset=offset,
            next_offset=start,
            severity=None if is_sure else Severity.NOTE,
            expected=f"at most {max(offset, self.partition.log_start_offset)}",
            found=start,
        )

    def _entry_is_wrong(self, slot: int) -> Finding:
        start = int(self.starts[slot])
        first = next((run for run in self.runs if run.first_offset >= start), None)
        stated = (
            ""
            if first is None
            else f": the batch at offset {first.first_offset} states {first.stated}"
        )
        return self.partition.found(
            "epochs-contradict",
            LEADER_EPOCH_CHECKPOINT,
            f"epoch {self.epochs[slot]} does not begin at offset {start}{stated}",
            first_offset=start,
            expected=None if first is None else first.stated,
            found=int(self.epochs[slot]),
        )

    def _batch_differs(self, run: _Run) -> Finding:
        what = "the batch states" if run.batches == 1 else f"{run.batches} batches state"
        if run.stated == run.expected:
            reason = f"an epoch begins inside the batch of offsets {run.first_offset} to {run.next_offset - 1}"
        else:
            reason = f"{what} leader epoch {run.stated}, but {LEADER_EPOCH_CHECKPOINT} has {run.expected}"
        return self.partition.found(
            "epoch-batch",
            run.segment.name,
            reason,
            position=run.position,
            length=run.length,
            first_offset=run.first_offset,
            next_offset=run.next_offset,
            expected=run.expected,
            found=run.stated,
        )
