"""The facts of a report as JSON: every number of the page, by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from engine.check.log_statistics import CodecCounts, TimeCounts
from engine.check.rules.finding import Finding
from engine.json_facts import facts_of
from engine.plan.log_plan import LogPlan
from engine.replay.transactions import OpenTransaction
from kafkafs.amounts import without_quotes
from kafkafs.report.copies import Copies
from kafkafs.report.facts import GroupFacts, PlannedStart, RuleFindings, SourceFacts
from kafkafs.report.heat_map import HeatMap, heat_map
from kafkafs.report.partition_facts import PartitionFacts, TopicFacts
from kafkafs.report.verdict import verdict


def as_json(facts: SourceFacts) -> dict[str, Any]:
    """Return one JSON object with what a page shows; times are milliseconds, sizes bytes.

    As in the page, text that a message quotes from a damaged file is left out.
    """
    return {
        "paths": list(facts.paths),
        **facts_of(facts, "made_at version kernel chosenPartitionsOnly=is_choice"),
        "verdict": [{"level": each.level, "text": each.text} for each in verdict(facts)],
        "topicCount": len(facts.topics),
        "partitionCount": len(facts.partitions),
        "records": facts.records,
        "size": facts.size,
        **{f"{name}s": facts.found(name) for name in ("error", "warning", "note")},
        "logDirs": [
            {"path": path, "clusterId": cluster, "nodeId": node}
            for path, cluster, node in facts.log_dirs
        ],
        "brokerPid": facts.broker_pid,
        "findings": [_rule(each) for each in facts.rules.values()],
        "losses": [each.to_json() for each in facts.losses],
        "start": _start(facts.start),
        "topics": [_topic(each) for each in facts.topics.values()],
        "partitions": [_partition(each) for each in facts.partitions],
        "recordsByTime": _times(facts.times),
        "topicsByTime": _heat(heat_map(facts)),
        "leaderEpochs": {
            name: [{"epoch": each.epoch, "startOffset": each.start_offset} for each in epochs]
            for name, epochs in facts.epochs.items()
        },
        "brokers": [
            {
                **facts_of(each, "nodeId=node log_dirs partitions size records"),
                "findings": dict(each.found),
            }
            for each in facts.brokers
        ],
        "copies": [_copies(each) for each in facts.copies],
        "recovery": _unquoted(facts.recovery),
        "codecs": _codecs(facts.codecs),
        "controlBatches": facts.control_batches,
        "transactionalBatches": facts.transactional_batches,
        "batchesBySizeBelowPowerOfTwo": _powers(facts.batch_sizes),
        "batchesByRecordsBelowPowerOfTwo": _powers(facts.batch_records),
        "groups": None if facts.groups is None else [_group(each) for each in facts.groups],
        "openTransactions": [_transaction(each) for each in facts.transactions],
        "unread": list(map(without_quotes, facts.unread)),
        "notes": list(map(without_quotes, facts.notes)),
    }


def _unquoted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _unquoted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_unquoted(each) for each in value]
    return without_quotes(value) if isinstance(value, str) else value


def _rule(rule: RuleFindings) -> dict[str, Any]:
    return {
        **facts_of(rule, "rule severity number"),
        "first": [_finding(each) for each in rule.first],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "partition": finding.partition or None,
        **facts_of(finding, "file position length first_offset next_offset"),
        "sentence": without_quotes(finding.text),
    }


def _start(start: PlannedStart) -> dict[str, Any]:
    if start.skipped:
        return {"skipped": start.skipped}
    return {
        "version": start.version,
        "outcome": start.outcome,
        "reason": without_quotes(start.reason),
        **facts_of(
            start,
            "logs lost_records lost_bytes offsetsGivenAgain=given_again "
            "partitionsMadeAnew=made_anew lost_offsets",
        ),
        "logDirs": [{"path": each.path, "logs": len(each.folders)} for each in start.log_dirs],
        "changed": [_changed(each) for each in start.changed],
        "lostFolders": list(map(without_quotes, start.lost_folders)),
        "risks": list(map(without_quotes, start.risks)),
    }


def _changed(log: LogPlan) -> dict[str, Any]:
    return facts_of(
        log,
        "folder log_end_before log_end lostRecords=losses.records "
        "lostBytes=losses.bytes damagedBatchesServed=kept.damaged_batches",
    )


def _topic(topic: TopicFacts) -> dict[str, Any]:
    return {
        **facts_of(topic, "topic=name partitions size batches records skew without_key"),
        "firstTimestamp": _known(topic.first_timestamp),
        "lastTimestamp": _known(topic.last_timestamp),
        "codecs": _codecs(topic.codecs),
        "recordsByTime": _times(topic.times),
        "findings": dict(topic.found),
    }


def _partition(partition: PartitionFacts) -> dict[str, Any]:
    return {
        **facts_of(
            partition,
            "partition=name topic=place.topic number=place.partition state live=is_live "
            "log_start log_end segments size batches records",
        ),
        "firstTimestamp": _known(partition.first_timestamp),
        "lastTimestamp": _known(partition.last_timestamp),
        **facts_of(partition, "late_batches without_key without_time producers"),
        "findings": dict(partition.found),
        "blocks": [
            {
                **facts_of(each, "segments first_offset next_offset"),
                "firstTimestamp": _known(each.first_timestamp),
                "lastTimestamp": _known(each.last_timestamp),
                **facts_of(each, "size records has_hole"),
            }
            for each in partition.blocks
        ],
        "holes": [
            {
                **facts_of(hole, "file file_size position"),
                "end": hole.position + hole.length,
                **facts_of(hole, "length first_offset next_offset"),
                "kinds": list(hole.kinds),
            }
            for file in partition.damaged
            for hole in file.holes
        ],
    }


def _copies(copies: Copies) -> dict[str, Any]:
    return {
        "topic": copies.place.topic,
        "partition": copies.place.partition,
        "reason": copies.reason or None,
        "copies": [
            {
                **facts_of(
                    each,
                    "name nodeId=node log_dir logStart=facts.log_start logEnd=facts.log_end "
                    "last_epoch records=facts.records size=facts.size",
                ),
                "findings": each.facts.found.total(),
                "notCompared": copies.not_compared.get(each.name),
                "differences": [_finding(one) for one in copies.differences.get(each.name, ())],
            }
            for each in copies.copies
        ],
    }


def _times(times: TimeCounts) -> dict[str, Any]:
    counts = sorted(times.counts.items())
    return {
        "step": times.width,
        "counts": [{"start": step * times.width, "records": count} for step, count in counts],
    }


def _heat(found: HeatMap | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **facts_of(
            found,
            "step=width from=axis.first to=axis.end topicsLeftOut=left_out "
            "lossesWithoutTime=untimed",
        ),
        "topics": [
            {
                "topic": row.topic,
                "cells": [
                    {
                        **facts_of(cell, "start state=kind records"),
                        "missingOffsets": sum(each.offsets for each in cell.missing),
                    }
                    for cell in row.cells
                ],
            }
            for row in found.rows
        ],
    }


def _codecs(codecs: dict[str, CodecCounts]) -> dict[str, Any]:
    return {name: asdict(counts) for name, counts in codecs.items()}


def _powers(counts: np.ndarray) -> dict[str, int]:
    return {str(1 << power): int(counts[power]) for power in np.flatnonzero(counts).tolist()}


def _group(group: GroupFacts) -> dict[str, Any]:
    return {
        **facts_of(group, "group=name type=kind state members lag"),
        "partitions": [
            facts_of(each, "topic partition committed log_end lag") for each in group.lags
        ],
    }


def _transaction(found: OpenTransaction) -> dict[str, Any]:
    return facts_of(
        found,
        "topic=partition.topic partition=partition.partition first_offset "
        "since=first_timestamp producer_id transactional_id coordinator_state hangs "
        "reason",
    )


def _known(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp
