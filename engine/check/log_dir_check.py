"""The check of a whole source: each partition in turn, and the files beside them.

A live log dir changes while it is read. So findings in one are reported only if a second look finds them again.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from engine import processes
from engine.budgets import MiB
from engine.check.evidence import FileRead, Opened, OpenedFiles
from engine.check.files import side_files
from engine.check.files.folder_check import check_folder
from engine.check.files.side_files import PARTITION_CHECKS, SEGMENT_CHECKS, LogDirCheck
from engine.check.log_check import LogCheck, PartitionSummary
from engine.check.partition_under_check import PartitionUnderCheck, SegmentCheck
from engine.check.rights_check import check_rights
from engine.check.rules.finding import Finding, failed_read, found
from engine.check.rules.finding_limit import FindingLimit
from engine.check.rules.rules import RULES, Severity
from engine.check.segment_look import EarlierLooks, Look, look_at_segment
from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import InvalidNameError, KafkaStorageError
from engine.files.file_names import REMOTE_INDEX_CACHE_FOLDER, FolderState, parse_folder_name
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.problems import ProblemEntry
from engine.log.source_directory import OtherEntry
from engine.log.view.log_view import LogView
from engine.rights.broker_user import BrokerUser
from engine.units import Offset
from engine.verdict.gap_causes.cleanup_policies import PolicyOf
from engine.verdict.loss import Loss
from engine.verdict.missing_folders import Absence, MissingFolder
from engine.verdict.source_evidence import evidence_of
from engine.verdict.source_losses import absent_partitions
from engine.verdict.words import may_be_in
from engine.workers import Workers

_SECOND_LOOK_AFTER = 0.5
_FEW, _SMALL = 4, 4 * MiB
"""Segments and bytes of a partition that one thread checks."""


class CheckProgress(NamedTuple):
    """Progress of a check.

    Attributes:
        partition: the partition being checked.
        size: bytes of records checked since the last event.
        file: files being checked beside the records; "" during the records.
    """

    partition: str
    size: int
    file: str = ""


class PartitionDone(NamedTuple):
    """A partition whose files did not change during its check.

    Attributes:
        partition: its name.
        fingerprint: of the names, sizes, mtimes and inodes of its files.
    """

    partition: str
    fingerprint: str


class NotLookedAt(NamedTuple):
    """A partition that was not checked because the time was over."""

    partition: str


Event: TypeAlias = (
    Finding | PartitionSummary | Loss | CheckProgress | FileRead | PartitionDone | NotLookedAt
)


RemoteChecks: TypeAlias = "Callable[[SourceCheck, Sequence[PartitionLog]], Iterator[Event]]"
"""Checks logs of a source on other machines, and yields what they find."""


class _OpenedElsewhere(NamedTuple):
    """Files that a check in another process opened outside of the partition's folder."""

    files: list[Opened]


class _Problems(NamedTuple):
    """Problems of a partition that was checked in another process."""

    partition: str
    entries: list[ProblemEntry]


def _every(_: object) -> bool:
    return True


def _none(_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of a check.

    Attributes:
        jobs: number of decoding threads.
        takes: returns whether to check a partition.
        clock: source of the current time.
        second_look_after: seconds between the two looks at a live partition.
        policy_of: the topics' cleanup.policy; by default from the source's own metadata.
        row_file_bytes: maximum size of a temporary file for the batch headers of a very large partition; without one
            the headers are read again for each check.
        counts: whether the summaries have statistics.
        takes_files: whether to check the files beside the records, too.
        skips: returns whether an earlier check of a partition still holds.
        alone: names of records files by partition: only these are checked, each on its own.
        ends_at: time on the monotonic clock after which no partition is begun.
        fingerprints: whether partitions that are done are told, with the state of their files.
        opened: the files that are opened; the check hashes them.
        takes_missing: returns whether to tell of a partition without a folder.
        elsewhere: checks partitions in other processes, and yields the events; None for this machine's.
        broker_user: the broker's user; None for that of one that runs, else the owner of each log dir.
    """

    jobs: int = 1
    takes: Callable[[PartitionLog], bool] = _every
    clock: Clock = SYSTEM_CLOCK
    second_look_after: float = _SECOND_LOOK_AFTER
    policy_of: PolicyOf | None = None
    row_file_bytes: int = 0
    counts: bool = False
    takes_files: bool = True
    skips: Callable[[PartitionLog], bool] = _none
    alone: Mapping[str, Sequence[str]] | None = None
    ends_at: float = math.inf
    fingerprints: bool = False
    opened: OpenedFiles | None = None
    takes_missing: Callable[[MissingFolder], bool] = _every
    elsewhere: RemoteChecks | None = None
    broker_user: BrokerUser | None = None


class SourceCheck:
    """Checks a source.

    Args:
        source: the logs to check.
        options: see CheckOptions.
    """

    def __init__(self, source: LogSource, options: CheckOptions | None = None) -> None:
        self.source = source
        self.options = options or CheckOptions()
        self._policies = self.options.policy_of or evidence_of(source).policy_of
        self._log_dirs = dict(zip(source.roots, source.log_dirs, strict=True))

    def __reduce__(self) -> tuple[type[SourceCheck], tuple[LogSource, CheckOptions]]:
        return SourceCheck, (self.source, self.options)

    def size(self) -> int:
        """Return the bytes of records to check, as far as known without reading."""
        return sum(size_of(log) for log in self._to_check())

    def run(self) -> Iterator[Event]:
        """Yield findings as they are made; after each partition its summary, and progress in between.

        Files that cannot be read are findings, and the check goes on. With several jobs the partitions are checked in
        other processes: most of the work on a small one is Python's.
        """
        if self.options.takes_files:
            yield from self.beside()
        logs = list(self._to_check())
        if self.options.elsewhere is not None:
            yield from self.options.elsewhere(self, logs)
        elif self.options.jobs < 2 or len(logs) < 2:
            with Workers(self.options.jobs) as workers:
                for log in logs:
                    yield from self._in_turn(log, workers)
                    log.forget()
        else:
            yield from self._in_processes(logs)
        if self.options.opened is not None:
            with Workers(self.options.jobs) as workers:
                yield from self.options.opened.rest(self.source.log_dirs, workers)

    def _in_processes(self, logs: Sequence[PartitionLog]) -> Iterator[Event]:
        opened = self.options.opened
        self._read_shared()
        by_name = {log.name: log for log in logs}
        for event in processes.flat_map(self._elsewhere, logs, self.options.jobs):
            if isinstance(event, _Problems):
                by_name[event.partition].problems.take(event.entries)
            elif isinstance(event, _OpenedElsewhere):
                assert opened is not None
                opened.add(event.files)
            else:
                if opened is not None and isinstance(event, FileRead):
                    opened.mark_hashed(event)
                yield event

    def _in_turn(self, log: PartitionLog, workers: Workers) -> Iterator[Event]:
        """Check a partition unless the time is over; say what was read, and whether it stayed the same meanwhile."""
        if time.monotonic() >= self.options.ends_at:
            yield NotLookedAt(log.name)
            return
        before = fingerprint_of(log) if self.options.fingerprints else ""
        yield from self.partition(log, workers)
        if self.options.opened is not None:
            yield CheckProgress(log.name, 0, "SHA-256 of the files")
            yield from self.options.opened.of_log(log, workers, is_live=log.is_live())
        if before and before == fingerprint_of(log):
            yield PartitionDone(log.name, before)

    def _read_shared(self) -> None:
        """Read now what the processes would each read, and would keep the problems of."""
        for directory in self.source.roots:
            self.source.checkpoints(directory).read()
        self._policies("")
        _ = evidence_of(self.source).has_tiered_storage

    def _elsewhere(self, log: PartitionLog) -> Iterator[Event | _Problems | _OpenedElsewhere]:
        """Check one partition in a process of its own; its problems follow."""
        with Workers(self.options.jobs) as workers:
            yield from self._in_turn(log, workers)
        if self.options.opened is not None:
            yield _OpenedElsewhere(self.options.opened.news())
        log.forget()
        if len(log.problems):
            yield _Problems(log.name, log.problems.entries())

    def _to_check(self) -> Iterator[PartitionLog]:
        """Yield the logs to read: partitions, or single records files."""
        alone = self.options.alone
        for log in self._chosen():
            if alone is not None:
                yield from (log.alone(name) for name in alone.get(log.name, ()))
            elif not self.options.skips(log):
                yield log

    def _chosen(self) -> Iterator[PartitionLog]:
        return (log for log in self.source.partitions().values() if self.options.takes(log))

    # Beside the partitions

    def beside(self) -> Iterator[Finding | Loss]:
        """Yield findings about log dirs and about the partitions' names, and the partitions whose folders are lost."""
        for entry in self.source.others:
            yield from _other(entry)
        for log in self._chosen():
            yield from _folder(self.source, log)
        user, takes = self.options.broker_user, self.options.takes
        rights: LogDirCheck = partial(check_rights, user=user, takes=takes)
        for log_dir in filter(None, self.source.log_dirs):
            for check in (*side_files.LOG_DIR_CHECKS, rights):
                yield from self._log_dir(check, log_dir)
        for missing in filter(self.options.takes_missing, absent_partitions(self.source)):
            if missing.absence is Absence.LOST:
                yield _lost(missing)
            if missing.is_certain:
                yield missing.loss()

    def _log_dir(self, check: LogDirCheck, log_dir: SourceRoot) -> Iterator[Finding]:
        try:
            findings = list(check(self.source, log_dir))
            if findings and log_dir.broker_pid() is not None:
                time.sleep(self.options.second_look_after)
                findings = _confirmed(findings, list(check(self.source, log_dir)))
        except (OSError, KafkaStorageError) as error:
            findings = [found("file-unreadable", log_dir.path, **failed_read(error))]
        yield from findings

    # Partitions

    def partition(
        self,
        log: PartitionLog,
        workers: Workers,
        looks: Iterator[tuple[Offset, Look]] | None = None,
    ) -> Iterator[Event]:
        """Check one partition.

        Args:
            log: the partition.
            workers: threads for decoding.
            looks: earlier results of `look_at_segment` for its segments, see `EarlierLooks`.
        """
        earlier = (
            None
            if looks is None
            else EarlierLooks(
                looks, workers, self._segment_checks, keeps_summaries=self.options.counts
            )
        )
        try:
            is_live = log.is_live()
            if not is_live:
                yield from self._look(log, workers, earlier, is_live=False)
                return
            findings, summary = yield from self._collected(log, workers, earlier)
            if any(finding.severity is not Severity.NOTE for finding in findings):
                time.sleep(self.options.second_look_after)
                again, summary = yield from self._collected(log, workers)
                findings = _confirmed(findings, again)
            yield from findings
            summary.found.clear()
            summary.found.update(finding.severity for finding in findings)
            yield summary
        except FileNotFoundError:
            if not log.is_live():
                yield _unreadable(log, {"sentence": "its folder no longer exists"})
        except (OSError, KafkaStorageError) as error:
            yield _unreadable(log, failed_read(error))

    def _collected(
        self, log: PartitionLog, workers: Workers, earlier: EarlierLooks | None = None
    ) -> Generator[Event, None, tuple[list[Finding], PartitionSummary]]:
        """Yield the progress of a look; return its findings and its summary as the generator's value."""
        findings: list[Finding] = []
        for event in self._look(log, workers, earlier, is_live=True):
            if isinstance(event, Finding):
                findings.append(event)
            elif isinstance(event, PartitionSummary):
                summary = event
            else:
                yield event
        return findings, summary

    def _look(
        self, log: PartitionLog, workers: Workers, earlier: EarlierLooks | None, *, is_live: bool
    ) -> Iterator[Event]:
        view = log.view(max_age=0)
        if _is_small(view):
            workers = Workers(1)  # to hand over the work would cost more than the work
        check = self._check_of(log, view, workers, earlier, is_live)
        limit = FindingLimit()
        for item in check.findings():
            if isinstance(item, int):
                yield CheckProgress(log.name, item)
            elif isinstance(item, str):
                yield CheckProgress(log.name, 0, item)
            elif limit.takes(item):
                check.summary.found[item.severity] += 1
                yield item
        for finding in limit.rest():
            check.summary.found[finding.severity] += 1
            yield finding
        yield check.summary

    def _check_of(
        self,
        log: PartitionLog,
        view: LogView,
        workers: Workers,
        earlier: EarlierLooks | None,
        is_live: bool,
    ) -> LogCheck:
        # Files beside the log concern all of it; a single segment cannot be compared with them.
        beside = PARTITION_CHECKS if log.only is None else ()
        under = self._under(log, view, is_live)
        on_segments = self._segment_checks if earlier is None else (earlier.check_segment,)
        takes_files = self.options.takes_files
        return LogCheck(
            under,
            workers,
            now_ms=self.options.clock.now_ms(),
            policy=self._policies(log.topic_partition.topic),
            cleaned_to=log.checkpoints.cleaner_offset(log.topic_partition),
            segment_checks=on_segments,
            partition_checks=(check_folder, *beside) if takes_files else (),
            items_of=None if earlier is None else earlier.items,
            row_file_bytes=self.options.row_file_bytes,
            counts=self.options.counts,
        )

    def _under(self, log: PartitionLog, view: LogView, is_live: bool) -> PartitionUnderCheck:
        log_dir = self._log_dirs[log.root]
        may_be_tiered = evidence_of(self.source).has_tiered_storage
        return PartitionUnderCheck(log, view, log_dir, is_live=is_live, may_be_tiered=may_be_tiered)

    def segment(self, log: PartitionLog, base_offset: Offset) -> Iterator[Look]:
        """Check one segment on its own, for a later check of its partition.

        Yields nothing if the segment no longer exists. Raises OSError, SourceRefusedError if it cannot be read.
        """
        view = log.view()
        if base_offset in view.segments:
            place = view.base_offsets.index(base_offset)
            under = self._under(log, view, log.is_live())
            yield from look_at_segment(
                under, place, self._segment_checks, keeps_summaries=self.options.counts
            )

    @property
    def _segment_checks(self) -> Sequence[SegmentCheck]:
        return SEGMENT_CHECKS if self.options.takes_files else ()


def _confirmed(first: list[Finding], second: list[Finding]) -> list[Finding]:
    """Return the second look's findings that the first look had too, and all its notes."""
    known = {finding.identity for finding in first}
    notes = Severity.NOTE
    return [each for each in second if each.severity is notes or each.identity in known]


def size_of(log: PartitionLog) -> int:
    """Return the bytes of a log's records files, 0 if it cannot be read; its view is dropped."""
    try:
        return log.view().size
    except (OSError, KafkaStorageError):
        return 0
    finally:
        log.forget()


def fingerprint_of(log: PartitionLog) -> str:
    """Return a hash of the names, sizes, mtimes and inodes of a partition's files; "" if they cannot be listed."""
    digest = hashlib.sha256(os.fsencode(log.root.display(log.folder)))
    try:
        names = sorted(entry.name for entry in log.root.list(log.folder))
        for name, status in log.root.stat_files(log.folder, names):
            facts = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            digest.update(f"{name!r} {facts}\n".encode())
    except (OSError, KafkaStorageError):
        return ""
    return digest.hexdigest()


def _is_small(view: LogView) -> bool:
    return len(view) <= _FEW and view.size <= _SMALL


def _unreadable(log: PartitionLog, facts: dict[str, Any]) -> Finding:
    return found("file-unreadable", log.root.display(log.folder), partition=log.name, **facts)


def _other(entry: OtherEntry) -> Iterator[Finding]:
    """Yield a finding about an entry of a log dir that is not a partition."""
    path = entry.root.display(entry.name)
    if entry.kind is EntryKind.SYMLINK:
        yield found("file-link", path, "a symbolic link; its target was not checked")
    elif entry.kind is EntryKind.OTHER:
        yield found("file-kind", path, "a device, FIFO or socket; it was not opened")
    elif entry.kind is EntryKind.FILE:
        yield found("file-other", path, "not a name of a log dir's file")
    elif entry.name != REMOTE_INDEX_CACHE_FOLDER:
        sentence = "a folder without a partition's name: a broker does not start with it"
        yield found("file-name", path, sentence)


def _lost(missing: MissingFolder) -> Finding:
    loss, rule = missing.loss(), "partition-lost"
    here = f" Here: {may_be_in(loss.elsewhere)}." if loss.elsewhere else ""
    return found(
        rule,
        missing.named_in or missing.log_dir or "",
        loss.reason,
        partition=loss.partition,
        first_offset=loss.first_offset,
        next_offset=loss.next_offset,
        severity=None if loss.is_certain else Severity.WARNING,
        advice=RULES[rule].advice + here,
        elsewhere=[each.to_json() for each in loss.elsewhere] or None,
    )


def _folder(source: LogSource, log: PartitionLog) -> Iterator[Finding]:
    """Yield findings about the name of a partition's folder."""
    path, first = log.root.display(log.folder), log.name.rpartition("@")[0]
    first = "" if log.folder.endswith(log.name) else first
    if first and not source.are_of_two_nodes(source.partitions()[first].root, log.root):
        yield found("folder-twice", path, f"{first} is in another log dir too", partition=log.name)
    try:
        state = parse_folder_name(log.folder).state
    except InvalidNameError:
        return
    words = {
        FolderState.DELETE: "it is being deleted",
        FolderState.FUTURE: "it is being moved here from another log dir",
        FolderState.STRAY: "the broker marked it as stray",
    }
    if state in words:
        yield found("folder-apart", path, words[state], partition=log.name)
