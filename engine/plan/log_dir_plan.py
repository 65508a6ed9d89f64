"""Predict what a broker would do to a log dir before it loads the logs in it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field

from engine.errors import KafkaStorageError
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE_FOLDER,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    FolderState,
)
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.log_dirs_below import is_partition_name
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, offline, stops, unreadable
from engine.plan.loading.java_text import TEXT_LIMIT, parse_int, parse_offsets
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset, TopicPartition

METADATA_LOG = f"{CLUSTER_METADATA}-0"
_MARKED = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-future|-stray)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A log's folder: its name, and the partition and state in the name."""

    name: str
    partition: TopicPartition
    state: FolderState


@dataclass(slots=True)
class LogDirPlan:
    """Outcome of a start for one log dir.

    Attributes:
        path: path of the log dir, as given.
        has_marker: whether it has the marker of a clean stop.
        clean: whether to assume a clean stop.
        outcome, java, reason: worst outcome so far, with class and reason of its exception.
        folders: folders of the logs to load, by name; empty if a name ends the start.
        is_abandoned: whether the log dir goes offline before any log is loaded.
        recovery_points, log_starts, high_watermarks: offsets in its checkpoints.
        is_offline: whether the log dir fails before its logs are loaded, but loads them.
        failures: all failures of the log dir and its logs.
        late: failures of checkpoints that a broker reads once the logs are loaded, by name.
        late_failures: those that take the log dir offline.
        risks: sentences on what a start with the log dir costs besides.
        links: names of partitions' folders that are symbolic links, which a broker follows and the engine does not.
        notes: further sentences.
    """

    path: str
    has_marker: bool = False
    clean: bool = False
    outcome: Outcome = Outcome.LOADS
    java: str = ""
    reason: str = ""
    folders: list[LogFolder] = field(default_factory=list)
    is_abandoned: bool = False
    is_offline: bool = False
    recovery_points: dict[TopicPartition, Offset] = field(default_factory=dict)
    log_starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, Offset] = field(default_factory=dict)
    failures: list[BrokerFailure] = field(default_factory=list)
    late: dict[str, BrokerFailure] = field(default_factory=dict)
    late_failures: list[BrokerFailure] = field(default_factory=list)
    risks: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def abandon(self, failure: BrokerFailure) -> None:
        """Note a failure after which the log dir is not used at all."""
        self.fail(failure)
        self.is_abandoned = True
        self.folders.clear()

    def fail(self, failure: BrokerFailure) -> None:
        """Note a failure; the outcome is that of the worst one."""
        self.failures.append(failure)
        self._weigh(failure)

    def _weigh(self, failure: BrokerFailure) -> None:
        order = list(Outcome)
        if order.index(failure.outcome) > order.index(self.outcome):
            self.outcome, self.java, self.reason = failure.outcome, failure.java, failure.reason

    def keep_metadata_alone(self) -> None:
        """Forget all but the metadata log: a node that is only a controller looks at nothing else."""
        self.folders = [each for each in self.folders if each.name == METADATA_LOG]
        self.failures.clear()
        self.late.clear()
        self.outcome, self.java, self.reason = Outcome.LOADS, "", ""
        self.is_offline = False
        self.notes = ["the node is only a controller: it uses the metadata log alone"]

    def read_late(self, *, serves: bool) -> None:
        """Note what the checkpoints do that a broker reads once the logs are loaded.

        Args:
            serves: whether the broker has a partition in this log dir: then it reads the high watermarks.
        """
        for name, failure in self.late.items():
            if name == REPLICATION_OFFSET_CHECKPOINT and not serves:
                continue
            if failure.outcome is not Outcome.BROKER_STOPS:
                self.late_failures.append(failure)
                self._weigh(failure)
            elif name == REPLICATION_OFFSET_CHECKPOINT:
                self.risks.append(
                    f"{failure.reason}: the broker starts, but fails to serve its partitions"
                )
            else:
                self.risks.append(
                    f"{failure.reason}: the log cleaner ends at once, and no log is compacted"
                )


def has_logs(root: SourceRoot) -> bool:
    """Return whether a log dir has records files of other logs than the metadata log, which only a broker makes."""
    for name, kind in root.list():
        if kind is EntryKind.DIRECTORY and name != METADATA_LOG:
            with suppress(OSError, KafkaStorageError):
                if any(each.name.endswith(FileKind.LOG.value) for each in root.list(name)):
                    return True
    return False


def parse_log_folder(name: str) -> LogFolder:
    """Return the log of a folder, parsed as a broker parses the name. Raises BrokerFailure."""
    state = next((each for each in FolderState if each.value and name.endswith(each.value)), None)
    rest = name
    if state is not None:
        match = _MARKED.fullmatch(name)
        if match is None:
            raise _odd_folder(name)
        rest = name.rpartition(".")[0]
    topic, dash, number = rest.rpartition("-")
    try:
        partition = parse_int(number)
    except ValueError:
        raise _odd_folder(name) from None
    if not topic or not dash:
        raise _odd_folder(name)
    return LogFolder(name, TopicPartition(topic, partition), state or FolderState.LOG)


def _odd_folder(name: str) -> BrokerFailure:
    return stops(
        "KafkaException",
        f"the folder {name!a} is not named like a partition's (topic-partition, or"
        " topic-partition.id-delete, -future or -stray); move it out of the log dir",
    )


def plan_log_dir(
    root: SourceRoot,
    *,
    clean: bool | None = None,
    only: str | None = None,
    has_metadata: bool = True,
) -> LogDirPlan:
    """Return the plan of a log dir before its logs are loaded.

    Args:
        root: the log dir.
        clean: whether to assume a clean stop; None for what the marker states.
        only: the one folder to load; None for all.
        has_metadata: whether the broker loads the metadata log from this log dir.

    Raises:
        OSError: the log dir cannot be listed.
    """
    plan = LogDirPlan(root.path)
    names = {entry.name: entry.kind for entry in root.list()}
    plan.has_marker = _has_marker(plan, root, names.get(CLEAN_SHUTDOWN))
    plan.clean = plan.has_marker if clean is None else clean
    is_first = has_metadata and only is None and names.get(METADATA_LOG) is EntryKind.DIRECTORY
    first = [parse_log_folder(METADATA_LOG)] if is_first else []  # it is loaded before all else
    if plan.is_abandoned:
        plan.folders = first
        return plan
    plan.recovery_points = _offsets(plan, root, names, RECOVERY_POINT_CHECKPOINT, "0")
    plan.log_starts = _offsets(
        plan, root, names, LOG_START_OFFSET_CHECKPOINT, "the first segment's base offset"
    )
    plan.high_watermarks = _late_offsets(plan, root, names, REPLICATION_OFFSET_CHECKPOINT)
    _late_offsets(plan, root, names, CLEANER_OFFSET_CHECKPOINT)
    plan.is_offline = plan.outcome is Outcome.LOG_DIR_OFFLINE
    try:
        plan.folders = _folders(plan, names, only, has_metadata=has_metadata)
    except BrokerFailure as failure:
        plan.fail(failure)
        plan.folders = first
        if plan.has_marker:
            plan.notes.append(
                "the marker of a clean stop is removed before the names are read: the next start"
                " recovers every log"
            )
    pid = root.broker_pid()
    if pid is not None:
        holder = f"process {pid}" if pid else "a process"
        plan.notes.append(f"{holder} uses the log dir: this is the start after it is killed now")
    return plan


def _has_marker(plan: LogDirPlan, root: SourceRoot, kind: EntryKind | None) -> bool:
    """Return whether the log dir has the marker of a clean stop: any entry of that name that can be removed."""
    if kind is EntryKind.SYMLINK:
        plan.notes.append(
            f"{CLEAN_SHUTDOWN} is a symbolic link, which is not followed here: planned as without a marker;"
            " a broker follows the link"
        )
        return False
    if kind is EntryKind.DIRECTORY and root.list(CLEAN_SHUTDOWN):
        plan.abandon(
            offline(
                "DirectoryNotEmptyException",
                f"{root.display(CLEAN_SHUTDOWN)} is a folder that is not empty; remove it",
            )
        )
    return kind is not None


def _folders(
    plan: LogDirPlan, names: dict[str, EntryKind], only: str | None, *, has_metadata: bool
) -> list[LogFolder]:
    found = []
    for name in sorted(names):
        if name in (REMOTE_INDEX_CACHE_FOLDER, CLEAN_SHUTDOWN) or only not in (None, name):
            continue
        if names[name] is EntryKind.SYMLINK:
            if is_partition_name(name):
                plan.links.append(name)
            plan.notes.append(
                f"{name} is a symbolic link, which is not followed here; a broker follows it if it leads"
                " to a folder"
            )
        elif names[name] is EntryKind.DIRECTORY:
            folder = parse_log_folder(name)
            if folder.partition.topic != CLUSTER_METADATA or (
                name == METADATA_LOG and has_metadata
            ):
                found.append(folder)
            else:
                plan.notes.append(f"{name} stays, and no broker reads it")
    return found


def _offsets(
    plan: LogDirPlan, root: SourceRoot, names: dict[str, EntryKind], name: str, instead: str
) -> dict[TopicPartition, Offset]:
    """Return the offsets in a checkpoint of the log dir; note in the plan if it cannot be used."""
    if name not in names:
        return {}
    try:
        with root.open_fresh(name) as file:
            return parse_offsets(file.read_at(0, TEXT_LIMIT), file.path, file.size())
    except BrokerFailure as failure:
        if failure.outcome is not Outcome.BROKER_STOPS or failure.java == "OutOfMemoryError":
            plan.fail(failure)
        plan.notes.append(f"{name} is not used: {failure.reason}; every log gets {instead}")
        return {}
    except (OSError, KafkaStorageError) as error:
        if names[name] is EntryKind.DIRECTORY:
            plan.fail(offline("IOException", f"{root.display(name)} is a folder"))
        else:
            failed = unreadable(error)
            plan.fail(failed)
            plan.notes.append(failed.reason)
        return {}


def _late_offsets(
    plan: LogDirPlan, root: SourceRoot, names: dict[str, EntryKind], name: str
) -> dict[TopicPartition, Offset]:
    """Return the offsets in a checkpoint that a broker reads once the logs are loaded; keep its failure."""
    if names.get(name) in (None, EntryKind.DIRECTORY):  # a folder of that name ends the start
        return {}
    try:
        with root.open_fresh(name) as file:
            return parse_offsets(file.read_at(0, TEXT_LIMIT), file.path, file.size())
    except BrokerFailure as failure:
        plan.late[name] = failure
    except (OSError, KafkaStorageError) as error:
        plan.late[name] = unreadable(error)
    return {}
