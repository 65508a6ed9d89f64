"""What a broker would do to log dirs if it started on them now: dir by dir, log by log, with nothing changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import KafkaStorageError, SourceError
from engine.files.file_names import FolderState
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, open_source
from engine.log.source_identity import identify, refuse_tiered
from engine.plan.future_logs import FoundLog, FutureLogs, Place
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.loading.broker_versions import BrokerVersion, broker_version
from engine.plan.log_dir_owners import Owners, check_owners
from engine.plan.log_dir_plan import LogDirPlan, LogFolder, parse_log_folder, plan_log_dir
from engine.plan.log_plan import LogPlan, LogToLoad, plan_log
from engine.plan.metadata_log import as_metadata_log
from engine.plan.moved_logs import Touch, moved, replaced
from engine.plan.overlay.overlay_content import OverlayBudget
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.stated_ends import StatedEnds, sentences
from engine.plan.topic_ids import read_topic_id
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import log_stray_dir_name


class StartPlan:
    """A start that is only thought of; a context manager.

    Args:
        paths: the log dirs of one broker, or one partition's folder.
        version: of the broker.
        clean: whether the broker before is to be taken to have stopped properly; None: as each marker says.
        verifies: whether records that the broker does not read at its start are read here.
        config: of topics of which the metadata log says nothing; the defaults without one.
        on_loaded: is told of each log when it is loaded, with the disk that has its files, and its path there.
        clock: tells the broker's time.

    Attributes:
        log_dirs: what becomes of each before its logs are loaded.
        cluster: what the metadata log in them says of the cluster; None when there is none.
        on_read: is told how many bytes of records were read; None at first.

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
        config: LogConfig | None = None,
        on_loaded: Callable[[LogPlan, OverlayDisk, str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.version = version or broker_version()
        self._clock = clock
        self._config = config
        self._verifies = verifies
        self._on_loaded = on_loaded
        self.on_read: Callable[[int], None] | None = None
        self._roots: list[SourceRoot] = []
        self._only: str | None = None
        self._budget = OverlayBudget()
        self._owners = Owners("")
        self._stated_ends = StatedEnds()
        self.cluster: ClusterImage | None = None
        try:
            self._open(paths)
            self._disk = OverlayDisk(
                {os.path.abspath(root.path): root for root in self._roots}, self._budget
            )
            if self._only is None:
                self._owners = check_owners(
                    self._roots, may_have_zookeeper=self.version.may_have_zookeeper
                )
            self.log_dirs: list[LogDirPlan] = [self._plan_dir(root, clean) for root in self._roots]
            if self._only is None:
                self._read_cluster()
            self._futures = self._plan_futures()
        except OSError as error:
            self.close()
            raise SourceError(str(error), hint="name a log dir or a partition's folder") from error
        except BaseException:
            self.close()
            raise
        self._seen: dict[tuple[TopicPartition, FolderState], str] = {}
        self._done: dict[Place, LogPlan] = {}
        self._touches: list[Touch] = []

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
    def node_id(self) -> int | None:
        """The broker's, as the log dirs have it."""
        return self._owners.node_id

    @property
    def log_count(self) -> int:
        """How many logs there are to load."""
        return sum(len(log_dir.folders) for log_dir in self.log_dirs)

    @property
    def bytes_in_use(self) -> int:
        """What the changes to the log that is looked at take."""
        return self._budget.used

    @property
    def starts(self) -> bool:
        """Whether the broker starts with all its log dirs; final as `verdict` is."""
        return self.verdict()[0] is Outcome.LOADS

    def close(self) -> None:
        """Close the sources."""
        self._stated_ends.close()
        for root in self._roots:
            root.close()

    def logs(self) -> Iterator[tuple[LogDirPlan, LogPlan]]:
        """Each log with its log dir, one after the other; what one took is given back before the next.

        What a log does to its log dir, or to the broker, is noted in the log dir's plan.
        """
        for root, log_dir in zip(self._roots, self.log_dirs, strict=True):
            for folder in log_dir.folders:
                plan = self._planned(root, log_dir, folder)
                failure = None
                if plan.outcome is not Outcome.LOADS:
                    failure = BrokerFailure(plan.outcome, plan.java, plan.reason)
                    log_dir.fail(failure)
                if plan.renamed_to is not None or plan.has_open_transaction:
                    self._touches.append(Touch.of(log_dir, plan, failure))
                yield log_dir, plan

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
        return self._roots[at], log_dir, folder

    @property
    def failures(self) -> list[BrokerFailure]:
        """All that ends the start or a log dir; final once `logs` has come to its end.

        A broker ends with the first that it comes to.
        """
        found = [] if self._owners.failure is None else [self._owners.failure]
        found += [each for log_dir in self.log_dirs for each in log_dir.failures]
        found += [touch.failure for touch in self._touches if touch.fails]
        return found

    def verdict(self) -> tuple[Outcome, str]:
        """What becomes of the broker, and why; final once `logs` has come to its end.

        One whose log dirs are all offline halts.
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
        return (Outcome.LOG_DIR_OFFLINE, failed[0].reason) if failed else (Outcome.LOADS, "")

    def _open(self, paths: Sequence[str]) -> None:
        for path in paths:
            refuse_tiered(path)
        if len(paths) == 1 and self._is_partition_folder(paths[0]):
            parent, self._only = os.path.split(os.path.abspath(paths[0]))
            self._roots.append(SourceRoot(parent))
            return
        for path in paths:
            root = SourceRoot(path)
            self._roots.append(root)
            if len(paths) == 1 or root.list():
                self._check_log_dir(path)

    @staticmethod
    def _check_log_dir(path: str) -> None:
        """Raise SourceError where nothing looks like a log dir."""
        found = identify(path, open_files=1, cross_device=False)
        found.root.close()
        if found.fixed is not None:
            raise SourceError(
                f"{path} is one log, and its folder is not named like a partition's",
                hint="a broker looks at folders named like orders-0 in a log dir",
            )

    def _plan_dir(self, root: SourceRoot, clean: bool | None) -> LogDirPlan:
        owners = self._owners
        failure = owners.offline.get(root.path)
        if failure is not None:
            plan = LogDirPlan(root.path)
            plan.abandon(failure)
            return plan
        plan = plan_log_dir(
            root,
            clean=clean,
            only=self._only,
            has_metadata=self._only is not None or root.path == owners.metadata_dir,
        )
        if root.path in owners.new_directory_ids:
            plan.notes.append("meta.properties gets a directory.id")
        return plan

    def _plan_futures(self) -> FutureLogs:
        found = []
        for root, log_dir in zip(self._roots, self.log_dirs, strict=True):
            for folder in log_dir.folders:
                topic_id = self._topic_id(root, folder)
                is_stray = self._why_stray(folder, topic_id) is not None
                found.append(FoundLog(Place(root.path, folder.name), folder, topic_id, is_stray))
        return FutureLogs(
            found,
            self.cluster,
            self._owners.node_id,
            self._owners.directory_ids,
            promotes=self.version.sets_aside_strays,
        )

    def _topic_id(self, root: SourceRoot, folder: LogFolder) -> str | None:
        """The topic id of a log that is not loaded yet; None where that cannot be told."""
        path = _path_of(root, folder)
        try:
            return read_topic_id(self._disk, path)
        except (BrokerFailure, OSError, KafkaStorageError):
            return None
        finally:
            self._disk.forget(path)

    @staticmethod
    def _is_partition_folder(path: str) -> bool:
        try:
            parse_log_folder(os.path.basename(os.path.abspath(path)))
        except BrokerFailure:
            return False
        with SourceRoot(path) as root:
            entries = root.list()
        is_log_dir = any(entry.kind is EntryKind.DIRECTORY for entry in entries)
        return not is_log_dir or any(entry.name.endswith(".log") for entry in entries)

    def _read_cluster(self) -> None:
        """The topics of the cluster, where the metadata log is in one of the log dirs."""
        source: LogSource | None = None
        with suppress(OSError, KafkaStorageError):
            source = open_source([root.path for root in self._roots])
            replay = ClusterReplay(source)
            if replay.exists:
                image = replay.image()
                self.cluster = image if image.missing is None else None
        if source is not None:
            source.close()

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
            # The metadata log is recovered whole in each start, by KafkaMetadataLog.
            log_dir.clean and not is_metadata,
            0 if is_metadata else log_dir.recovery_points.get(partition, 0),
            0 if is_metadata else log_dir.log_starts.get(partition, 0),
            log_dir.is_offline and not is_metadata,
        )
        plan = plan_log(
            self._disk,
            log,
            self.version,
            self._config_of(partition.topic),
            self._clock,
            verifies=self._verifies,
            on_read=self.on_read,
        )
        if self._on_loaded is not None:
            self._on_loaded(plan, self._disk, path)
        self._disk.forget(path)
        if is_metadata:
            return as_metadata_log(plan, (entry.name for entry in root.list(folder.name)))
        if plan.outcome is not Outcome.LOADS:
            return plan
        if plan.state is FolderState.LOG:
            plan = self._with_proven_end(plan, log_dir)
        return self._with_place(plan, log_dir, folder)

    def _with_proven_end(self, plan: LogPlan, log_dir: LogDirPlan) -> LogPlan:
        """The same, with the offsets behind the last record that were given before."""
        held = plan.log_end_before or 0
        path = log_dir.path if self._only is None else os.path.join(log_dir.path, self._only)
        end = self._stated_ends.proven(path, plan.folder, held)
        notes = (*plan.notes, *sentences(end, held))
        return replace(plan, offsets_given_again=end.offset - held, notes=notes)

    def _with_place(self, plan: LogPlan, log_dir: LogDirPlan, folder: LogFolder) -> LogPlan:
        """The same, with what a broker does to a log that is a stranger here, is here twice, or is moved."""
        if plan.state in (FolderState.DELETE, FolderState.STRAY):
            note = (
                "its folder is deleted a minute after the start"
                if plan.state is FolderState.DELETE
                else "it is stray: it stays, and nobody sees it"
            )
            return replace(plan, notes=(*plan.notes, note))
        why = self._why_stray(folder, plan.topic_id)
        if why is not None:
            if log_dir.is_offline:
                failure = stops(
                    "KafkaStorageException",
                    f"{plan.folder} cannot be set aside as stray, since its log dir is offline",
                )
                return plan.failed(failure)
            name = log_stray_dir_name(plan.partition)
            return replace(plan, renamed_to=name, notes=(*plan.notes, why))
        key = plan.partition, plan.state
        other = self._seen.setdefault(key, os.path.join(log_dir.path, plan.folder))
        if other != os.path.join(log_dir.path, plan.folder):
            failure = stops("IllegalStateException", f"{plan.partition} is in {other} too")
            return plan.failed(failure)
        future = self._futures.by_place.get(Place(log_dir.path, plan.folder))
        return plan if future is None else moved(plan, future)

    def _why_stray(self, folder: LogFolder, topic_id: str | None) -> str | None:
        """Why the broker sets a log aside; None when it does not."""
        cluster, node_id = self.cluster, self._owners.node_id
        if cluster is None or node_id is None or not self.version.sets_aside_strays:
            return None
        if folder.state in (FolderState.DELETE, FolderState.STRAY):
            return None
        if folder.partition.topic == CLUSTER_METADATA:
            return None
        if topic_id is None:
            return "it is stray: it has no topic id"
        if cluster.topic_name(topic_id) is None:
            return f"it is stray: the cluster has no topic of the id {topic_id}"
        item = cluster.partitions_of(topic_id).get(folder.partition.partition)
        replicas = [] if item is None else item.facts.get("replicas", [])
        if node_id not in replicas:
            return f"it is stray: its replicas are {replicas}, and this is node {node_id}"
        return None

    def _config_of(self, topic: str) -> LogConfig | None:
        """The configuration of a topic as far as the cluster's metadata has it.

        The metadata log goes by the defaults, however the broker is configured.
        """
        if topic == CLUSTER_METADATA:
            return None
        facts = None if self.cluster is None else self.cluster.topic_facts(topic)
        if not facts or not facts["configs"]:
            return self._config
        try:
            return LogConfig.from_properties(facts["configs"])
        except ValueError:
            return self._config


def _path_of(root: SourceRoot, folder: LogFolder) -> str:
    return os.path.join(os.path.abspath(root.path), folder.name)
