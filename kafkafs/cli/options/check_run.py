"""One run of `kafkafs check`: what it looks at, what earlier runs have finished, and what is kept of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from engine.check.evidence import FileRead, OpenedFiles
from engine.check.log_dir_check import CheckOptions, Event, NotLookedAt, RemoteChecks, SourceCheck
from engine.check.scope import Scope
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.verdict.missing_folders import MissingFolder
from kafkafs.amounts import counted
from kafkafs.cli.options.check_progress import CheckProgressFile
from kafkafs.cli.options.check_scope import CheckExtent
from kafkafs.cli.options.evidence import EvidenceFile
from kafkafs.cli.options.outputs import refuse_inside
from kafkafs.cli.printing.check_report import CheckReport
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress

if TYPE_CHECKING:
    from engine.rights.broker_user import BrokerUser
    from kafkafs.spark.executors import Executors


class CheckRun:
    """One run of a check.

    Args:
        source: the source.
        paths: the source, as named.
        takes: returns whether a partition was chosen.
        asked: how much of the partitions to look at.
        evidence: the new file of --evidence; None for none.
        executors: Spark's executors; None to check here.

    Attributes:
        scope: what is looked at; None for all chosen partitions.
        not_looked_at: number of partitions that were left when the time was over.

    Raises BadParameter, SourceError for files that cannot be written.
    """

    def __init__(
        self,
        source: LogSource,
        paths: Sequence[str],
        takes: Callable[[PartitionLog | MissingFolder], bool],
        asked: CheckExtent,
        evidence: str | None,
        executors: Executors | None = None,
    ) -> None:
        self._executors = executors
        self._source = source
        self._asked = asked
        self._takes = takes
        limit = math.inf if asked.max_seconds is None else asked.max_seconds
        self._ends_at = time.monotonic() + limit
        self.not_looked_at = 0
        with ExitStack() as files:
            self._evidence: EvidenceFile | None = None
            self._opened: OpenedFiles | None = None
            if evidence is not None:
                self._evidence = files.enter_context(EvidenceFile(evidence, source, paths))
                self._opened = OpenedFiles(source.roots)
            self._progress: CheckProgressFile | None = None
            if asked.resume:
                refuse_inside(source, asked.resume, "--resume")
                hashes = evidence is not None
                self._progress = files.enter_context(CheckProgressFile(asked.resume, hashes=hashes))
            chosen = [log for log in source.partitions().values() if takes(log)]
            self.scope: Scope | None = asked.scope(chosen)
            if self.scope is not None:
                chosen = [log for log in chosen if log.name in self.scope.partitions]
            self._names = frozenset(log.name for log in chosen)
            holds = self._progress.holds if self._progress is not None else lambda log: False
            self._held = frozenset(log.name for log in chosen if holds(log))
            self._files = files.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._progress is not None:
            say(
                "kafkafs: stopped; the same command goes on with the partitions that are left",
                err=True,
            )

    def take_finished(self, report: CheckReport) -> None:
        """Report what earlier runs found in the partitions that are not read again."""
        if self._progress is None or not self._held:
            return
        read = counted(len(self._held), "partition")
        since = self._progress.started
        say(f"kafkafs: {read} of {len(self._names):,} checked before, since {since}", err=True)
        for result in (self._progress.result(name) for name in sorted(self._held)):
            for finding in result.findings:
                report.finding(finding)
            report.partition(result.summary)
            for file in result.files or ():
                self._take_file(file)
                if self._opened is not None:
                    self._opened.mark_hashed(file)

    def events(
        self, jobs: int, progress: Progress, broker_user: BrokerUser | None
    ) -> Iterator[Event]:
        """Check what is left, and yield the events of the check."""
        check = SourceCheck(
            self._source,
            CheckOptions(
                jobs=jobs,
                takes=lambda log: log.name in self._names,
                takes_missing=self._takes,
                skips=lambda log: log.name in self._held,
                alone=None if self.scope is None else self.scope.alone,
                ends_at=self._ends_at,
                fingerprints=self._progress is not None,
                opened=self._opened,
                elsewhere=self._elsewhere(),
                broker_user=broker_user,
            ),
        )
        if progress.active or not self._asked.is_everything:
            progress.total = check.size()
        for event in check.run():
            if isinstance(event, NotLookedAt):
                self.not_looked_at += 1
            elif isinstance(event, FileRead):
                self._take_file(event)
            if self._progress is not None:
                self._progress.take(event)
            yield event

    def _elsewhere(self) -> RemoteChecks | None:
        if self._executors is None:
            return None
        from kafkafs.spark.checking import checked

        return partial(checked, self._executors)

    def _take_file(self, file: FileRead) -> None:
        if self._evidence is not None:
            self._evidence.add(file)

    def finish(self, report: CheckReport) -> None:
        """Write the evidence, and end the progress if nothing is left."""
        if self._evidence is not None:
            counts = {**report.summary(), "byRule": dict(report.rules)}
            self._evidence.finish(self._source.unread(), counts)
        if self._progress is not None and not self.not_looked_at:
            self._progress.end()
