"""Check the metadata log after its loading: see KafkaRaftLog.createLog in Kafka."""

from __future__ import annotations

from collections.abc import Iterable

from engine.check.files.topic_id_check import METADATA_TOPIC_ID
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.plan.loading.broker_failure import Outcome, stops
from engine.plan.log_plan import LogPlan


def as_metadata_log(plan: LogPlan, names: Iterable[str]) -> LogPlan:
    """Return the plan of the metadata log: a broker does not start without it, so any failure ends the start.

    Args:
        plan: plan after the loading.
        names: names in the log's folder.
    """
    if plan.outcome is Outcome.LOG_DIR_OFFLINE:
        java = "KafkaStorageException" if plan.fails_at_once else plan.java
        return plan.failed(stops(java, plan.reason))
    if plan.outcome is not Outcome.LOADS:
        return plan
    if plan.topic_id not in (None, METADATA_TOPIC_ID):
        reason = f"{plan.folder} has the topic id {plan.topic_id}, not {METADATA_TOPIC_ID}"
        return plan.failed(stops("InconsistentTopicIdException", reason))
    start = plan.log_start or 0
    newest = max(_snapshots(names), default=-1)
    if start > max(newest, 0):
        has = "has no snapshot" if newest < 0 else f"its newest snapshot ends at offset {newest}"
        reason = f"{plan.folder} starts at offset {start} and {has}"
        return plan.failed(stops("IllegalStateException", reason))
    return plan


def _snapshots(names: Iterable[str]) -> Iterable[int]:
    """Yield the end offsets of the complete snapshots."""
    for name in names:
        parsed = parse_file_name(name)
        if (
            parsed is not None
            and parsed.kind is FileKind.KRAFT_CHECKPOINT
            and parsed.state is FileState.LIVE
            and parsed.base_offset is not None
        ):
            yield parsed.base_offset
