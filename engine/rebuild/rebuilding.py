"""Make a new log dir from others, with the same offsets, that a broker loads.

The result gets the target's name only after everything is written, synced, loaded once as a broker
does, and read again. After a failure nothing is left.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from math import ceil
from typing import NamedTuple

from engine import processes
from engine.budgets import Budgets
from engine.clock import SYSTEM_CLOCK
from engine.cut.folders_then import FoldersThen
from engine.cut.moment import Moment
from engine.cut.opening import ClusterThen, cluster_then
from engine.disk.disk import DISK, Disk
from engine.errors import KafkaStorageError
from engine.files.file_names import BOOTSTRAP_CHECKPOINT, META_PROPERTIES
from engine.log.log_directory import LogSource, Unread, open_source
from engine.log.partition_choice import PartitionChoice
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_dir_plan import METADATA_LOG
from engine.plan.start_plan import StartPlan
from engine.rebuild.beside.known_facts import KnownFacts
from engine.rebuild.beside.log_dir_files import log_dir_files, remade_checkpoints
from engine.rebuild.beside.new_checkpoints import NewCheckpoints
from engine.rebuild.bounds import refuse_bounds
from engine.rebuild.errors import RebuildFailedError, RebuildRefusedError
from engine.rebuild.identity import refuse_strangers
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.partition_rebuild import (
    Advance,
    PartitionRebuild,
    PartitionResult,
    SummedProgress,
    size_of,
)
from engine.rebuild.report import Json, describe_options, holds_records
from engine.rebuild.selection import LeftOut, select
from engine.rebuild.target.manifest import COMPLETE, FORMAT, FileHash
from engine.rebuild.target.rebuilt import EmptyResultError, Rebuilt
from engine.rebuild.target.records_files import WrittenFile
from engine.rebuild.target.staging import Staging, refuse_target, sync_tree
from engine.rebuild.target.verification import verified_files
from engine.rebuild.writing import write_file
from engine.topics.topic_names import CLUSTER_METADATA
from engine.verdict.metadata_log import forgets_topics
from engine.verdict.totals import LossTotals

_BUDGETS = Budgets(open_files=64)
"""Segments are read one after the other, and the target needs descriptors too."""


class Start(NamedTuple):
    """What a broker does at its start on a new log dir.

    Attributes:
        why_not: why it does not start; None if it does.
        strays: the logs that it sets aside as -stray: the metadata in the log dir does not assign them to the node.
    """

    why_not: str | None
    strays: tuple[str, ...] = ()


def planned_start(log_dir: str) -> Start:
    """Plan a start on a new log dir.

    Each log was loaded when it was written; here meta.properties, the checkpoints and the metadata log count.
    """
    choice = PartitionChoice.parse((), (METADATA_LOG,))
    try:
        with StartPlan([log_dir], clean=True, verifies=False, choice=choice) as plan:
            for _ in plan.logs():
                pass
            outcome, reason = plan.verdict()
            return Start(None if outcome is Outcome.LOADS else reason, plan.strays)
    except (KafkaStorageError, OSError) as error:
        return Start(f"this is not known: {error}")


def rebuild(
    source: str | Sequence[str],
    target: str | None,
    options: RebuildOptions | None = None,
    *,
    merge: Sequence[str] = (),
    disk: Disk = DISK,
    advance: Advance | None = None,
) -> Rebuilt:
    """Make a log dir.

    Args:
        source: log dirs, a partition's folder, or a .log file.
        target: path of the result; None to write nothing and only return the report.
        options: options of the rebuild.
        merge: further copies of the same partitions: replicas.
        disk: disk to write with.
        advance: called with progress.

    Raises:
        MomentError: the sources do not have what names the moment.
        RebuildRefusedError: the rebuild is refused; EmptyResultError: the result would have no records.
        RebuildFailedError: the result is not as planned, or a broker loads none of the logs.
        SourceError: a source cannot be read.
        OSError: a source cannot be read or the disk fails. The target does not exist then.
    """
    asked = options or RebuildOptions()
    _refuse_options(asked, merge, target)
    named = [source] if isinstance(source, str) else list(source)
    if target is not None:
        refuse_target(target, [*named, *merge])
    sources: list[LogSource] = []
    try:
        then = None if asked.at is None else _then([*named, *merge], asked.at)
        folders = None if then is None else then.folders
        sources.append(_open(named, folders))
        sources += [_open([each], folders) for each in merge]
        return _Rebuild(sources, target, asked, disk, advance or _nothing, then).run()
    finally:
        for each in sources:
            each.close()


def _then(paths: list[str], at: Moment) -> ClusterThen:
    """Return what the cluster was at a moment. Raises RebuildRefusedError if its metadata is gone."""
    then = cluster_then(paths, at)
    if then.lacks_metadata:
        raise RebuildRefusedError(
            "the metadata log does not reach back to that moment",
            "name a later one, or the ends of single topics with --topic and --to",
        )
    return then


def _open(paths: list[str], folders: FoldersThen | None) -> LogSource:
    """Return a source; while a broker writes to it, a snapshot of this moment."""
    source = open_source(paths, cut=folders, budgets=_BUDGETS)
    if source.broker_pid is None:
        return source
    source.close()
    return open_source(paths, cut=folders, snapshot=True, budgets=_BUDGETS)


def _nothing(_: str, __: int) -> None:
    return None


def _refuse_options(options: RebuildOptions, merge: Sequence[str], target: str | None) -> None:
    if options.mode is not Mode.BROKER:
        return
    asked = [*options.salvages_only, *(["merge"] if merge else [])]
    if asked:
        raise RebuildRefusedError(
            f"a broker has no --{asked[0]}", "leave it out, or use --mode salvage"
        )
    if target is None:
        raise RebuildRefusedError(
            "--mode broker must write a copy to know the result", "see kafkafs plan"
        )


class _Rebuild:
    """One rebuild."""

    def __init__(
        self,
        sources: list[LogSource],
        target: str | None,
        options: RebuildOptions,
        disk: Disk,
        advance: Advance,
        then: ClusterThen | None = None,
    ) -> None:
        self.sources = sources
        self.target = target
        self.options = options
        self.disk = disk
        self.advance = advance
        self.then = then
        self.selection = select(sources, options)
        if then is not None:
            ends = then.ends
            self.selection.chosen[:] = [
                each._replace(then=ends.get(each.copies[0].topic_partition))
                for each in self.selection.chosen
            ]
        if not options.merge_strangers:
            refuse_strangers(sources, self.selection.chosen)
        self.reports: list[Json] = []
        self.lost_something = any(each.is_loss for each in self.selection.left_out)
        self.copies_unread: list[Unread] = []
        self.unread_partitions: list[str] = []
        self._not_loaded: list[str] = []
        self.start = Start(None)
        self.written: dict[str, WrittenFile] = {}
        self.checkpoints = NewCheckpoints()

    def run(self) -> Rebuilt:
        """Return the plan only, or write, verify and publish."""
        if self.options.mode is Mode.BROKER and self.sources[0].broker_pid is not None:
            raise RebuildRefusedError(
                "a broker has the source open, and a copy of its files would be torn",
                "stop it, take a snapshot of the volume, or use --mode salvage",
            )
        refuse_bounds(self.options, self.selection.chosen)
        if self.target is None:
            self._run_partitions(None)
            result = self._rebuilt(None, self._manifest([]), [])
            self._refuse_empty(result)
            return result
        staging = Staging(self.target, self.disk)
        try:
            self._run_partitions(staging.path)
            self._write_root_files(staging)
            sync_tree(staging.path, self.disk, self.options.owner, folders=False)
            self._refuse_empty(self._rebuilt(None, self._manifest([]), []))
            files = verified_files(
                staging.path,
                self.written,
                self.disk,
                self._advance("verified"),
                self.options.jobs,
            )
            manifest = self._manifest(files)
            staging.write_manifest(manifest)
            sync_tree(staging.path, self.disk, self.options.owner, folders=False)
            staging.publish()
        except BaseException:
            staging.discard()
            raise
        return self._rebuilt(staging.target, manifest, staging.removed)

    def _refuse_empty(self, result: Rebuilt) -> None:
        """Refuse a result without records unless it is allowed.

        Raises:
            RebuildFailedError: a broker loads none of the logs.
            EmptyResultError: no record is left for another reason.
        """
        if self.options.allow_empty or any(map(holds_records, self.reports)):
            return
        if not self.reports and self._not_loaded:
            raise RebuildFailedError("; ".join(self._not_loaded))
        start, stop = self.options.start, self.options.stop
        reason = "the result would have no records"
        if start is not None and stop is not None:
            reason = "no record is between --from and --to"
        elif start is not None or stop is not None:
            reason = "no record is " + ("before --to" if start is None else "at or after --from")
        raise EmptyResultError(reason, "to write it anyway, pass --allow-empty", result)

    def _rebuilt(self, target: str | None, manifest: Json, removed: list[str]) -> Rebuilt:
        return Rebuilt(
            target,
            self.reports,
            self.selection.left_out,
            manifest,
            self.lost_something,
            self._unread(),
            self.unread_partitions,
            removed,
            self._made_anew(),
            self.start.why_not,
            self.start.strays,
            self._forgets_topics(),
        )

    def _loss_totals(self) -> LossTotals:
        """Return the sums over what the partitions lack, and the lost partitions."""
        found = [LossTotals.from_json(report["lossTotals"]) for report in self.reports]
        return LossTotals.joined([*found, LossTotals.of(self.selection.lost)])

    def _made_anew(self) -> list[LeftOut]:
        """Return the checkpoints that could not be read."""
        return [each for source in self.sources for each in remade_checkpoints(source)]

    # Partitions

    def _run_partitions(self, log_dir: str | None) -> None:
        """Plan or write every partition, and keep the results in order."""
        chosen = self.selection.chosen
        work = PartitionRebuild(log_dir, self.options, self.disk, KnownFacts(self.sources))
        jobs = self.options.jobs
        if jobs < 2 or len(chosen) < 2:
            for each in chosen:
                self._keep(work.run(each, self.advance, jobs))
            return
        for source in self.sources:
            for root in source.roots:
                source.checkpoints(root).read()  # else each process would, and keep its problems
        sizes = [size_of(each) for each in chosen]
        share = max(sum(sizes) / jobs, 1)

        def run(place: int, note: Callable[[tuple[str, int]], None]) -> PartitionResult:
            advance = SummedProgress(note)
            threads = max(1, min(ceil(sizes[place] / share), jobs))  # an empty log has no share
            result = work.run_apart(chosen[place], advance, threads)
            advance.send()
            return result

        results: dict[int, PartitionResult] = {}
        done = processes.in_any_order(
            run, range(len(chosen)), jobs, sizes, lambda note: self.advance(*note)
        )
        with closing(done):
            results.update(done)
        for place, each in enumerate(chosen):
            result = results.pop(place)
            for log, problems in zip(each.copies, result.problems, strict=True):
                log.problems.take(problems)
            self._keep(result)

    def _keep(self, result: PartitionResult) -> None:
        self.reports += result.reports
        self.lost_something |= result.lost_something
        self.selection.left_out.extend(result.left_out)
        self.copies_unread += result.unread
        self.unread_partitions += result.unread_partitions
        self._not_loaded += result.not_loaded
        self.written |= result.written
        for entries in result.checkpoints:
            self.checkpoints.add(entries)

    def _unread(self) -> list[Unread]:
        found = [*self.copies_unread]
        for source in self.sources:
            found += source.unread()
            found += source.unread_folders()
        return list({each.path: each for each in found}.values())

    def _advance(self, kind: str) -> Callable[[int], None]:
        """Return the progress callback of one kind."""
        return partial(self.advance, kind)

    # The log dir

    def _write_root_files(self, staging: Staging) -> None:
        """Write the checkpoints and meta.properties, but no .kafka_cleanshutdown: a recovery is cheap and safe."""
        names = [META_PROPERTIES] if self.options.meta_properties else []
        if any(each.partition.topic == CLUSTER_METADATA for each in self.selection.chosen):
            names.append(BOOTSTRAP_CHECKPOINT)
        found = log_dir_files(self.sources[0].log_dirs[0], names)
        self.selection.left_out.extend(found.left_out)
        self.copies_unread += found.unread
        files = self.checkpoints.files() | found.files
        for name, data in files.items():
            write_file(os.path.join(staging.path, name), data, self.disk)
        if META_PROPERTIES in files:
            start = planned_start(staging.path)
            why_not = start.why_not and start.why_not.replace(f"{staging.path}/", "")
            self.start = start._replace(why_not=why_not)

    def _forgets_topics(self) -> bool:
        """Return whether the result is a log dir like the source, which lacks the metadata log."""
        return (
            self.options.meta_properties
            and not self.options.topics
            and not self.options.partitions
            and all(each.partition.topic != CLUSTER_METADATA for each in self.selection.chosen)
            and forgets_topics(self.sources[0])
        )

    def _manifest(self, files: list[FileHash]) -> Json:
        now = datetime.datetime.fromtimestamp(SYSTEM_CLOCK.now_ms() // 1000, datetime.UTC)
        return {
            "format": FORMAT,
            "state": COMPLETE,
            "target": self.target,
            "created": now.isoformat().replace("+00:00", "Z"),
            "sources": [root.path for source in self.sources for root in source.roots],
            "options": describe_options(self.options),
            "at": None if self.then is None else self.then.time,
            "partitions": self.reports,
            "losses": [each.to_json() for each in self.selection.lost],
            "lossTotals": self._loss_totals().to_json(),
            "leftOut": [each._asdict() for each in self.selection.left_out],
            "madeAnew": [{"path": each.path, "reason": each.reason} for each in self._made_anew()],
            "noStart": self.start.why_not,
            "strays": list(self.start.strays),
            "forgetsTopics": self._forgets_topics(),
            "unread": [each._asdict() for each in self._unread()],
            "unreadPartitions": self.unread_partitions,
            "files": [each._asdict() for each in files],
        }
