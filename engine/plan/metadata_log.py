"""Check the metadata log after its loading, and the files beside it: see KafkaRaftLog.createLog in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from engine.check.files.topic_id_check import METADATA_TOPIC_ID
from engine.files.file_names import kraft_checkpoint_name
from engine.files.source_files import SourceRoot
from engine.log.folder_listing import KRaftSnapshot
from engine.plan.loading.broker_failure import EXPECTED, Outcome, failure_of, stops
from engine.plan.loading.feature_levels import FeatureLevels
from engine.plan.log_plan import LogPlan
from engine.plan.overlay.overlay_content import OverlayContent
from engine.plan.raft_files import (
    METADATA_VERSION,
    check_quorum_state,
    metadata_changes,
    newest_snapshot_id,
    read_snapshot,
    snapshot_ends,
)
from engine.replay.cluster import ClusterImage, ReadAtStart


class PlannedMetadata(NamedTuple):
    """The metadata log after its loading, and what a node reads from it."""

    plan: LogPlan
    read: ReadAtStart = ReadAtStart()


def as_metadata_log(
    plan: LogPlan, root: SourceRoot, contents: Iterable[OverlayContent]
) -> PlannedMetadata:
    """Return the plan of the metadata log, and its records: a node does not start without it, any failure ends the start.

    Args:
        plan: plan after the loading.
        root: its log dir.
        contents: its records files after the loading, in order.
    """
    if plan.outcome is Outcome.LOG_DIR_OFFLINE:
        java = "KafkaStorageException" if plan.fails_at_once else plan.java
        return PlannedMetadata(plan.failed(stops(java, plan.reason)))
    if plan.outcome is not Outcome.LOADS:
        return PlannedMetadata(plan)
    if plan.topic_id not in (None, METADATA_TOPIC_ID):
        reason = f"{plan.folder} has the topic id {plan.topic_id}, not {METADATA_TOPIC_ID}"
        return PlannedMetadata(plan.failed(stops("InconsistentTopicIdException", reason)))
    try:
        return _with_raft_files(plan, root, contents)
    except EXPECTED as error:
        failure = failure_of(error, ends_start=True)
        if failure.outcome is Outcome.LOG_DIR_OFFLINE:
            failure = stops(failure.java, failure.reason)
        return PlannedMetadata(plan.failed(failure))


def _with_raft_files(
    plan: LogPlan, root: SourceRoot, contents: Iterable[OverlayContent]
) -> PlannedMetadata:
    start = plan.log_start or 0
    ends = snapshot_ends(root, plan.folder)
    newest_end = max(ends, default=-1)
    if start > max(newest_end, 0):
        has = (
            "has no snapshot"
            if newest_end < 0
            else f"its newest snapshot ends at offset {newest_end}"
        )
        reason = f"{plan.folder} starts at offset {start} and {has}"
        raise stops("IllegalStateException", reason)
    newest_id = newest_snapshot_id(root, plan.folder, start)
    if newest_id is not None and _is_past(newest_id, plan):
        name, start = kraft_checkpoint_name(*newest_id), newest_id.end_offset
        plan = replace(plan, log_start=start, log_end=start, log_end_before=start).noted(
            f"its newest snapshot, {name}, is past the end of the log: the records files go, and the log begins at"
            f" offset {start}"
        )
        contents = ()
    newest = None if newest_id is None else read_snapshot(root, plan.folder, newest_id)
    end = 0 if newest is None else newest.id.end_offset
    changes = metadata_changes(contents, max(start, end), plan.log_end or 0)
    check_quorum_state(root, plan.folder)
    if newest is None:
        return PlannedMetadata(plan, ReadAtStart(changes=changes))
    if not newest.is_whole:
        plan = replace(plan, is_at_risk=True).noted(
            f"its newest snapshot, {newest.name}, is not complete: the node takes what is in it for all there is"
        )
    return PlannedMetadata(plan, ReadAtStart(newest.id, newest.changes, changes))


def _is_past(snapshot: KRaftSnapshot, plan: LogPlan) -> bool:
    """Return whether a snapshot is newer than the whole log, which a node then drops before it reads anything."""
    epoch = plan.epochs_after[-1].epoch if plan.epochs_after else 0
    if snapshot.epoch == epoch:
        return snapshot.end_offset > (plan.log_end or 0)
    return snapshot.epoch > epoch


def with_features(
    plan: LogPlan, cluster: ClusterImage | None, known: FeatureLevels | None
) -> LogPlan:
    """Return the plan of the metadata log: a broker that reads a feature level which it does not know, or none, ends.

    Args:
        plan: plan after the loading.
        cluster: what the records of the log add up to; None if that is not known.
        known: levels that the broker knows; None if that is not known.
    """
    if plan.outcome is not Outcome.LOADS or cluster is None or known is None:
        return plan
    features = cluster.table("features").values()
    levels = {each.facts["name"]: each.facts["level"] for each in features}
    has_snapshot = cluster.snapshot is not None and cluster.snapshot.end_offset > 0
    if has_snapshot and plan.is_at_risk and METADATA_VERSION not in levels:
        reason = f"the newest snapshot of {plan.folder} ends before the {METADATA_VERSION}"
        return plan.failed(stops("IllegalStateException", reason))
    failure = known.refusal(levels)
    return plan if failure is None else plan.failed(failure)
