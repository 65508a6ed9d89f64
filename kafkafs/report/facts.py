"""The facts of a report: each byte of the chosen partitions is read once, by the check, which counts on the way.

The topics that Kafka keeps for itself are replayed for groups and transactions. The plan of a start reads again what a
broker would read at its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import kernel
from engine.check.evidence import FileRead, OpenedFiles
from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, CheckProgress, SourceCheck
from engine.check.log_statistics import (
    POWERS,
    CodecCounts,
    LogStatistics,
    TimeCounts,
    add_codecs,
)
from engine.check.rules.finding import Finding
from engine.clock import Clock
from engine.errors import KafkaStorageError
from engine.files.read_failures import reason_of
from engine.log.log_directory import LogSource
from engine.log.partition_choice import Choosable
from engine.log.partition_log import PartitionLog
from engine.plan.log_dir_plan import LogDirPlan
from engine.plan.log_plan import LogPlan
from engine.plan.start_plan import StartPlan
from engine.replay.groups.group import Group
from engine.replay.source_state import SourceState
from engine.replay.transactions import OpenTransaction
from engine.units import EpochEntry, Timestamp
from engine.usage.source_usage import UsedDisk, source_usage
from engine.verdict.loss import Loss
from engine.version import __version__
from kafkafs.report.copies import BrokerSums, Copies, brokers_of, copies_of
from kafkafs.report.partition_facts import PartitionFacts, TopicFacts
from kafkafs.start_words import lost_folder_lines, risk_lines

if TYPE_CHECKING:
    from engine.replay.groups.share_rows import ShareRow
    from engine.replay.source_state import GroupRow

MOST_FINDINGS_OF_A_RULE = 50
MOST_DAMAGED_LOGS = 500
MOST_GROUP_ROWS = 20_000
MOST_TRANSACTIONS = 2_000
MOST_CURVES = 8
"""Partitions of which the offsets over time are drawn."""

Advance = Callable[[int], None]


@dataclass(slots=True)
class RuleFindings:
    """The findings of one rule at one severity.

    Attributes:
        rule, severity: of all of them.
        number: of all of them, with those that a finding stands for.
        first: the first MOST_FINDINGS_OF_A_RULE.
    """

    rule: str
    severity: str
    number: int = 0
    first: list[Finding] = field(default_factory=list)


class Lag(NamedTuple):
    """A partition of a group; `committed` and `log_end` are None if unknown."""

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None


class GroupFacts(NamedTuple):
    """A group with its partitions; no client ids, hosts or commit metadata."""

    name: str
    kind: str
    state: str
    members: int
    lags: list[Lag]

    @property
    def lag(self) -> int | None:
        """Sum of the known lags; None if none is known."""
        known = [max(each.lag, 0) for each in self.lags if each.lag is not None]
        return sum(known) if known else None


@dataclass(slots=True)
class PlannedStart:
    """What a broker would do at its start.

    Attributes:
        version: release of the broker.
        log_dirs: plan of each log dir.
        logs: number of logs.
        changed: logs that lose records, change or do not load.
        lost_records, lost_bytes, given_again: sums.
        made_anew: number of partitions without a folder that held records, as far as can be told.
        lost_offsets: number of offsets that those are known to have held.
        lost_folders: a line for each partition without a folder.
        risks: a line for each other risk.
        outcome, reason: what happens to the broker.
        is_known: whether all that the start depends on could be read.
        skipped: why no start was planned; "" if one was.
    """

    version: str = ""
    log_dirs: list[LogDirPlan] = field(default_factory=list)
    logs: int = 0
    changed: list[LogPlan] = field(default_factory=list)
    lost_records: int = 0
    lost_bytes: int = 0
    given_again: int = 0
    made_anew: int = 0
    lost_offsets: int = 0
    lost_folders: Sequence[str] = ()
    risks: Sequence[str] = ()
    outcome: str = ""
    reason: str = ""
    is_known: bool = True
    skipped: str = ""

    @property
    def is_harmless(self) -> bool:
        """Whether the broker starts, every log keeps its records, and no partition is made anew or forgotten."""
        is_changing = self.changed or self.made_anew or self.risks
        return bool(self.skipped) or (self.outcome == "loads" and not is_changing)


@dataclass(slots=True)
class SourceFacts:
    """All that a page shows.

    Attributes:
        paths: the source, as named.
        made_at, version, kernel: when and with what the report was made.
        is_choice: whether only chosen partitions were read.
        log_dirs: path, cluster id and node id of each.
        broker_pid: process id of a broker that has the source open.
        partitions: by name.
        topics: by name.
        rules: findings by rule and severity.
        codecs, batch_sizes, batch_records, times: sums over all partitions, see LogStatistics.
        groups, transactions: from Kafka's own topics and the logs; None if the source has no such topic.
        start: the plan of a start.
        losses: offsets that the partitions lost, and partitions that are lost.
        disk: what takes the disk, and what a broker deletes next; None if unknown.
        epochs: leader epochs with their start offsets, of the partitions with the worst findings and the largest.
        copies, brokers: several copies of a partition, and several brokers, if the source has them.
        recovery: the report of a planned recovery of the cluster, if the log dirs are those of several brokers.
        notes: what could not be found out, and why.
        unread: places that could not be read.
    """

    paths: Sequence[str]
    made_at: Timestamp
    is_choice: bool = False
    version: str = __version__
    kernel: str = ""
    log_dirs: list[tuple[str, str | None, int | None]] = field(default_factory=list)
    broker_pid: int | None = None
    partitions: list[PartitionFacts] = field(default_factory=list)
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    rules: dict[tuple[str, str], RuleFindings] = field(default_factory=dict)
    codecs: dict[str, CodecCounts] = field(default_factory=dict)
    batch_sizes: np.ndarray = field(default_factory=lambda: np.zeros(POWERS, np.int64))
    batch_records: np.ndarray = field(default_factory=lambda: np.zeros(POWERS, np.int64))
    times: TimeCounts = field(default_factory=TimeCounts)
    control_batches: int = 0
    transactional_batches: int = 0
    groups: list[GroupFacts] | None = None
    transactions: list[OpenTransaction] = field(default_factory=list)
    start: PlannedStart = field(default_factory=PlannedStart)
    losses: list[Loss] = field(default_factory=list)
    disk: UsedDisk | None = None
    epochs: dict[str, list[EpochEntry]] = field(default_factory=dict)
    copies: list[Copies] = field(default_factory=list)
    brokers: list[BrokerSums] = field(default_factory=list)
    recovery: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def found(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(each.number for each in self.rules.values() if each.severity == severity)

    @property
    def size(self) -> int:
        """Bytes of all records files."""
        return sum(each.size for each in self.partitions)

    @property
    def records(self) -> int:
        """Number of all good records."""
        return sum(each.records for each in self.partitions)

    @property
    def hanging(self) -> int:
        """Number of open transactions that no coordinator will end."""
        return sum(each.hangs is True for each in self.transactions)

    @property
    def is_known(self) -> bool:
        """Whether everything could be read that the page is about."""
        return not (self.unread or self.notes) and self.start.is_known

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found but notes, and a start would take nothing away."""
        is_clean = not (self.found("error") or self.found("warning") or self.losses)
        return bool(is_clean and self.partitions and not self.hanging and self.start.is_harmless)


class FactsReader:
    """Reads the facts of a source.

    Args:
        source: the logs.
        paths: the source's paths, as named.
        takes: returns whether to read a partition; None for all.
        jobs: number of decoding threads.
        clock: the current time.
        advance: called with numbers of bytes read.
        on_file: called with each file that the check has opened, which is hashed then; None for no hashes.
    """

    def __init__(
        self,
        source: LogSource,
        paths: Sequence[str],
        *,
        takes: Callable[[Choosable], bool] | None,
        jobs: int,
        clock: Clock,
        advance: Advance,
        on_file: Callable[[FileRead], None] | None = None,
    ) -> None:
        self.facts = SourceFacts(paths, clock.now_ms(), takes is not None, kernel=kernel.name)
        self._source = source
        self._chosen = takes
        self._takes = takes or (lambda log: True)
        self._jobs = jobs
        self._clock = clock
        self._advance = advance
        self._on_file = on_file
        self._damaged_logs = 0

    def read(self) -> SourceFacts:
        """Read everything and return the facts."""
        facts = self.facts
        for path, meta in zip(self._source.roots, self._source.meta_properties, strict=True):
            cluster, node = (None, None) if meta is None else (meta.cluster_id, meta.node_id)
            facts.log_dirs.append((path.path, cluster, node))
        facts.broker_pid = self._source.broker_pid
        self._check()
        with self._noted("leader epochs"):
            self._read_epochs(self._source.partitions())
        with self._noted("copies"):
            facts.brokers = brokers_of(self._source, facts.partitions)
            facts.copies = list(copies_of(self._source, facts.partitions, self._advance))
        with self._noted("groups and transactions"):
            self._replay()
        with self._noted("the start of a broker"):
            self._plan()
        with self._noted("what a recovery would make"):
            self._plan_recovery()
        with self._noted("what takes the disk"):
            facts.disk = source_usage(self._source, facts.made_at, {}, takes=self._chosen)
        unread = [*self._source.unread(), *self._source.unread_folders()]
        facts.unread = [str(each) for each in unread]
        return facts

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaStorageError) as error:
            self.facts.notes.append(f"{what}: {reason_of(error)}")

    def _check(self) -> None:
        logs = self._source.partitions()
        opened = None if self._on_file is None else OpenedFiles(self._source.roots)
        options = CheckOptions(
            self._jobs,
            self._takes,
            self._clock,
            counts=True,
            opened=opened,
            takes_missing=self._takes,
        )
        for event in SourceCheck(self._source, options).run():
            if isinstance(event, Finding):
                self._add_finding(event)
            elif isinstance(event, PartitionSummary):
                self._add_partition(event, logs[event.partition])
            elif isinstance(event, Loss):
                self.facts.losses.append(event)
            elif isinstance(event, FileRead) and self._on_file is not None:
                self._on_file(event)
            elif isinstance(event, CheckProgress):
                self._advance(event.size)

    def _add_finding(self, finding: Finding) -> None:
        key = finding.severity.value, finding.rule
        known = self.facts.rules.get(key)
        if known is None:
            known = self.facts.rules[key] = RuleFindings(finding.rule, finding.severity.value)
        known.number += 1 + finding.others
        if len(known.first) < MOST_FINDINGS_OF_A_RULE:
            known.first.append(finding)

    def _add_partition(self, summary: PartitionSummary, log: PartitionLog) -> None:
        counted = summary.statistics or LogStatistics()
        facts = PartitionFacts.of(summary, log.topic_partition)
        if facts.damaged and self._damaged_logs >= MOST_DAMAGED_LOGS:
            facts.damaged = ()
        self._damaged_logs += bool(facts.damaged)
        self.facts.partitions.append(facts)
        self.facts.losses += summary.losses
        topic = facts.place.topic
        self.facts.topics.setdefault(topic, TopicFacts(topic)).add(facts, counted)
        add_codecs(self.facts.codecs, counted.codecs)
        self.facts.batch_sizes += counted.batch_sizes
        self.facts.batch_records += counted.batch_records
        self.facts.times.merge(counted.times)
        self.facts.control_batches += counted.control_batches
        self.facts.transactional_batches += counted.transactional_batches

    def _read_epochs(self, logs: Mapping[str, PartitionLog]) -> None:
        rank = {"error": 0, "warning": 1}
        order = sorted(
            (each for each in self.facts.partitions if each.records),
            key=lambda each: (rank.get(each.state, 2), -each.size, each.name),
        )
        for each in sorted(order[:MOST_CURVES], key=lambda each: each.place):
            if each.name in logs:
                self.facts.epochs[each.name] = list(logs[each.name].view().leader_epochs.entries)

    # Kafka's own topics

    def _replay(self) -> None:
        state = SourceState(self._source, self._advance)
        if state.has_groups:
            self.facts.groups = []
            known = state.known_groups()
            left = MOST_GROUP_ROWS
            for name in known.names:
                group = known.group(name)
                if group is None:
                    continue
                lags = [_lag_of(row) for row in state.lag_rows(group, known)]
                self.facts.groups.append(_group(group, lags[:left]))
                left -= len(lags)
                if left <= 0:
                    self.facts.notes.append(
                        f"groups: only the first {MOST_GROUP_ROWS:,} committed offsets are here"
                    )
                    break
            self.facts.notes += [f"groups: {each}" for each in state.ends.notes()]
            self._note_unreadable("groups", len(known.unreadable))
        for each in state.open_transactions():
            if len(self.facts.transactions) >= MOST_TRANSACTIONS:
                self.facts.notes.append(
                    f"transactions: only the first {MOST_TRANSACTIONS:,} open ones are here"
                )
                break
            self.facts.transactions.append(each)

    def _note_unreadable(self, what: str, places: int) -> None:
        if places:
            self.facts.notes.append(f"{what}: {places:,} places of their topics are unreadable")

    # The start of a broker, the recovery of several

    def _plan_recovery(self) -> None:
        if not self.facts.brokers or self.facts.is_choice:
            return
        # Imported here: most reports are of one broker.
        from engine.recover.options import RecoverOptions
        from engine.recover.recovering import recover

        paths = [root.path for root in self._source.roots]
        options = RecoverOptions(jobs=self._jobs)

        def advance(_: str, size: int) -> None:
            self._advance(size)

        self.facts.recovery = recover(paths, None, options, advance=advance).report

    def _plan(self) -> None:
        planned = self.facts.start
        if self.facts.is_choice:
            planned.skipped = "only some partitions were chosen"
            return
        if not all(log.is_named and log.only is None for log in self._source.partitions().values()):
            planned.skipped = (
                "a broker starts on log dirs, not on a file or a folder that names no partition"
            )
            return
        if self.facts.brokers:
            planned.skipped = "the log dirs are those of several brokers; the report of one broker plans its start"
            return
        planned.skipped = "the plan failed"
        with StartPlan(self.facts.paths, verifies=False, clock=self._clock) as start:
            start.on_read = self._advance
            planned.version = start.version.name
            for _, log in start.logs():
                planned.logs += 1
                planned.lost_records += log.losses.records
                planned.lost_bytes += log.losses.bytes
                planned.given_again += log.offsets_given_again
                if not log.is_harmless:
                    planned.changed.append(log)
            planned.log_dirs = start.log_dirs
            planned.made_anew = sum(not each.missing.is_harmless for each in start.lost_folders)
            planned.lost_offsets = sum(each.missing.lost_offsets for each in start.lost_folders)
            planned.lost_folders = list(lost_folder_lines(start))
            planned.risks = list(risk_lines(start))
            outcome, planned.reason = start.verdict()
            planned.outcome = outcome.value
            planned.is_known = all(each.outcome.value != "unknown" for each in start.failures)
            planned.skipped = ""


def finding_counts(facts: SourceFacts) -> dict[str, Any]:
    """Return the findings in numbers, and what they are about, for JSON; the names are those of `kafkafs check`."""
    by_rule: Counter[str] = Counter()
    for each in facts.rules.values():
        by_rule[each.rule] += each.number
    return {
        "partitions": len(facts.partitions),
        "size": facts.size,
        "records": facts.records,
        **{f"{severity}s": facts.found(severity) for severity in ("error", "warning", "note")},
        "byRule": dict(by_rule),
    }


def _lag_of(row: GroupRow | ShareRow) -> Lag:
    facts = row.facts()
    committed = facts.get("currentOffset", facts.get("startOffset"))
    return Lag(facts["topic"], facts["partition"], committed, facts["logEndOffset"], facts["lag"])


def _group(group: Group, lags: list[Lag]) -> GroupFacts:
    return GroupFacts(group.group_id, group.kind, group.state, len(group.members), lags)
