"""Text and JSON of `kafkafs plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from engine.files.file_names import FolderState
from engine.json_facts import facts_of
from engine.plan.kept_records import KeptRecords
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_dir_plan import LogDirPlan
from engine.plan.log_plan import LogPlan
from engine.plan.lost_records import Losses
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from engine.plan.placing.lost_folders import LostFolder
from engine.plan.start_plan import StartPlan
from engine.units import EpochEntry, Timestamp, TopicPartition
from engine.verdict.loss import Loss
from engine.verdict.totals import LossTotals
from kafkafs.amounts import counted
from kafkafs.decode.shown_text import printable
from kafkafs.loss_words import closing, utc_minute
from kafkafs.start_words import lost_folder_lines, risk_lines

_MOST_RANGES = 5
_OUTCOMES = {
    Outcome.LOG_DIR_OFFLINE: "its log dir goes offline",
    Outcome.BROKER_STOPS: "the broker does not start",
    Outcome.UNKNOWN: "the outcome is unknown",
}


def dir_lines(log_dir: LogDirPlan) -> Iterator[str]:
    """Yield the text lines of a log dir."""
    if log_dir.is_abandoned:
        yield f"{printable(log_dir.path)}: the broker does not use it: {printable(log_dir.reason)}"
        return
    marker = "marked as cleanly closed" if log_dir.has_marker else "not marked as cleanly closed"
    how = "no recovery" if log_dir.clean else "recovery from the recovery points on"
    yield f"{printable(log_dir.path)}: {_logs(len(log_dir.folders))}, {marker}, planned with {how}"
    for note in log_dir.notes:
        yield f"  {printable(note)}"


def log_lines(log: LogPlan, *, files: bool) -> Iterator[str]:
    """Yield the text lines of a log; with `files` also harmless changes of files."""
    if log.outcome is Outcome.LOADS:
        yield f"{printable(log.folder)}: {_offsets(log)}"
    else:
        java = f"{log.java}: " if log.java else ""
        yield f"{printable(log.folder)}: {_OUTCOMES[log.outcome]}: {java}{printable(log.reason)}"
    yield from _loss_lines(log)
    if log.epochs_changed:
        yield f"  leader epochs: {_epochs(log.epochs_before)} become {_epochs(log.epochs_after)}"
    if log.renamed_to is not None:
        yield f"  the folder becomes {printable(log.renamed_to)}"
    for note in log.notes:
        yield f"  {printable(note)}"
    yield from _damage_lines(log.kept)
    for change in log.changes:
        if files or (change.change is not ChangeKind.PREALLOCATED and not log.is_harmless):
            yield f"  {_change(change)}"


def _loss_lines(log: LogPlan) -> Iterator[str]:
    losses = log.losses
    if losses.ranges:
        ranges = ", ".join(f"{first}..{end}" for first, end in losses.ranges[:_MOST_RANGES])
        more = len(losses.ranges) - _MOST_RANGES
        ranges += f" and {more} more ranges" if more > 0 else ""
        yield f"  lost: {_records(losses)} at offsets {ranges}{_times(losses)}"
    if losses.bytes:
        damaged = losses.damaged_bytes
        of_them = f", {counted(damaged, 'byte')} of which are damaged" if damaged else ""
        yield f"  {counted(losses.bytes, 'byte')} of records files go{of_them}"


def _records(losses: Losses | Totals) -> str:
    control = losses.control_records
    also = f" and {counted(control, 'control record')}" if control else ""
    return f"{counted(losses.records, 'record')}{also}"


def _times(losses: Losses | Totals) -> str:
    first, last = losses.first_timestamp, losses.last_timestamp
    if first is None or last is None:
        return ""
    return f", of {utc_minute(first)} to {utc_minute(last)}"


def start_lines(start: StartPlan) -> Iterator[str]:
    """Yield the text lines about the node, besides its logs: partitions without a folder, and other risks."""
    yield from map(printable, (*lost_folder_lines(start), *risk_lines(start)))


def _damage_lines(kept: KeptRecords) -> Iterator[str]:
    """Yield the lines on damage in records that the broker does not read."""
    if kept.damaged_batches:
        count, size = _count(kept.damaged_batches, "damaged batch"), kept.damaged_bytes
        yield f"  the broker does not look at {count} of {size} bytes, and will serve errors there:"
    elif kept.out_of_order:
        yield "  the broker does not look at batches that are out of order:"
    for place in kept.damage:
        yield f"    {printable(place)}"
    more = kept.damaged_batches + kept.out_of_order - len(kept.damage)
    if more > 0:
        yield f"    and {more} more: see kafkafs check"


def _offsets(log: LogPlan) -> str:
    if log.log_end == log.log_end_before:
        return f"log start {log.log_start}, log end {log.log_end}"
    return f"log start {log.log_start}, log end {log.log_end_before} becomes {log.log_end}"


def _epochs(entries: tuple[EpochEntry, ...] | None) -> str:
    if entries is None:
        return "an unreadable file"
    return " ".join(f"{epoch}@{start}" for epoch, start in entries) or "none"


def _change(change: FileChange) -> str:
    name, before, after = printable(change.name), change.size_before, change.size_after
    match change.change:
        case ChangeKind.CREATED:
            return f"{name}: created, {after} bytes"
        case ChangeKind.DELETED:
            return f"{name}: deleted, {before} bytes"
        case ChangeKind.RENAMED:
            later = ", deleted a minute later" if change.deleted_later else ""
            return f"{name}: renamed to {printable(change.new_name or '')}{later}"
        case ChangeKind.TRUNCATED:
            return f"{name}: truncated from {before} to {after} bytes"
        case _:
            return f"{name}: {change.change.value}, {before} bytes become {after}"


@dataclass
class Totals:
    """What a start loses, over all logs and partitions without a folder.

    Attributes:
        partitions: number of partitions that lose records or offsets.
        records, control_records, bytes, damaged_bytes: sums of the logs' losses.
        offsets: number of lost offsets, with those of partitions without a folder.
        first_timestamp, last_timestamp: smallest and largest timestamp of lost batches; None if unknown.
    """

    partitions: int = 0
    records: int = 0
    control_records: int = 0
    offsets: int = 0
    bytes: int = 0
    damaged_bytes: int = 0
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None

    def add(self, losses: Losses) -> None:
        """Add the losses of a log."""
        self.partitions += bool(losses.ranges or losses.bytes)
        self.records += losses.records
        self.control_records += losses.control_records
        self.offsets += losses.offsets
        self.bytes += losses.bytes
        self.damaged_bytes += losses.damaged_bytes
        times = [losses.first_timestamp, losses.last_timestamp]
        times += [self.first_timestamp, self.last_timestamp]
        known = [each for each in times if each is not None]
        self.first_timestamp = min(known, default=None)
        self.last_timestamp = max(known, default=None)

    def add_stray(self, lost: LostFolder, of_future: int) -> None:
        """Add a partition whose folder becomes stray, of whose future log this many offsets are lost and counted."""
        self.partitions += not (lost.missing.is_harmless or of_future)
        self.offsets += max(0, lost.missing.lost_offsets - of_future)


@dataclass
class PlanSummary:
    """Sums over all logs.

    Attributes:
        is_harmless: whether every log loads, keeps its records, and has no damage.
        changed: number of logs that lose or change something.
        damaged_batches: number of batches that a broker will serve as errors.
        at_risk: number of future logs that may lose records for reasons that the log dirs do not show.
        given_again: number of offsets past the log ends that had records before.
        lost_folders: number of partitions that the broker makes anew.
        risks: number of other costs of the start.
        bytes, unread_bytes: bytes of the records files that stay, and the unread part of them.
        lost: what the start loses.
        lost_before: what is lost without a start.
    """

    is_harmless: bool = True
    changed: int = 0
    damaged_batches: int = 0
    at_risk: int = 0
    given_again: int = 0
    lost_folders: int = 0
    risks: int = 0
    bytes: int = 0
    unread_bytes: int = 0
    lost: Totals = field(default_factory=Totals)
    lost_before: LossTotals = field(default_factory=LossTotals)
    _futures: Counter[TopicPartition] = field(default_factory=Counter)

    def add(self, log: LogPlan) -> None:
        """Add a log."""
        self.is_harmless = self.is_harmless and log.is_harmless
        self.changed += not log.keeps_records
        self.damaged_batches += log.kept.damaged_batches + log.kept.out_of_order
        self.at_risk += log.is_at_risk
        self.given_again += log.offsets_given_again
        self.bytes += log.kept.bytes
        self.unread_bytes += log.kept.unread_bytes
        self.lost.add(log.losses)
        if log.state is FolderState.FUTURE:
            self._futures[log.partition] += log.losses.offsets

    def finish(self, start: StartPlan, lost_before: Sequence[Loss]) -> None:
        """Add what concerns the whole node, once all logs are planned, and what is lost without a start."""
        self.lost_before = LossTotals.of(lost_before)
        for lost in start.lost_folders:
            if lost.stray is not None:
                self.lost.add_stray(lost, self._futures[lost.missing.partition])
            self.lost_folders += not lost.missing.is_harmless
        self.risks = sum(len(each.risks) for each in start.log_dirs) + start.forgets_topics
        self.is_harmless = self.is_harmless and not (self.lost_folders or self.risks)


def closing_lines(start: StartPlan, summary: PlanSummary) -> Iterator[str]:
    """Yield the last lines: the outcome for the broker, what it costs in all, and what to do instead."""
    yield verdict_line(start, summary)
    lost = summary.lost
    if lost.partitions:
        amounts = [_records(lost)] if lost.records or lost.control_records else []
        amounts.append(counted(lost.offsets, "offset"))
        line = f"a start takes in all: {', '.join(amounts)}"
        line += f" in {counted(lost.partitions, 'partition')}{_times(lost)}"
        if lost.bytes:
            damaged = lost.damaged_bytes
            of_them = f", {counted(damaged, 'byte')} of which are damaged" if damaged else ""
            line += f"; {counted(lost.bytes, 'byte')} of records files{of_them}"
        yield line
    if summary.lost_before.partitions:
        yield closing(summary.lost_before, "before any start")
    if summary.lost_before.partitions or not (summary.is_harmless and start.starts):
        source = quote(",".join(each.path for each in start.log_dirs))
        if any(each.is_denied for each in start.failures):
            yield (
                f"next: kafkafs check --rule file-rights {printable(source)} names the files that the"
                " broker's user may not use; plan again once it may"
            )
            return
        yield f"next: kafkafs rebuild {printable(source)} TARGET writes all that can be read to a new log dir"


def verdict_line(start: StartPlan, summary: PlanSummary) -> str:
    """Return the closing line: the outcome for the broker."""
    outcome, reason = start.verdict()
    broker, reason = f"a {start.version.name} broker", printable(reason)
    if outcome is Outcome.LOADS and start.choice:
        count = f"{start.chosen_count} of {_logs(start.log_count)}"
        return f"{count}, as chosen, would load in {broker}: {'; '.join(_ends(summary))}"
    if outcome is Outcome.LOADS:
        return f"{broker.capitalize()} starts with {_logs(start.log_count)}: {'; '.join(_ends(summary))}"
    if outcome is Outcome.LOG_DIR_OFFLINE:
        return f"{broker.capitalize()} starts without a log dir: {reason}"
    if outcome is Outcome.UNKNOWN:
        return f"The outcome for {broker} is unknown: {reason}"
    return f"{broker.capitalize()} does not start: {reason}"


def _ends(summary: PlanSummary) -> Iterator[str]:
    if summary.changed:
        yield "with the losses and changes above"
    if summary.at_risk:
        yield f"the outcome for {_count(summary.at_risk, 'log')} is unknown"
    if summary.damaged_batches:
        count = _count(summary.damaged_batches, "damaged batch")
        yield f"it will serve {count} as errors"
    if summary.lost_folders:
        yield f"it makes {_count(summary.lost_folders, 'partition')} anew, from offset 0 on"
    if summary.risks:
        yield "with the risks above"
    if summary.given_again:
        yield f"it gives {_count(summary.given_again, 'offset')} to other records than before"
    read = summary.bytes - summary.unread_bytes
    if summary.unread_bytes:
        if summary.is_harmless:
            yield "the start takes no records away"
        yield f"not read: {summary.unread_bytes} of {summary.bytes} bytes of records"
    elif summary.is_harmless and not read:
        yield "there are no records in them"
    elif summary.is_harmless:
        yield (
            "the start takes no records away;"
            f" all {read} bytes of records were read, and every checksum is right"
        )


def log_facts(log_dir: LogDirPlan, log: LogPlan) -> dict[str, Any]:
    """Return a log as JSON."""
    losses = log.losses
    return {
        "kind": "log",
        "logDir": log_dir.path,
        **facts_of(log, "folder topic=partition.topic partition=partition.partition"),
        "state": log.state.value.removeprefix("-") or "log",
        **facts_of(log, "clean recovery_point outcome=outcome.value"),
        "exception": log.java or None,
        "reason": log.reason or None,
        **facts_of(
            log,
            "harmless=is_harmless logStartOffset=log_start logEndOffset=log_end "
            "logEndOffsetBefore=log_end_before",
        ),
        "lost": {
            **_lost_facts(losses),
            "ranges": [{"firstOffset": first, "nextOffset": end} for first, end in losses.ranges],
        },
        "kept": {
            **facts_of(
                log,
                "bytes=kept.bytes unreadBytes=kept.unread_bytes "
                "damagedBatches=kept.damaged_batches damagedBytes=kept.damaged_bytes "
                "outOfOrder=kept.out_of_order",
            ),
            "damage": list(log.kept.damage),
        },
        "atRisk": log.is_at_risk,
        "offsetsGivenAgain": log.offsets_given_again,
        "epochsBefore": _pairs(log.epochs_before),
        "epochsAfter": _pairs(log.epochs_after),
        "topicId": log.topic_id,
        "renamedTo": log.renamed_to,
        "files": [_change_facts(change) for change in log.changes],
        "notes": list(log.notes),
    }


def _lost_facts(losses: Losses | Totals) -> dict[str, Any]:
    return facts_of(
        losses, "records control_records offsets bytes damaged_bytes first_timestamp last_timestamp"
    )


def folder_facts(lost: LostFolder) -> dict[str, Any]:
    """Return a partition without a folder as JSON."""
    missing = lost.missing
    return {
        "kind": "lostFolder",
        **facts_of(
            missing,
            "topic=partition.topic partition=partition.partition topic_id log_dir directory_id",
        ),
        "otherReplicas": list(missing.other_replicas),
        "stray": lost.stray,
        "harmless": missing.is_harmless,
        "loss": missing.loss().to_json(),
    }


def dir_facts(log_dir: LogDirPlan) -> dict[str, Any]:
    """Return a log dir as JSON."""
    return {
        "kind": "logDir",
        **facts_of(log_dir, "logDir=path marker=has_marker clean outcome=outcome.value"),
        "exception": log_dir.java or None,
        "reason": log_dir.reason or None,
        "logs": len(log_dir.folders),
        **facts_of(log_dir, "risks linksNotFollowed=links notes"),
    }


def broker_facts(start: StartPlan, summary: PlanSummary) -> dict[str, Any]:
    """Return the outcome for the broker as JSON."""
    outcome, reason = start.verdict()
    return {
        "kind": "broker",
        **facts_of(start, "version=version.name plannedLogs=chosen_count logs=log_count"),
        "outcome": outcome.value,
        "reason": reason or None,
        "harmless": summary.is_harmless and start.starts,
        "lost": {"partitions": summary.lost.partitions, **_lost_facts(summary.lost)},
        "lostFolders": summary.lost_folders,
        "lossTotals": summary.lost_before.to_json(),
        "forgetsTopics": start.forgets_topics,
        **facts_of(
            summary, "damaged_batches offsetsGivenAgain=given_again recordBytes=bytes unread_bytes"
        ),
    }


def _pairs(entries: tuple[EpochEntry, ...] | None) -> list[list[int]] | None:
    return None if entries is None else [list(entry) for entry in entries]


def _change_facts(change: FileChange) -> dict[str, Any]:
    return facts_of(
        change, "name change=change.value size_before size_after new_name deleted_later"
    )


def _logs(count: int) -> str:
    return _count(count, "log")


def _count(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"
