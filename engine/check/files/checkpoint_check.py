"""Compare a log dir's checkpoints for a partition with the partition's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding, failed_read, found
from engine.check.rules.rules import Severity
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.checkpoint.quorum_state import parse_quorum_state
from engine.errors import DamagedFileError
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.log.segment.damage import DamageKind
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset

_NO_DAMAGE = frozenset({DamageKind.ZERO_TAIL, DamageKind.UNREADABLE})


def check_partition_checkpoints(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about checkpoint entries that contradict a partition's log."""
    if partition.log_dir is None or not partition.segments or not partition.is_served:
        return
    if partition.partition.topic != CLUSTER_METADATA:
        yield from _Checkpoints(partition).run()
    yield from _clean_shutdown(partition)


def check_quorum_state(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about the election state (quorum-state) beside a metadata log."""
    try:
        data = partition.read(QUORUM_STATE)
        if data is None:
            return
        state = parse_quorum_state(data, path=QUORUM_STATE)
    except DamagedFileError as error:
        yield partition.found("quorum-state", QUORUM_STATE, error.reason, position=error.position)
        return
    except OSError as error:
        yield partition.found("file-unreadable", QUORUM_STATE, **failed_read(error))
        return
    newest = -1
    for segment in partition.segments:
        for rows in segment.chunks():
            newest = max(newest, int(rows["leader_epoch"].max()))
    if state.leader_epoch < newest:
        yield partition.found(
            "quorum-state",
            QUORUM_STATE,
            f"the election has epoch {state.leader_epoch}, but batches have epoch {newest}",
            expected=f"at least {newest}",
            found=state.leader_epoch,
        )


def _clean_shutdown(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Report damage in a log with a clean shutdown: a broker would skip the recovery that the log needs."""
    if partition.is_live or not partition.has_clean_shutdown:
        return
    damages = [
        (segment, damage)
        for segment in partition.segments
        for damage in segment.damages
        if damage.kind not in _NO_DAMAGE
    ]
    if damages:
        segment, damage = damages[0]
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        yield partition.found(
            "clean-shutdown-damage",
            segment.name,
            f"{CLEAN_SHUTDOWN} exists, so a broker skips recovery: {damage.reason}{more}",
            position=damage.position,
            length=damage.length,
            first_offset=damage.first_offset,
        )


class _Checkpoints:
    def __init__(self, partition: PartitionUnderCheck) -> None:
        self.partition = partition
        self.checkpoints = partition.view.log.checkpoints
        self.is_clean = not partition.is_live and partition.has_clean_shutdown
        self.first = partition.segments[0].base_offset

    @property
    def end(self) -> Offset:
        """Current log end; in a live log it moves on after the checkpoints were written."""
        if self.partition.is_live:
            return self.partition.newest_view().log_end_offset
        return self.partition.log_end_offset

    def run(self) -> Iterator[Finding]:
        of = self.partition.partition
        start = self.checkpoints.log_start_offset(of)
        recovery = self.checkpoints.recovery_point(of)
        watermark = self.checkpoints.high_watermark(of)
        cleaner = self.checkpoints.cleaner_offset(of)
        yield from self._log_start(start)
        yield from self._recovery_point(recovery)
        yield from self._high_watermark(watermark, start)
        yield from self._cleaner(cleaner, start)

    def _log_start(self, start: Offset | None) -> Iterator[Finding]:
        if start is None:
            return
        end = self.end
        if start > end:
            yield self._found(
                "log-start-past-end",
                LOG_START_OFFSET_CHECKPOINT,
                f"the log start is {start}, but the log ends at {end}",
                start,
                f"at most {end}",
            )
        elif start > self.first:
            yield from self._first_epoch(start)

    def _first_epoch(self, start: Offset) -> Iterator[Finding]:
        """Compare with the start of the first leader epoch: a deletion of records moves both."""
        try:
            data = self.partition.read_epochs()
            epochs = [] if data is None else parse_leader_epochs(data)
        except (DamagedFileError, OSError):
            return
        if epochs and epochs[0].start_offset < start and not self.partition.is_live:
            yield self._found(
                "log-start-epochs",
                LOG_START_OFFSET_CHECKPOINT,
                f"the log start is {start}, but the first leader epoch begins at"
                f" {epochs[0].start_offset}",
                start,
                epochs[0].start_offset,
                severity=None if self.is_clean else Severity.NOTE,
            )

    def _recovery_point(self, point: Offset | None) -> Iterator[Finding]:
        end = self.end
        if point is None:
            if self.is_clean:
                yield self._found(
                    "folder-without-checkpoint",
                    RECOVERY_POINT_CHECKPOINT,
                    f"{self.partition.name} has no recovery point after a clean shutdown",
                    None,
                    end,
                )
        elif point > end:
            yield self._found(
                "recovery-point-past-end",
                RECOVERY_POINT_CHECKPOINT,
                f"offsets up to {point} were flushed, but the log ends at {end}",
                point,
                f"at most {end}",
                first_offset=end,
                next_offset=point,
            )
        elif self.is_clean and point != end:
            yield self._found(
                "recovery-point-short",
                RECOVERY_POINT_CHECKPOINT,
                f"the recovery point is {point}, but the log ends at {end}",
                point,
                end,
                first_offset=point,
                next_offset=end,
            )

    def _high_watermark(self, watermark: Offset | None, start: Offset | None) -> Iterator[Finding]:
        if watermark is None:
            if (
                self.is_clean
                and self.checkpoints.recovery_point(self.partition.partition) is not None
            ):
                yield self._found(
                    "high-watermark-missing",
                    REPLICATION_OFFSET_CHECKPOINT,
                    f"{self.partition.name} has no high watermark after a clean shutdown",
                    None,
                    f"at most {self.end}",
                )
            return
        end = self.end
        if watermark > end:
            yield self._found(
                "high-watermark-past-end",
                REPLICATION_OFFSET_CHECKPOINT,
                f"offsets up to {watermark} were replicated, but the log ends at {end}",
                watermark,
                f"at most {end}",
                first_offset=end,
                next_offset=watermark,
            )
        elif watermark < max(start or 0, self.first) and not self.partition.is_live:
            yield self._found(
                "high-watermark-before-start",
                REPLICATION_OFFSET_CHECKPOINT,
                f"the high watermark is {watermark}, but the log starts at {max(start or 0, self.first)}",
                watermark,
                f"at least {max(start or 0, self.first)}",
                severity=None if self.is_clean else Severity.NOTE,
            )

    def _cleaner(self, cleaned: Offset | None, start: Offset | None) -> Iterator[Finding]:
        if cleaned is None:
            return
        end, first = self.end, max(start or 0, self.first)
        if cleaned > end or cleaned < first:
            yield self._found(
                "cleaner-offset",
                CLEANER_OFFSET_CHECKPOINT,
                f"the log was compacted up to {cleaned}, but has offsets {first} to {end}",
                cleaned,
                f"{first} to {end}",
                severity=None if cleaned > end else Severity.NOTE,
            )

    def _found(
        self,
        rule: str,
        name: str,
        sentence: str,
        stated: object,
        expected: object,
        **more: Any,  # noqa: ANN401
    ) -> Finding:
        assert self.partition.log_dir is not None
        path, partition = self.partition.log_dir.display(name), self.partition.name
        more |= {"expected": expected, "found": stated}
        return found(rule, path, sentence, partition=partition, **more)
