"""The report of a recovery as JSON: what is in it, what is doubtful or lost, and the evidence."""

from __future__ import annotations

from typing import Any, TypeAlias

from engine.recover.aside import aside_path
from engine.recover.coordinators.decisions import Decision
from engine.recover.evidence import OffsetClass
from engine.recover.expiring import Expiring, expiring
from engine.recover.options import RecoverOptions
from engine.recover.planning import PlannedPartition, RecoveryPlan

Json: TypeAlias = dict[str, Any]

MOST_LISTED = 10_000
"""Most entries of a list in a report; the total is stated too."""


def recovery_report(plan: RecoveryPlan, options: RecoverOptions, refusal: str = "") -> Json:
    """Return the report of a planned recovery.

    Args:
        refusal: why it could not be written; "" if it can.
    """
    metadata = plan.cluster.metadata
    partitions = [_partition(each) for each in plan.partitions.values()]
    unread = {
        (each.path, each.reason) for part in plan.partitions.values() for each in part.survey.unread
    }
    sums = totals(partitions)
    return {
        "losesSomething": any(sums[name] for name in ("lost", "doubtful", "withoutCopy", "aside")),
        "sources": [root.path for source in plan.cluster.sources for root in source.roots],
        "metadata": {
            "clusterId": metadata.cluster_id,
            "origin": metadata.origin,
            "epoch": metadata.end[0],
            "end": metadata.end[1],
            "committedEnd": metadata.committed,
            "unknown": list(metadata.unknown),
        },
        "nodes": [
            {"id": node.id, "roles": sorted(node.roles), "logDirs": list(node.log_dirs)}
            for node in plan.cluster.nodes
        ],
        "partitions": partitions,
        "transactions": [_decision(each) for each in plan.decisions[:MOST_LISTED]],
        "transactionCount": len(plan.decisions),
        "leftOpen": [_decision(each) for each in plan.left_open[:MOST_LISTED]],
        "leftOpenCount": len(plan.left_open),
        "movedOffsets": [
            {
                "group": each.group,
                "partition": str(each.partition),
                "from": each.before,
                "to": each.after,
            }
            for each in plan.moved[:MOST_LISTED]
        ],
        "movedOffsetCount": len(plan.moved),
        "formerOffsets": [
            {
                "group": each.group,
                "partition": str(each.partition),
                "offset": each.offset,
                "evidence": each.reason,
            }
            for each in plan.former[:MOST_LISTED]
        ],
        "formerOffsetCount": len(plan.former),
        "emptiedGroups": plan.emptied,
        "nextProducerId": plan.next_producer_id,
        "leftOut": [each._asdict() for each in plan.cluster.found.left_out],
        "unread": [{"path": path, "reason": reason} for path, reason in sorted(unread)],
        "expires": _expires(expiring(plan)),
        "totals": sums,
        "refusal": refusal or None,
        "hold": options.hold,
        "at": None if plan.cluster.then is None else plan.cluster.then.time,
    }


def totals(partitions: list[Json]) -> Json:
    """Return the sums over the reports of partitions."""
    sums = dict.fromkeys((kind.name.lower() for kind in OffsetClass), 0)
    for each in partitions:
        for found in each["classes"]:
            sums[OffsetClass(found["class"]).name.lower()] += found["next"] - found["first"]
    return {
        "partitions": len(partitions),
        "withoutCopy": sum(1 for each in partitions if not each["copies"]),
        "records": sum(each["records"] for each in partitions),
        "aside": sum(tail["records"] for each in partitions for tail in each["aside"]),
        **sums,
    }


def _partition(planned: PlannedPartition) -> Json:
    survey = planned.survey
    return {
        "partition": str(planned.partition),
        "topicId": planned.topic_id,
        "replicas": [place.node for place in planned.places],
        "leaderEpoch": planned.leader_epoch,
        "logStartOffset": survey.start,
        "logEndOffset": planned.end,
        "records": survey.records,
        "appended": planned.end - survey.end,
        "copies": [
            {
                "path": each.path,
                "node": each.node_id,
                "epoch": each.epoch,
                "start": each.start,
                "end": each.end,
                "highWatermark": each.high_watermark,
                "recoveryPoint": each.recovery_point,
                "logStartOffset": each.log_start,
                "isLeading": each.is_leading,
            }
            for each in survey.copies
        ],
        "classes": [each.to_json() for each in planned.classes],
        "aside": [
            {
                "path": survey.copies[each.copy].path,
                "firstOffset": each.first_offset,
                "nextOffset": each.next_offset,
                "epoch": each.epoch,
                "records": each.records,
                "acknowledged": str(acknowledged),
                "file": aside_path(survey, each),
            }
            for each, acknowledged in zip(survey.aside, planned.acknowledged, strict=True)
        ],
        "losses": [each.to_json() for each in survey.missing[:MOST_LISTED]],
        "lossCount": len(survey.missing),
        "notes": survey.notes,
        "noLog": survey.reason or None,
    }


def _expires(found: Expiring) -> Json:
    """Return what goes soon after the start, unless it is held."""
    return {
        "bytes": sum(each.bytes for each in found.departing),
        "partitions": [each.to_json() for each in found.departing[:MOST_LISTED]],
        "partitionCount": len(found.departing),
        "groups": [
            {"group": group, "offsets": count}
            for group, count in sorted(found.groups.items())[:MOST_LISTED]
        ],
        "groupCount": len(found.groups),
        "transactionalIds": found.transactional_ids[:MOST_LISTED],
        "transactionalIdCount": len(found.transactional_ids),
    }


def _decision(decision: Decision) -> Json:
    return {
        "transactionalId": decision.transactional_id,
        "producerId": decision.producer_id,
        "producerEpoch": decision.marker_epoch,
        "end": "COMMIT" if decision.commits else "ABORT",
        "evidence": decision.evidence,
        "proven": decision.is_proven,
        "markers": {str(partition): offset for partition, offset in decision.open.items()},
        "completed": decision.state is not None,
    }
