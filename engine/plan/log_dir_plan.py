"""What a broker would do to a log dir before it loads the logs in it: whose it is, which logs there are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.errors import CorruptCheckpointError, KafkaStorageError
from engine.file_names import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE_FOLDER,
    FolderState,
)
from engine.folder_entries import EntryKind
from engine.plan.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.java_text import parse_int, parse_offsets
from engine.read_failures import failure_text
from engine.source_files import SourceRoot
from engine.units import Offset, TopicPartition

METADATA_TOPIC = "__cluster_metadata"
_MARKED = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-future|-stray)", re.ASCII)
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A log's folder by its name."""

    name: str
    partition: TopicPartition
    state: FolderState


@dataclass(slots=True)
class LogDirPlan:
    """A log dir, without its logs.

    Attributes:
        path: as it was named.
        has_marker: whether the broker before said that it stopped properly.
        clean: whether the plan takes it so.
        outcome, java, reason: what comes of the log dir before any log is loaded.
        folders: the logs in it, by name; none when their names already end it all.
        recovery_points, log_starts: from its checkpoints.
        notes: what else to know, in sentences.
    """

    path: str
    has_marker: bool = False
    clean: bool = False
    outcome: Outcome = Outcome.LOADS
    java: str = ""
    reason: str = ""
    folders: list[LogFolder] = field(default_factory=list)
    recovery_points: dict[TopicPartition, Offset] = field(default_factory=dict)
    log_starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fail(self, failure: BrokerFailure) -> None:
        """Note what ends it, unless something worse was before."""
        order = list(Outcome)
        if order.index(failure.outcome) > order.index(self.outcome):
            self.outcome, self.java, self.reason = failure.outcome, failure.java, failure.reason


def parse_log_folder(name: str) -> LogFolder:
    """Which log a folder holds, as a broker takes its name. Raises BrokerFailure."""
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
        " topic-partition.id-delete, -future or -stray): move it out of the log dir",
    )


def plan_log_dir(
    root: SourceRoot, *, clean: bool | None = None, only: str | None = None
) -> LogDirPlan:
    """What a broker makes of a log dir before it loads logs.

    Args:
        root: the log dir.
        clean: whether the broker before stopped properly; None for what its marker says.
        only: the one folder to look at; None for all.

    Raises:
        OSError: the log dir cannot be listed.
    """
    plan = LogDirPlan(root.path)
    names = {entry.name: entry.kind for entry in root.list()}
    plan.has_marker = names.get(CLEAN_SHUTDOWN) is EntryKind.FILE
    plan.clean = plan.has_marker if clean is None else clean
    plan.recovery_points = _offsets(plan, root, names, RECOVERY_POINT_CHECKPOINT, "0")
    plan.log_starts = _offsets(
        plan, root, names, LOG_START_OFFSET_CHECKPOINT, "the first segment's base offset"
    )
    try:
        plan.folders = _folders(plan, names, only)
    except BrokerFailure as failure:
        plan.fail(failure)
        if plan.has_marker:
            plan.notes.append(
                "the marker of a clean stop is removed before the names are read: the start after this"
                " one recovers every log"
            )
    pid = root.broker_pid()
    if pid is not None:
        holder = f"process {pid}" if pid else "a process"
        plan.notes.append(f"{holder} holds it: this is what a start would do if it was killed now")
    return plan


def _folders(plan: LogDirPlan, names: dict[str, EntryKind], only: str | None) -> list[LogFolder]:
    found = []
    for name in sorted(names):
        if name == REMOTE_INDEX_CACHE_FOLDER or (only is not None and name != only):
            continue
        if names[name] is EntryKind.SYMLINK:
            plan.notes.append(
                f"{name} is a symbolic link: it is not looked at here; a broker follows it if it leads"
                " to a folder"
            )
        elif names[name] is EntryKind.DIRECTORY:
            found.append(parse_log_folder(name))
    return found


def _offsets(
    plan: LogDirPlan, root: SourceRoot, names: dict[str, EntryKind], name: str, instead: str
) -> dict[TopicPartition, Offset]:
    """A checkpoint of the log dir; what is wrong with it goes into the plan."""
    if name not in names:
        return {}
    try:
        return parse_offsets(root.read(name, limit=_LIMIT), root.display(name))
    except BrokerFailure as failure:
        if failure.outcome is Outcome.LOG_DIR_OFFLINE or failure.java == "OutOfMemoryError":
            plan.fail(failure)
        plan.notes.append(f"{name} is not used: {failure.reason}; every log gets {instead}")
        return {}
    except (OSError, KafkaStorageError) as error:
        plan.fail(
            BrokerFailure(Outcome.UNKNOWN, "", f"it cannot be read here: {failure_text(error)}")
        )
        return {}


def check_owners(
    roots: Iterable[SourceRoot],
) -> tuple[MetaPropertiesEnsemble, BrokerFailure | None]:
    """Whose log dirs these are, and why no broker takes them, if so. Several must be of one broker."""
    found = MetaPropertiesEnsemble.load({root.path: root for root in roots})
    try:
        found.verify()
    except CorruptCheckpointError as error:
        return found, stops("RuntimeException", f"meta.properties: {error}")
    for path, reason in found.error_log_dirs.items():
        return found, stops("RuntimeException", f"meta.properties of {path}: {reason}")
    if found.empty_log_dirs and not found.properties:
        path = min(found.empty_log_dirs)
        return found, stops(
            "RuntimeException", f"{os.path.join(path, 'meta.properties')} is not there: format it"
        )
    return found, None
