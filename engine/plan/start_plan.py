"""Predict what a broker would do to log dirs if it started now, log by log; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import KafkaStorageError, SourceError
from engine.files.file_names import FileKind, FileState, FolderState, parse_file_name
from engine.files.read_failures import failure_text
from engine.files.source_files import SourceRoot
from engine.log.partition_choice import ALL_PARTITIONS, NamedPartition, PartitionChoice
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, denied
from engine.plan.loading.broker_loading import LogToLoad
from engine.plan.loading.broker_versions import BrokerVersion, broker_version
from engine.plan.log_dir_owners import Owners, check_owners
from engine.plan.log_dir_plan import METADATA_LOG, LogDirPlan, LogFolder, has_logs, plan_log_dir
from engine.plan.log_plan import LogPlan, plan_log
from engine.plan.metadata_log import PlannedMetadata, as_metadata_log, with_features
from engine.plan.overlay.overlay_content import OverlayBudget
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.placing.assignments import Assignments
from engine.plan.placing.future_logs import FoundLog, FutureLogs, Place
from engine.plan.placing.lost_folders import LostFolder, dirs_of_new_logs, lost_folders, made_anew
from engine.plan.placing.moved_logs import LogAccess, replaced
from engine.plan.placing.placement import Placement
from engine.plan.planned_cluster import PlannedCluster, planned_cluster, with_cluster
from engine.plan.start_sources import StartSources, open_log_dirs
from engine.plan.stated_ends import StatedEnds, sentences
from engine.plan.topic_ids import read_topic_id
from engine.replay.cluster import ClusterImage, ReadAtStart
from engine.rights.broker_user import BrokerUser
from engine.rights.file_rights import FileRights, write_problem
from engine.topics.topic_names import CLUSTER_METADATA
from engine.writing.log_config import LogConfig


class StartPlan:
    """A planned start of a broker; a context manager.

    Args:
        paths: log dirs of one broker, or one partition's folder.
        version: the broker's version.
        clean: whether to assume a clean stop; None for what each log dir's marker states.
        verifies: whether to read the records that the broker does not read at its start.
        choice: the partitions to plan; the outcome for the broker is then that of these alone.
        config: configuration of topics that the metadata log does not have; None for the defaults.
        on_loaded: called after the loading of each log, with the overlay and the folder's path on it.
        clock: the broker's clock.
        broker_user: the broker's user; None for that of one that runs, else the owner of each log dir.

    Attributes:
        log_dirs: plan of each log dir before its logs are loaded.
        on_read: called with the number of bytes of records that were read; None at first.
        sound: paths of the planned logs that load without damage, gaps and losses.

    Raises:
        SourceError: a path cannot be opened, or is neither a log dir nor a partition's folder.
    """

    def __init__(
        self,
        paths: Sequence[str],
        version: BrokerVersion | None = None,
        *,
        clean: bool | None = None,
        verifies: bool = True,
        choice: PartitionChoice = ALL_PARTITIONS,
        config: LogConfig | None = None,
        on_loaded: Callable[[LogPlan, OverlayDisk, str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        broker_user: BrokerUser | None = None,
    ) -> None:
        self.version = version or broker_version()
        self._clock = clock
        self._config = config
        self._verifies = verifies
        self.choice = choice
        self._on_loaded = on_loaded
        self.on_read: Callable[[int], None] | None = None
        self._sources = StartSources([])
        self._budget = OverlayBudget()
        self._owners = Owners("")
        self._stated_ends = StatedEnds()
        self._assignments = Assignments()
        self._done: dict[Place, LogPlan] = {}
        self._metadata_read = ReadAtStart()
        self.lost_folders: tuple[LostFolder, ...] = ()
        self.strays: tuple[str, ...] = ()
        self.sound: set[str] = set()
        try:
            self._sources = open_log_dirs(paths)
            roots, only = self._sources
            self._rights = {root.path: FileRights(root, broker_user) for root in roots}
            self._disk = OverlayDisk(
                {os.path.abspath(root.path): root for root in roots}, self._budget
            )
            if only is None:
                self._owners = check_owners(
                    roots, may_have_zookeeper=self.version.may_have_zookeeper
                )
            self.log_dirs: list[LogDirPlan] = [self._plan_dir(root, clean) for root in roots]
            self.metadata = PlannedCluster() if only is not None else self._plan_metadata()
            if self.metadata.is_controller_only(self._owners.node_id) and not any(
                map(has_logs, roots)
            ):
                for each in self.log_dirs:
                    each.keep_metadata_alone()
            self._assignments = Assignments(
                self.metadata.image,
                self._owners.node_id,
                self._owners.directory_ids,
                self.version.sets_aside_strays,
            )
            self._futures = self._plan_futures()
        except OSError as error:
            self.close()
            raise SourceError(failure_text(error)) from error
        except BaseException:
            self.close()
            raise
        self._placement = Placement(self._assignments, self._futures)
        self._accesses: list[LogAccess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def cluster(self) -> ClusterImage | None:
        """The cluster's metadata; None if the log dirs have no complete metadata log."""
        return self._assignments.cluster

    @property
    def node_id(self) -> int | None:
        """Node id of the broker, as the log dirs state it."""
        return self._owners.node_id

    @property
    def _has_metadata_dir(self) -> bool:
        return self._sources.only is None and not self._owners.has_zookeeper

    @property
    def forgets_topics(self) -> bool:
        """Whether log dirs with logs have no metadata log: a controller that starts there knows no topic."""
        if not self._has_metadata_dir or self._owners.failure is not None:
            return False
        is_there = any(
            each.name == METADATA_LOG for log_dir in self.log_dirs for each in log_dir.folders
        )
        return (self.metadata.is_empty or not is_there) and any(
            each.folders or each.recovery_points or each.high_watermarks for each in self.log_dirs
        )

    @property
    def log_count(self) -> int:
        """Number of logs to load."""
        return sum(len(log_dir.folders) for log_dir in self.log_dirs)

    @property
    def bytes_in_use(self) -> int:
        """Bytes of the changes to the current log."""
        return self._budget.used

    @property
    def starts(self) -> bool:
        """Whether the broker starts with all its log dirs; final when `verdict` is."""
        return self.verdict()[0] is Outcome.LOADS

    @property
    def chosen_count(self) -> int:
        """Number of logs that are planned; fewer than all if only some are chosen."""
        return sum(self._is_chosen(each) for log_dir in self.log_dirs for each in log_dir.folders)

    def _is_chosen(self, folder: LogFolder) -> bool:
        return self.choice.takes(NamedPartition(folder.name, folder.partition))

    def close(self) -> None:
        """Close the sources."""
        self._stated_ends.close()
        self._sources.close()

    def logs(self) -> Iterator[tuple[LogDirPlan, LogPlan]]:
        """Yield the plan of each log, with its log dir; the changes to one log are freed before the next.

        A failure of a log is also noted in its log dir's plan.
        """
        serving: set[str] = set()
        live_logs = {each.path: 0 for each in self.log_dirs}
        for root, log_dir in zip(self._sources.log_dirs, self.log_dirs, strict=True):
            for folder in log_dir.folders:
                if not self._is_chosen(folder):
                    live_logs[log_dir.path] += _is_live(folder)
                    continue
                plan = self._planned(root, log_dir, folder)
                if not plan.is_hurt:
                    self.sound.add(os.path.join(log_dir.path, folder.name))
                failure = None
                if plan.outcome is not Outcome.LOADS:
                    failure = BrokerFailure(plan.outcome, plan.java, plan.reason)
                    log_dir.fail(failure)
                if plan.renamed_to is not None or plan.has_open_transaction:
                    self._accesses.append(LogAccess.of(log_dir, plan, failure))
                if plan.stays_a_log and _is_live(folder):
                    live_logs[log_dir.path] += 1
                    if plan.state is FolderState.LOG or plan.renamed_to is not None:
                        serving.add(log_dir.path)
                        why = self._assignments.why_unserved(folder, plan.topic_id)
                        log_dir.risks += [] if why is None else [why]
                yield log_dir, plan
        for log_dir in self.log_dirs:
            if log_dir.outcome is Outcome.LOG_DIR_OFFLINE:
                del live_logs[log_dir.path]
        self.lost_folders = tuple(made_anew(self.lost_folders, self.log_dirs))
        serving |= dirs_of_new_logs(self.lost_folders, live_logs)
        for log_dir in self.log_dirs if self._sources.only is None else ():
            log_dir.read_late(serves=log_dir.path in serving)

    def _planned(self, root: SourceRoot, log_dir: LogDirPlan, folder: LogFolder) -> LogPlan:
        place = Place(log_dir.path, folder.name)
        done = self._done.pop(place, None)
        if done is not None:
            return done
        replaced_by = self._futures.replaced_by.get(place)
        if replaced_by is not None:
            future = self._find(replaced_by.place)
            self._done[replaced_by.place] = self._planned(*future)
        plan = self._plan(root, log_dir, folder)
        if replaced_by is not None and plan.outcome is Outcome.LOADS:
            return replaced(plan, root, replaced_by.place, self._done[replaced_by.place])
        return plan

    def _find(self, place: Place) -> tuple[SourceRoot, LogDirPlan, LogFolder]:
        at = next(at for at, each in enumerate(self.log_dirs) if each.path == place.log_dir)
        log_dir = self.log_dirs[at]
        folder = next(each for each in log_dir.folders if each.name == place.folder)
        return self._sources.log_dirs[at], log_dir, folder

    @property
    def failures(self) -> list[BrokerFailure]:
        """All failures of the start and of log dirs; final after the last of `logs`.

        A broker ends with the first one.
        """
        found = [] if self._owners.failure is None else [self._owners.failure]
        found += [each for log_dir in self.log_dirs for each in log_dir.failures]
        found += [each for log_dir in self.log_dirs for each in log_dir.late_failures]
        found += [access.failure for access in self._accesses if access.fails]
        return found

    def verdict(self) -> tuple[Outcome, str]:
        """Return the outcome for the broker, and the reason; final after the last of `logs`.

        A broker halts when the log dir of its metadata log is offline, or all are.
        """
        if self._owners.failure is not None:
            return self._owners.failure.outcome, self._owners.failure.reason
        failures = self.failures
        for outcome in (Outcome.BROKER_STOPS, Outcome.UNKNOWN):
            for each in failures:
                if each.outcome is outcome:
                    return outcome, each.reason
        failed = [each for each in self.log_dirs if each.outcome is Outcome.LOG_DIR_OFFLINE]
        if failed and len(failed) == len(self.log_dirs):
            return Outcome.BROKER_STOPS, f"all log dirs are offline: {failed[0].reason}"
        for log_dir in failed if self._has_metadata_dir else ():
            if log_dir.path == self._owners.metadata_dir:
                reason = f"the log dir of the metadata log goes offline: {log_dir.reason}"
                return Outcome.BROKER_STOPS, reason
        return (Outcome.LOG_DIR_OFFLINE, failed[0].reason) if failed else (Outcome.LOADS, "")

    def _plan_dir(self, root: SourceRoot, clean: bool | None) -> LogDirPlan:
        owners = self._owners
        failure = owners.offline.get(root.path)
        if failure is None and self._sources.only is None:
            failure = denied(self._rights[root.path].log_dir(), [])
        if failure is not None:
            plan = LogDirPlan(root.path)
            plan.abandon(failure)
            return plan
        plan = plan_log_dir(
            root,
            clean=clean,
            only=self._sources.only,
            has_metadata=self._sources.only is not None or root.path == owners.metadata_dir,
        )
        if root.path in owners.new_directory_ids:
            plan.notes.append("meta.properties gets a directory.id")
        problem = write_problem(root)
        if problem is not None:
            plan.notes.append(problem.sentence)
        return plan

    def _plan_metadata(self) -> PlannedCluster:
        """Plan the metadata log before the others, which it decides about; return the cluster that it states."""
        for root, log_dir in zip(self._sources.log_dirs, self.log_dirs, strict=True):
            folder = next((each for each in log_dir.folders if each.name == METADATA_LOG), None)
            if folder is None:
                continue
            plan, found = self._plan(root, log_dir, folder), PlannedCluster()
            if plan.outcome is Outcome.LOADS:
                metadata = PlannedMetadata(plan, self._metadata_read)
                found = planned_cluster(root.path, metadata, self._owners.node_id)
                plan = with_cluster(plan, found, self._owners.node_id)
                plan = with_features(plan, found.image, self.version.feature_levels)
            self._done[Place(root.path, folder.name)] = plan
            return found
        return PlannedCluster()

    def _plan_futures(self) -> FutureLogs:
        found = []
        for root, log_dir in zip(self._sources.log_dirs, self.log_dirs, strict=True):
            for folder in log_dir.folders:
                topic_id = self._topic_id(root, folder)
                is_stray = self._assignments.why_stray(folder, topic_id) is not None
                found.append(FoundLog(Place(root.path, folder.name), folder, topic_id, is_stray))
        self.strays = tuple(each.place.folder for each in found if each.is_stray)
        futures = FutureLogs(found, self._assignments)
        if self._owners.failure or any(
            each.outcome is Outcome.BROKER_STOPS for each in self.log_dirs
        ):
            return futures  # no partition is made
        lost = lost_folders(self.log_dirs, self._assignments, found, futures.by_place)
        self.lost_folders = tuple(each for each in lost if self.choice.takes(each.missing))
        return futures

    def _topic_id(self, root: SourceRoot, folder: LogFolder) -> str | None:
        """Return the topic id of a log before its loading; None if it cannot be read."""
        path = _path_of(root, folder)
        try:
            return read_topic_id(self._disk, path)
        except (BrokerFailure, OSError, KafkaStorageError):
            return None
        finally:
            self._disk.forget(path)

    def _plan(
        self,
        root: SourceRoot,
        log_dir: LogDirPlan,
        folder: LogFolder,
    ) -> LogPlan:
        partition, path = folder.partition, _path_of(root, folder)
        is_metadata = partition.topic == CLUSTER_METADATA
        log = LogToLoad(
            root,
            folder.name,
            path,
            partition,
            folder.state,
            # KafkaMetadataLog recovers the whole metadata log at each start.
            log_dir.clean and not is_metadata,
            0 if is_metadata else log_dir.recovery_points.get(partition, 0),
            0 if is_metadata else log_dir.log_starts.get(partition, 0),
            log_dir.is_offline and not is_metadata,
        )
        recovers_from = None if log.clean else log.recovery_point
        rights = self._rights[root.path].log(folder.name, recovers_from)
        failure = denied(rights, log_dir.risks)
        if failure is not None:
            return LogPlan.of(log).failed(failure)
        plan = plan_log(
            self._disk,
            log,
            self.version,
            self._assignments.config_of(partition.topic, self._config),
            self._clock,
            verifies=self._verifies,
            on_read=self.on_read,
        )
        if self._on_loaded is not None:
            self._on_loaded(plan, self._disk, path)
        if is_metadata:
            contents = [
                self._disk.content(os.path.join(path, name))
                for name in self._disk.list(path)
                if _is_records_file(name) and not self._disk.is_dir(os.path.join(path, name))
            ]
            plan, self._metadata_read = as_metadata_log(plan, root, contents)
        self._disk.forget(path)
        if is_metadata:
            return plan
        if plan.outcome is not Outcome.LOADS:
            return plan
        if plan.state is FolderState.LOG:
            plan = self._with_proven_end(plan, log_dir)
        return self._placement.placed(plan, root, log_dir, folder)

    def _with_proven_end(self, plan: LogPlan, log_dir: LogDirPlan) -> LogPlan:
        """Return the plan with the offsets past the last record that were assigned before."""
        only = self._sources.only
        held = plan.log_end_before or 0
        path = log_dir.path if only is None else os.path.join(log_dir.path, only)
        end = self._stated_ends.proven(path, plan.folder, held)
        notes = (*plan.notes, *sentences(end, held))
        return replace(plan, offsets_given_again=end.offset - held, notes=notes)


def _is_records_file(name: str) -> bool:
    """Return whether a broker has a segment in a file of this name; that of `+7.log` is in another file."""
    parsed = parse_file_name(name)
    return parsed is not None and parsed.kind is FileKind.LOG and parsed.state is FileState.LIVE


def _is_live(folder: LogFolder) -> bool:
    """Return whether a broker counts a folder among its logs."""
    return folder.state in (FolderState.LOG, FolderState.FUTURE) and folder.name != METADATA_LOG


def _path_of(root: SourceRoot, folder: LogFolder) -> str:
    return os.path.join(os.path.abspath(root.path), folder.name)
