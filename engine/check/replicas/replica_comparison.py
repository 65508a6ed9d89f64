"""Compares two copies of a partition: where they diverge, by leader epoch and offset.

Equal batches need no decoding. Different batches are compared by their records: the same records in other batches are
the result of compaction or another codec, and no divergence. Only offsets that both can have are compared: from the
later log start to the earlier log end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.check.log_check import PartitionSummary
from engine.check.replicas.replica_batches import (
    Content,
    ReplicaBatch,
    ReplicaCursor,
    Table,
    same_batches,
)
from engine.check.rules.finding import Finding, found
from engine.check.rules.rules import Severity
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.log_view import LogView
from engine.log.partition_log import PartitionLog
from engine.topics.topic_names import INTERNAL_TOPICS
from engine.units import Offset

MOST_FINDINGS = 100
"""Maximum per rule and pair; further ones are counted."""
MOST_BATCHES = 4096
"""Overlapping batches that are compared; more are called different without comparing their records."""


@dataclass
class _Range:
    """Offsets of breaches of one rule in adjacent batches."""

    rule: str
    side: int
    first_offset: Offset
    next_offset: Offset
    batches: list[ReplicaBatch]
    others: list[ReplicaBatch] = field(default_factory=list)
    records: int = 0
    reason: str = ""


def compare_sources(
    source: LogSource, other: LogSource, takes: Callable[[PartitionLog], bool] = lambda log: True
) -> Iterator[Finding | PartitionSummary]:
    """Yield the differences of two sources' copies of each partition; after each pair a summary.

    Two sources of one partition each are compared regardless of their folders' names.
    """
    mine = {log.topic_partition: log for log in source.partitions().values() if takes(log)}
    theirs = {log.topic_partition: log for log in other.partitions().values() if takes(log)}
    if len(source.partitions()) == len(other.partitions()) == 1 and mine and theirs:
        theirs = dict(zip(mine, theirs.values(), strict=True))
    for partition, log in mine.items():
        if partition not in theirs:
            yield _absent(log, other)
            continue
        try:
            comparison = ReplicaComparison(log.view(), theirs[partition].view())
            yield from comparison.run()
            yield comparison.summary
        except (OSError, KafkaStorageError) as error:
            path = log.root.display(log.folder)
            reason = f"the copies cannot be compared: {error}"
            yield found("file-unreadable", path, reason, partition=log.name)
    for partition, log in theirs.items():
        if partition not in mine:
            yield _absent(log, source)


def _absent(log: PartitionLog, other: LogSource) -> Finding:
    where = ", ".join(root.path for root in other.roots)
    path = log.root.display(log.folder)
    return found("replica-absent", path, f"{where} has no {log.name}", partition=log.name)


class ReplicaComparison:
    """Compares two copies; `summary` counts the batches that both have.

    Args:
        view: one copy; findings have its paths.
        other: the other copy.
    """

    def __init__(self, view: LogView, other: LogView) -> None:
        self.views = view, other
        self.start = max(view.log_start_offset, other.log_start_offset)
        self.stop = min(view.log_end_offset, other.log_end_offset)
        self.summary = PartitionSummary(
            view.name, view.log_start_offset, view.log_end_offset, view.live, len(view)
        )
        self._cursors = (
            ReplicaCursor(view, self.start, self.stop),
            ReplicaCursor(other, self.start, self.stop),
        )
        self._open: _Range | None = None
        self._reported: Counter[str] = Counter()
        self._rebatched = _Range("replica-batching", 0, 0, 0, [])

    def run(self) -> Iterator[Finding]:
        """Yield the differences of the copies."""
        yield from self._topic_ids()
        yield from self._bounds()
        yield from self._epoch_starts()
        if self.start < self.stop:
            yield from self._batches()
            yield from self._close()
            yield from self._summed_up()

    # Beside the batches

    def _topic_ids(self) -> Iterator[Finding]:
        mine, theirs = (view.topic_id for view in self.views)
        if mine is not None and theirs is not None and mine != theirs:
            yield self._found(
                "replica-topic-id",
                f"the topic id is {mine}, but that of {self._path(1)} is {theirs}",
                expected=theirs,
                found=mine,
            )

    def _bounds(self) -> Iterator[Finding]:
        for what in ("log_start_offset", "log_end_offset"):
            mine, theirs = (getattr(view, what) for view in self.views)
            if mine != theirs:
                verb = "begins" if what == "log_start_offset" else "ends"
                yield self._found(
                    "replica-range",
                    f"it {verb} at offset {mine}, {self._path(1)} at {theirs}",
                    first_offset=min(mine, theirs),
                    next_offset=max(mine, theirs),
                    expected=theirs,
                    found=mine,
                )
        if self.start >= self.stop and any(
            view.log_start_offset < view.log_end_offset for view in self.views
        ):
            yield self._found("replica-lacks", "the two copies have no offset in common")

    def _epoch_starts(self) -> Iterator[Finding]:
        """Compare the starts of leader epochs. The first one of each copy may have begun before its log start."""
        mine, theirs = (
            {
                entry.epoch: entry.start_offset
                for entry in view.leader_epochs
                if self.start < entry.start_offset < self.stop
            }
            for view in self.views
        )
        for epoch in sorted(mine.keys() & theirs.keys()):
            if mine[epoch] != theirs[epoch]:
                yield self._found(
                    "replica-epochs",
                    f"epoch {epoch} begins at offset {mine[epoch]}, in {self._path(1)} at {theirs[epoch]}",
                    first_offset=min(mine[epoch], theirs[epoch]),
                    next_offset=max(mine[epoch], theirs[epoch]),
                    epoch=epoch,
                )
                return

    # Batches

    def _batches(self) -> Iterator[Finding]:
        one, other = self._cursors
        while one.ready() and other.ready():
            mine, theirs = one.rest(), other.rest()
            same = same_batches(mine, theirs)
            if same:
                yield from self._close()
                self.summary.records += one.records_in_next(same)
                yield from self._same(mine[:same], theirs[:same])
                one.skip(same)
                other.skip(same)
            elif one.last_offset < other.first_offset:
                yield from self._only(0, one.take())
            elif other.last_offset < one.first_offset:
                yield from self._only(1, other.take())
            else:
                yield from self._differing(*self._overlap())
        for side, cursor in enumerate(self._cursors):
            while cursor.ready():
                yield from self._only(side, cursor.take())

    def _same(self, mine: Table, theirs: Table) -> Iterator[Finding]:
        self.summary.batches += len(mine)
        self.summary.size += int(mine["size"].sum())
        differ = (mine["leader_epoch"] != theirs["leader_epoch"]).nonzero()[0]
        if len(differ) and self._may_report("replica-epochs"):
            row, last = mine[differ[0]], mine[differ[-1]]
            yield self._found(
                "replica-epochs",
                f"{len(differ)} batches have the same records but different leader epochs, the first epoch"
                f" {row['leader_epoch']}, in {self._path(1)} {theirs['leader_epoch'][differ[0]]}",
                first_offset=int(row["base_offset"]),
                next_offset=int(last["last_offset"]) + 1,
                expected=int(theirs["leader_epoch"][differ[0]]),
                found=int(row["leader_epoch"]),
            )

    def _overlap(self) -> tuple[list[ReplicaBatch], list[ReplicaBatch]]:
        """Take overlapping batches of both, up to a common end or a gap."""
        one, other = self._cursors
        mine, theirs = [one.take()], [other.take()]
        while len(mine) + len(theirs) < MOST_BATCHES:
            ends = mine[-1].last_offset, theirs[-1].last_offset
            if ends[0] < ends[1] and one.ready() and one.first_offset <= ends[1]:
                mine.append(one.take())
            elif ends[1] < ends[0] and other.ready() and other.first_offset <= ends[0]:
                theirs.append(other.take())
            else:
                break
        return mine, theirs

    def _only(self, side: int, batch: ReplicaBatch) -> Iterator[Finding]:
        """Report a batch that only one copy has; one without records is not missed."""
        records = batch.record_count
        if records:
            first = max(batch.first_offset, self.start)
            bounds = first, min(batch.last_offset + 1, self.stop)
            yield from self._note("replica-lacks", side, bounds, [batch], [], records, "")

    def _differing(self, mine: list[ReplicaBatch], theirs: list[ReplicaBatch]) -> Iterator[Finding]:
        ours, problem = self._records(mine)
        yours, other_problem = self._records(theirs)
        differ = sorted(
            offset for offset in ours.keys() & yours.keys() if ours[offset] != yours[offset]
        )
        lacking = sorted(ours.keys() - yours.keys()), sorted(yours.keys() - ours.keys())
        problem = problem or other_problem
        if differ or problem:
            first = differ[0] if differ else min(mine[0].first_offset, theirs[0].first_offset)
            last = differ[-1] if differ else max(mine[-1].last_offset, theirs[-1].last_offset)
            reason = problem or f"{_counted(len(differ))} differ{'s' * (len(differ) == 1)}"
            bounds = first, last + 1
            yield from self._note("replica-diverges", 0, bounds, mine, theirs, len(differ), reason)
        for side, offsets in enumerate(lacking):
            if offsets and not problem:
                bounds = offsets[0], offsets[-1] + 1
                batches = (mine, theirs)[side], (theirs, mine)[side]
                yield from self._note("replica-lacks", side, bounds, *batches, len(offsets), "")
        if not differ and not problem and not any(lacking):
            yield from self._close()
            self._count_rebatched(mine, theirs, len(ours))

    def _records(self, batches: list[ReplicaBatch]) -> tuple[dict[Offset, Content], str]:
        found: dict[Offset, Content] = {}
        if len(batches) >= MOST_BATCHES // 2:
            return found, "too many batches overlap to be compared"
        problem = ""
        for batch in batches:
            records, why = batch.records()
            problem = problem or why
            found |= records
        return {
            offset: content for offset, content in found.items() if self.start <= offset < self.stop
        }, problem

    def _count_rebatched(
        self, mine: list[ReplicaBatch], theirs: list[ReplicaBatch], records: int
    ) -> None:
        known = self._rebatched
        if not known.records:
            known.first_offset = mine[0].first_offset
            known.batches, known.others = mine[:1], theirs[:1]
        known.next_offset = mine[-1].last_offset + 1
        known.records += max(records, 1)
        self.summary.batches += len(mine)
        self.summary.records += records

    # Findings

    def _note(
        self,
        rule: str,
        side: int,
        bounds: tuple[Offset, Offset],
        batches: list[ReplicaBatch],
        others: list[ReplicaBatch],
        records: int,
        reason: str,
    ) -> Iterator[Finding]:
        """Extend the open range, or close it and begin another."""
        known = self._open
        if known is not None and (known.rule, known.side) == (rule, side) and not reason:
            known.next_offset = max(known.next_offset, bounds[1])
            known.records += records
            return
        yield from self._close()
        self._open = _Range(rule, side, *bounds, batches[:1], others[:1], records, reason)

    def _close(self) -> Iterator[Finding]:
        known, self._open = self._open, None
        if known is None or not self._may_report(known.rule):
            return
        if known.rule == "replica-diverges":
            yield self._diverges(known)
        else:
            yield self._lacks(known)

    def _may_report(self, rule: str) -> bool:
        self._reported[rule] += 1
        return self._reported[rule] <= MOST_FINDINGS

    def _diverges(self, known: _Range) -> Finding:
        mine, theirs = known.batches[0].facts(), known.others[0].facts()
        epochs = mine["leaderEpoch"], theirs["leaderEpoch"]
        return self._found(
            "replica-diverges",
            f"from offset {known.first_offset}, leader epoch {epochs[0]}, it differs from"
            f" {self._path(1)}, leader epoch {epochs[1]}: {known.reason}",
            batch=known.batches[0],
            first_offset=known.first_offset,
            next_offset=known.next_offset,
            mine=mine,
            other=theirs,
            epochs=self._epochs_at(known.first_offset),
        )

    def _lacks(self, known: _Range) -> Finding:
        lacking = 1 - known.side
        damage = next(
            (
                each
                for each in self._cursors[lacking].damages
                if (each.first_offset or 0) < known.next_offset
                and (each.last_offset is None or each.last_offset >= known.first_offset)
            ),
            None,
        )
        is_compacted = damage is None and self._is_compacted()
        what = "it" if lacking == 0 else self._path(1)
        has = f" that {self._path(1)} has" if lacking == 0 else ""
        why = (
            ""
            if damage is None
            else f": {damage.reason} at position {damage.position} of {damage.path}"
        )
        why = why or (", normal after compaction" if is_compacted else "")
        return self._found(
            "replica-lacks",
            f"{what} lacks {_counted(known.records)} of offsets {known.first_offset} to"
            f" {known.next_offset - 1}{has}{why}",
            batch=known.batches[0] if known.side == 0 else None,
            severity=Severity.NOTE if is_compacted else None,
            first_offset=known.first_offset,
            next_offset=known.next_offset,
            records=known.records,
            batchOfTheCopyThatHasIt=known.batches[0].facts(),
        )

    def _is_compacted(self) -> bool:
        partition = self.views[0].partition
        return partition.topic in INTERNAL_TOPICS or any(
            view.log.checkpoints.cleaner_offset(view.partition) is not None for view in self.views
        )

    def _summed_up(self) -> Iterator[Finding]:
        known = self._rebatched
        if known.records:
            yield self._found(
                "replica-batching",
                f"{known.records} records from offset {known.first_offset} are in different batches in"
                f" {self._path(1)}",
                batch=known.batches[0],
                first_offset=known.first_offset,
                next_offset=known.next_offset,
                records=known.records,
            )
        for rule, count in self._reported.items():
            if count > MOST_FINDINGS:
                yield self._found(rule, f"{count - MOST_FINDINGS} more places like those before")

    def _epochs_at(self, offset: Offset) -> dict[str, object]:
        """Return each copy's epoch for an offset, and the last epoch with the same start in both."""
        mine, theirs = (dict(view.leader_epochs) for view in self.views)
        common = [epoch for epoch in mine.keys() & theirs.keys() if mine[epoch] == theirs[epoch]]
        return {
            "mine": self.views[0].leader_epochs.epoch_for(offset),
            "other": self.views[1].leader_epochs.epoch_for(offset),
            "lastCommon": max(common, default=None),
        }

    def _path(self, side: int) -> str:
        log = self.views[side].log
        return log.root.display(log.folder)

    def _found(
        self,
        rule: str,
        sentence: str,
        *,
        batch: ReplicaBatch | None = None,
        first_offset: Offset | None = None,
        next_offset: Offset | None = None,
        severity: Severity | None = None,
        **facts: object,
    ) -> Finding:
        log = self.views[0].log
        row = None if batch is None else batch.run.table[batch.row]
        made = found(
            rule,
            self._path(0) if batch is None else log.root.display(batch.segment.path),
            sentence,
            partition=log.name,
            position=None if batch is None else batch.position,
            length=None if row is None else int(row["size"]),
            first_offset=first_offset,
            next_offset=next_offset,
            severity=severity,
            facts={"otherCopy": self._path(1), **facts},
        )
        self.summary.found[made.severity] += 1
        return made


def _counted(records: int) -> str:
    return f"{records} record{'s' * (records != 1)}"
