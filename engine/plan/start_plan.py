"""What a broker would do to log dirs if it started on them now: dir by dir, log by log, with nothing changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import KafkaStorageError, SourceError
from engine.file_names import FolderState
from engine.folder_entries import EntryKind
from engine.log.log_directory import LogSource, open_source
from engine.log.source_identity import refuse_tiered
from engine.plan.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.broker_versions import BrokerVersion, broker_version
from engine.plan.log_dir_plan import (
    METADATA_TOPIC,
    LogDirPlan,
    LogFolder,
    check_owners,
    parse_log_folder,
    plan_log_dir,
)
from engine.plan.log_plan import LogPlan, LogToLoad, plan_log
from engine.plan.overlay_content import OverlayBudget
from engine.plan.overlay_disk import OverlayDisk
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.source_files import SourceRoot
from engine.storage.log_config import LogConfig
from engine.storage.log_folder_names import log_stray_dir_name
from engine.units import TopicPartition


class StartPlan:
    """A start that is only thought of; a context manager.

    Args:
        paths: the log dirs of one broker, or one partition's folder.
        version: of the broker.
        clean: whether the broker before is to be taken to have stopped properly; None: as each marker says.
        clock: tells the broker's time.

    Attributes:
        log_dirs: what becomes of each before its logs are loaded.
        outcome, java, reason: why no broker starts on these log dirs at all, if so.
        cluster: what the metadata log in them says of the cluster; None when there is none.
        log_count: how many logs there are.

    Raises:
        SourceError: a path cannot be opened, or is no folder.
    """

    def __init__(
        self,
        paths: Sequence[str],
        version: BrokerVersion | None = None,
        *,
        clean: bool | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.version = version or broker_version()
        self._clock = clock
        self._roots: list[SourceRoot] = []
        self._only: str | None = None
        self._budget = OverlayBudget()
        try:
            self._open(paths)
            self.log_dirs: list[LogDirPlan] = [
                plan_log_dir(root, clean=clean, only=self._only) for root in self._roots
            ]
        except OSError as error:
            self.close()
            raise SourceError(str(error), hint="name a log dir or a partition's folder") from error
        self.outcome, self.java, self.reason = Outcome.LOADS, "", ""
        self._node_id: int | None = None
        self.cluster: ClusterImage | None = None
        if self._only is None:
            self._check_owners()
            self._read_cluster()
        self._seen: dict[tuple[TopicPartition, FolderState], str] = {}

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
        for root in self._roots:
            root.close()

    def logs(self) -> Iterator[tuple[LogDirPlan, LogPlan]]:
        """Each log with its log dir, one after the other; what one took is given back before the next.

        What a log does to its log dir, or to the broker, is noted in the log dir's plan.
        """
        for root, log_dir in zip(self._roots, self.log_dirs, strict=True):
            here = os.path.abspath(root.path)
            disk = OverlayDisk({here: root}, self._budget)
            for folder in log_dir.folders:
                path = os.path.join(here, folder.name)
                plan = self._plan(disk, root, log_dir, folder, path)
                disk.forget(path)
                if plan.outcome is not Outcome.LOADS:
                    log_dir.fail(BrokerFailure(plan.outcome, plan.java, plan.reason))
                yield log_dir, plan

    def verdict(self) -> tuple[Outcome, str]:
        """What becomes of the broker, and why; final once `logs` has come to its end.

        One whose log dirs are all offline halts.
        """
        if self.outcome is not Outcome.LOADS:
            return self.outcome, self.reason
        for outcome in (Outcome.BROKER_STOPS, Outcome.UNKNOWN):
            for log_dir in self.log_dirs:
                if log_dir.outcome is outcome:
                    return outcome, log_dir.reason
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
            self._roots.append(SourceRoot(path))

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

    def _check_owners(self) -> None:
        owners, failure = check_owners(self._roots)
        self._node_id = owners.node_id
        if failure is not None:
            self.outcome, self.java, self.reason = failure.outcome, failure.java, failure.reason

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
        disk: OverlayDisk,
        root: SourceRoot,
        log_dir: LogDirPlan,
        folder: LogFolder,
        path: str,
    ) -> LogPlan:
        partition = folder.partition
        is_metadata = partition.topic == METADATA_TOPIC
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
        )
        plan = plan_log(disk, log, self.version, self._config_of(partition.topic), self._clock)
        if is_metadata or plan.outcome is not Outcome.LOADS:
            return plan
        return self._with_place(plan, log_dir)

    def _with_place(self, plan: LogPlan, log_dir: LogDirPlan) -> LogPlan:
        """The same, with what a broker does to a log that is a stranger here, or is here twice."""
        if plan.state in (FolderState.DELETE, FolderState.STRAY):
            note = (
                "its folder is deleted a minute after the start"
                if plan.state is FolderState.DELETE
                else "it is stray: it stays, and nobody sees it"
            )
            return replace(plan, notes=(*plan.notes, note))
        why = self._why_stray(plan)
        if why is not None:
            name = log_stray_dir_name(plan.partition)
            return replace(plan, renamed_to=name, notes=(*plan.notes, why))
        key = plan.partition, plan.state
        other = self._seen.setdefault(key, os.path.join(log_dir.path, plan.folder))
        if other != os.path.join(log_dir.path, plan.folder):
            failure = stops("IllegalStateException", f"{plan.partition} is in {other} too")
            return replace(plan, outcome=failure.outcome, java=failure.java, reason=failure.reason)
        return plan

    def _why_stray(self, plan: LogPlan) -> str | None:
        cluster, node_id = self.cluster, self._node_id
        if cluster is None or node_id is None or not self.version.sets_aside_strays:
            return None
        if plan.topic_id is None:
            return "it is stray: it has no topic id"
        if cluster.topic_name(plan.topic_id) is None:
            return f"it is stray: the cluster has no topic of the id {plan.topic_id}"
        item = cluster.partitions_of(plan.topic_id).get(plan.partition.partition)
        replicas = [] if item is None else item.facts.get("replicas", [])
        if node_id not in replicas:
            return f"it is stray: its replicas are {replicas}, and this is node {node_id}"
        return None

    def _config_of(self, topic: str) -> LogConfig | None:
        """The configuration of a topic as far as the cluster's metadata has it."""
        facts = None if self.cluster is None else self.cluster.topic_facts(topic)
        if not facts or not facts["configs"]:
            return None
        try:
            return LogConfig.from_properties(facts["configs"])
        except ValueError:
            return None
