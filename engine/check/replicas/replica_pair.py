"""Two copies of a partition: their common offsets, and findings that name both."""

from __future__ import annotations

from collections.abc import Iterator

from engine.check.log_check import PartitionSummary
from engine.check.replicas.replica_batches import ReplicaBatch
from engine.check.rules.finding import Finding, found
from engine.check.rules.rules import Severity
from engine.log.view.log_view import LogView
from engine.topics.topic_names import INTERNAL_TOPICS
from engine.units import Offset


class ReplicaPair:
    """Two copies of a partition; `summary` counts the batches that both have.

    Args:
        view: one copy; findings have its paths.
        other: the other copy.

    Attributes:
        views: both copies, by side: 0 and 1.
        start, stop: offsets that both can have: from the later log start to the earlier log end.
        summary: counts of batches and findings.
    """

    def __init__(self, view: LogView, other: LogView) -> None:
        self.views = view, other
        self.start = max(view.log_start_offset, other.log_start_offset)
        self.stop = min(view.log_end_offset, other.log_end_offset)
        self.summary = PartitionSummary(
            view.name, view.log_start_offset, view.log_end_offset, view.live, len(view)
        )

    def topic_ids(self) -> Iterator[Finding]:
        """Compare the topic ids."""
        mine, theirs = (view.topic_id for view in self.views)
        if mine is not None and theirs is not None and mine != theirs:
            yield self.found(
                "replica-topic-id",
                f"the topic id is {mine}, but that of {self.path(1)} is {theirs}",
                expected=theirs,
                found=mine,
            )

    def bounds(self) -> Iterator[Finding]:
        """Compare log starts and log ends."""
        for what in ("log_start_offset", "log_end_offset"):
            mine, theirs = (getattr(view, what) for view in self.views)
            if mine != theirs:
                verb = "begins" if what == "log_start_offset" else "ends"
                yield self.found(
                    "replica-range",
                    f"it {verb} at offset {mine}, {self.path(1)} at {theirs}",
                    first_offset=min(mine, theirs),
                    next_offset=max(mine, theirs),
                    expected=theirs,
                    found=mine,
                )
        if self.start >= self.stop and any(
            view.log_start_offset < view.log_end_offset for view in self.views
        ):
            yield self.found("replica-lacks", "the two copies have no offset in common")

    def epoch_starts(self) -> Iterator[Finding]:
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
                yield self.found(
                    "replica-epochs",
                    f"epoch {epoch} begins at offset {mine[epoch]}, in {self.path(1)} at {theirs[epoch]}",
                    first_offset=min(mine[epoch], theirs[epoch]),
                    next_offset=max(mine[epoch], theirs[epoch]),
                    epoch=epoch,
                )
                return

    def is_compacted(self) -> bool:
        """Return whether compaction may have removed records of a copy."""
        partition = self.views[0].partition
        return partition.topic in INTERNAL_TOPICS or any(
            view.log.checkpoints.cleaner_offset(view.partition) is not None for view in self.views
        )

    def epochs_at(self, offset: Offset) -> dict[str, object]:
        """Return each copy's epoch for an offset, and the last epoch with the same start in both."""
        mine, theirs = (dict(view.leader_epochs) for view in self.views)
        common = [epoch for epoch in mine.keys() & theirs.keys() if mine[epoch] == theirs[epoch]]
        return {
            "mine": self.views[0].leader_epochs.epoch_for(offset),
            "other": self.views[1].leader_epochs.epoch_for(offset),
            "lastCommon": max(common, default=None),
        }

    def path(self, side: int) -> str:
        """Return the path of a copy's folder, for people."""
        log = self.views[side].log
        return log.root.display(log.folder)

    def found(
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
        """Return a finding about a batch of the first copy, or about its folder."""
        log = self.views[0].log
        row = None if batch is None else batch.run.table[batch.row]
        made = found(
            rule,
            self.path(0) if batch is None else log.root.display(batch.segment.path),
            sentence,
            partition=log.name,
            position=None if batch is None else batch.position,
            length=None if row is None else int(row["size"]),
            first_offset=first_offset,
            next_offset=next_offset,
            severity=severity,
            facts={"otherCopy": self.path(1), **facts},
        )
        self.summary.found[made.severity] += 1
        return made
