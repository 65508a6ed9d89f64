"""Compare two copies of a partition: where they diverge, by leader epoch and offset.

Equal batches need no decoding. Different batches are compared by their records: the same records in other batches are
the result of compaction or another codec, and no divergence. Only offsets that both can have are compared: from the
later log start to the earlier log end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.check.log_check import PartitionSummary
from engine.check.replicas.difference_ranges import DifferenceRange, DifferenceRanges, counted
from engine.check.replicas.replica_batches import (
    Content,
    ReplicaBatch,
    ReplicaCursor,
    Table,
    same_batches,
)
from engine.check.replicas.replica_pair import ReplicaPair
from engine.check.rules.finding import Finding, found
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.units import Offset

MOST_BATCHES = 4096
"""Overlapping batches that are compared; more are called different without comparing their records."""


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
            pair = ReplicaPair(log.view(), theirs[partition].view())
            yield from ReplicaComparison(pair).run()
            yield pair.summary
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
    """Compares the batches of two copies, in the order of their offsets.

    Args:
        pair: the copies.
    """

    def __init__(self, pair: ReplicaPair) -> None:
        self._pair = pair
        view, other = pair.views
        self._cursors = (
            ReplicaCursor(view, pair.start, pair.stop),
            ReplicaCursor(other, pair.start, pair.stop),
        )
        damages = self._cursors[0].damages, self._cursors[1].damages
        self._ranges = DifferenceRanges(pair, damages)

    def run(self) -> Iterator[Finding]:
        """Yield the differences of the copies."""
        yield from self._pair.topic_ids()
        yield from self._pair.bounds()
        yield from self._pair.epoch_starts()
        if self._pair.start < self._pair.stop:
            yield from self._batches()
            yield from self._ranges.close()
            yield from self._ranges.summed_up()

    def _batches(self) -> Iterator[Finding]:
        one, other = self._cursors
        while one.ready() and other.ready():
            mine, theirs = one.rest(), other.rest()
            same = same_batches(mine, theirs)
            if same:
                yield from self._ranges.close()
                self._pair.summary.records += one.records_in_next(same)
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
        self._pair.summary.batches += len(mine)
        self._pair.summary.size += int(mine["size"].sum())
        differ = (mine["leader_epoch"] != theirs["leader_epoch"]).nonzero()[0]
        if len(differ) and self._ranges.may_report("replica-epochs"):
            row, last = mine[differ[0]], mine[differ[-1]]
            yield self._pair.found(
                "replica-epochs",
                f"{len(differ)} batches have the same records but different leader epochs, the first epoch"
                f" {row['leader_epoch']}, in {self._pair.path(1)} {theirs['leader_epoch'][differ[0]]}",
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
            first = max(batch.first_offset, self._pair.start)
            stop = min(batch.last_offset + 1, self._pair.stop)
            yield from self._ranges.note(
                DifferenceRange("replica-lacks", side, first, stop, batch, records)
            )

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
            reason = problem or f"{counted(len(differ))} differ{'s' * (len(differ) == 1)}"
            count = len(differ)
            yield from self._ranges.note(
                DifferenceRange(
                    "replica-diverges", 0, first, last + 1, mine[0], count, theirs[0], reason
                )
            )
        for side, offsets in enumerate(lacking):
            if offsets and not problem:
                first, stop = offsets[0], offsets[-1] + 1
                batch = (mine, theirs)[side][0]
                yield from self._ranges.note(
                    DifferenceRange("replica-lacks", side, first, stop, batch, len(offsets))
                )
        if not differ and not problem and not any(lacking):
            yield from self._ranges.close()
            self._ranges.add_rebatched(mine, len(ours))
            self._pair.summary.batches += len(mine)
            self._pair.summary.records += len(ours)

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
            offset: content
            for offset, content in found.items()
            if self._pair.start <= offset < self._pair.stop
        }, problem
