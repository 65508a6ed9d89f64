"""The outcome of a loaded log by its place: stray, a duplicate, or being moved."""

from __future__ import annotations

import os
from dataclasses import replace

from engine.files.file_names import FolderState
from engine.files.source_files import SourceRoot
from engine.plan.loading.broker_failure import stops
from engine.plan.log_dir_plan import LogDirPlan, LogFolder
from engine.plan.log_plan import LogPlan
from engine.plan.placing.assignments import Assignments
from engine.plan.placing.future_logs import FutureLogs, Place
from engine.plan.placing.moved_logs import moved
from engine.units import TopicPartition
from engine.writing.log_folder import log_stray_dir_name


class Placement:
    """Places the logs of a start, one after the other.

    Args:
        assignments: the cluster's assignments.
        futures: future logs of all log dirs.
    """

    def __init__(self, assignments: Assignments, futures: FutureLogs) -> None:
        self._assignments = assignments
        self._futures = futures
        self._seen: dict[tuple[TopicPartition, FolderState], str] = {}

    def placed(
        self, plan: LogPlan, root: SourceRoot, log_dir: LogDirPlan, folder: LogFolder
    ) -> LogPlan:
        """Return the plan of a log that loads, with what the broker does because of its place."""
        if plan.state is FolderState.DELETE:
            return plan.noted("its folder is deleted a minute after the start")
        if plan.state is FolderState.STRAY:
            return plan.noted("it is stray: its folder stays, and no client can read it")
        why = self._assignments.why_stray(folder, plan.topic_id)
        if why is not None:
            if log_dir.is_offline:
                failure = stops(
                    "KafkaStorageException",
                    f"{plan.folder} cannot be set aside as stray, since its log dir is offline",
                )
                return plan.failed(failure)
            return replace(plan, renamed_to=log_stray_dir_name(plan.partition)).noted(why)
        path = os.path.join(log_dir.path, plan.folder)
        other = self._seen.setdefault((plan.partition, plan.state), path)
        if other != path:
            return plan.failed(
                stops("IllegalStateException", f"{plan.partition} is also in {other}")
            )
        future = self._futures.by_place.get(Place(log_dir.path, plan.folder))
        return plan if future is None else moved(plan, root, future)
