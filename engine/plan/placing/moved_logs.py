"""The effect of a start on the logs of a partition that is being moved between log dirs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.files.file_names import FileKind, FolderState, folder_name
from engine.files.source_files import SourceRoot
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.log_dir_plan import LogDirPlan
from engine.plan.log_plan import LogPlan
from engine.plan.lost_records import NOTHING_LOST, Losses, LostOffsets, lost_records
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from engine.plan.placing.future_logs import FutureFate, FutureLog, Place
from engine.writing.log_folder import log_delete_dir_name

_LOG = FileKind.LOG.value


@dataclass(frozen=True, slots=True)
class LogAccess:
    """A further access to a log after its loading, which ends the start if the log dir has failed.

    Attributes:
        log_dir: log dir of the log.
        folder: folder of the log.
        is_last: whether the access follows the loading of all logs; otherwise that of this log.
        own: failure of the log itself; None if it loads.
    """

    log_dir: LogDirPlan
    folder: str
    is_last: bool
    own: BrokerFailure | None = None

    @classmethod
    def of(cls, log_dir: LogDirPlan, plan: LogPlan, own: BrokerFailure | None) -> LogAccess:
        """Return the access to a log that is renamed, or has an open transaction."""
        is_stray = (plan.renamed_to or "").endswith(FolderState.STRAY.value)
        return cls(log_dir, plan.folder, plan.renamed_to is not None and not is_stray, own)

    @property
    def fails(self) -> bool:
        """Whether the log dir may have failed before the access."""
        if self.is_last:  # but before the checkpoints that are read late
            return any(each.outcome is Outcome.LOG_DIR_OFFLINE for each in self.log_dir.failures)
        return any(each.at_once and each is not self.own for each in self.log_dir.failures)

    @property
    def failure(self) -> BrokerFailure:
        """Failure that ends the start."""
        unless = "" if self.is_last else ", unless the broker comes to it first"
        return stops(
            "KafkaStorageException",
            f"{self.folder} cannot be read or renamed, since its log dir is offline{unless}:"
            f" {self.log_dir.reason}",
        )


def moved(plan: LogPlan, root: SourceRoot, future: FutureLog) -> LogPlan:
    """Return the plan of a future log with its fate after all logs are loaded."""
    current = None if future.current is None else os.path.join(*future.current)
    name = folder_name(plan.partition)
    match future.fate:
        case FutureFate.BECOMES_LOG:
            instead = "there is no other" if current is None else f"{current} is deleted"
            note = f"the cluster assigns {name} to this log dir: it becomes the log, {instead}"
            return replace(plan, renamed_to=name).noted(note)
        case FutureFate.STOPS_BROKER:
            failure = stops(
                "KafkaStorageException",
                f"{plan.folder} cannot become {name}, which is in the same log dir: move one of them away",
            )
            return plan.failed(failure)
        case FutureFate.MOVES_ON:
            return plan.noted(
                f"the broker continues the move: the future log replaces {current} when it has caught up"
            )
        case FutureFate.FOLLOWS_NEW:
            return replace(plan, losses=_all_records(plan, root)).noted(
                f"no log dir has {name}: the broker creates an empty log of it, and truncates the future log"
                " to that"
            )
    instead = "" if current is None else f", and {current} is deleted"
    return replace(plan, is_at_risk=True).noted(
        f"if the cluster assigns {name} to this log dir, the future log becomes the log{instead}: only the"
        " metadata log, which is missing here, has the assignment"
    )


def replaced(plan: LogPlan, root: SourceRoot, by: Place, future: LogPlan) -> LogPlan:
    """Return the plan of a current log that a future log replaces; records that only the current log has are lost."""
    kept = []
    if future.log_start is not None and future.log_end is not None:
        kept.append(LostOffsets(future.log_start, future.log_end))
    lost = _all_records(plan, root, kept)
    return replace(
        plan,
        renamed_to=log_delete_dir_name(plan.partition),
        losses=lost if lost.ranges else NOTHING_LOST,
    ).noted(f"{os.path.join(*by)} replaces it: the folder is deleted a minute after the start")


def _all_records(plan: LogPlan, root: SourceRoot, kept: Iterable[LostOffsets] = ()) -> Losses:
    """Return the losses by deleting all records files of a log."""
    gone = [
        FileChange(entry.name, ChangeKind.DELETED)
        for entry in root.list(plan.folder)
        if entry.name.endswith(_LOG)
    ]
    return lost_records(root, plan.folder, gone, plan.log_start or 0, kept)
