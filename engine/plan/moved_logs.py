"""What a start does to the logs of a partition that is being moved from one log dir to another."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from engine.files.file_names import FileKind, FolderState, folder_name
from engine.files.source_files import SourceRoot
from engine.plan.future_logs import FutureFate, FutureLog, Place
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.log_dir_plan import LogDirPlan
from engine.plan.log_plan import LogPlan
from engine.plan.lost_records import NOTHING_LOST, LostOffsets, lost_records
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from engine.writing.log_folder import log_delete_dir_name

_LOG = FileKind.LOG.value


@dataclass(frozen=True, slots=True)
class Touch:
    """Something that a broker does to a log besides loading it; in a log dir that has failed, it ends the start.

    Attributes:
        log_dir: of the log.
        folder: of the log.
        is_last: whether it comes when all logs are loaded; else when this one is.
        own: the log's own failure after it; None when the log loads.
    """

    log_dir: LogDirPlan
    folder: str
    is_last: bool
    own: BrokerFailure | None = None

    @classmethod
    def of(cls, log_dir: LogDirPlan, plan: LogPlan, own: BrokerFailure | None) -> Touch:
        """What is done to a log that is renamed, or has an open transaction."""
        is_stray = (plan.renamed_to or "").endswith(FolderState.STRAY.value)
        return cls(log_dir, plan.folder, plan.renamed_to is not None and not is_stray, own)

    @property
    def fails(self) -> bool:
        """Whether its log dir may have failed before: at once for another file, or when all logs were loaded."""
        if self.is_last:
            return self.log_dir.outcome is Outcome.LOG_DIR_OFFLINE
        return any(each.at_once and each is not self.own for each in self.log_dir.failures)

    @property
    def failure(self) -> BrokerFailure:
        """Why the broker does not start."""
        unless = "" if self.is_last else ", unless the broker comes to it first"
        return stops(
            "KafkaStorageException",
            f"{self.folder} cannot be looked at or renamed, since its log dir is offline{unless}:"
            f" {self.log_dir.reason}",
        )


def moved(plan: LogPlan, future: FutureLog) -> LogPlan:
    """A future log's plan with what becomes of it when all logs are loaded."""
    current = None if future.current is None else os.path.join(*future.current)
    name = folder_name(plan.partition)
    match future.fate:
        case FutureFate.BECOMES_LOG:
            instead = "there is no other" if current is None else f"{current} is deleted"
            note = f"the cluster assigns {name} to this log dir: it becomes the log, {instead}"
            return replace(plan, renamed_to=name, notes=(*plan.notes, note))
        case FutureFate.STOPS_BROKER:
            failure = stops(
                "KafkaStorageException",
                f"{plan.folder} cannot become {name}, which is in the same log dir: move one of them away",
            )
            return plan.failed(failure)
        case FutureFate.MOVES_ON:
            note = f"the broker goes on with the move: it takes the place of {current} when it has caught up"
            return replace(plan, notes=(*plan.notes, note))
        case FutureFate.FOLLOWS_NEW:
            note = (
                f"no log dir has {name}: the broker makes an empty log of it, and cuts this one to what that"
                " one holds"
            )
            return replace(plan, is_at_risk=True, notes=(*plan.notes, note))
    instead = "" if current is None else f", and {current} is deleted"
    note = (
        f"if the cluster assigns {name} to this log dir, it becomes the log{instead}: that stands in the"
        f" metadata log, which is not here"
    )
    return replace(plan, is_at_risk=True, notes=(*plan.notes, note))


def replaced(plan: LogPlan, root: SourceRoot, by: Place, future: LogPlan) -> LogPlan:
    """A current log's plan with its end: a future log takes its place. Records that only it has are lost."""
    note = f"{os.path.join(*by)} takes its place: the folder is deleted a minute after the start"
    kept = []
    if future.log_start is not None and future.log_end is not None:
        kept.append(LostOffsets(future.log_start, future.log_end))
    gone = [
        FileChange(entry.name, ChangeKind.DELETED)
        for entry in root.list(plan.folder)
        if entry.name.endswith(_LOG)
    ]
    lost = lost_records(root, plan.folder, gone, plan.log_start or 0, kept)
    return replace(
        plan,
        renamed_to=log_delete_dir_name(plan.partition),
        losses=lost if lost.ranges else NOTHING_LOST,
        notes=(*plan.notes, note),
    )
