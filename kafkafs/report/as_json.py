"""The facts of a report as JSON: every number of the page, by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from engine.check.log_statistics import CodecCounts, TimeCounts
from engine.check.rules.finding import Finding
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
        "madeAt": facts.made_at,
        "version": facts.version,
        "kernel": facts.kernel,
        "chosenPartitionsOnly": facts.is_choice,
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
                "nodeId": each.node,
                "logDirs": each.log_dirs,
                "partitions": each.partitions,
                "size": each.size,
                "records": each.records,
                "findings": dict(each.found),
            }
            for each in facts.brokers
        ],
        "copies": [_copies(each) for each in facts.copies],
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


def _rule(rule: RuleFindings) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "severity": rule.severity,
        "number": rule.number,
        "first": [_finding(each) for each in rule.first],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "partition": finding.partition or None,
        "file": finding.file,
        "position": finding.position,
        "length": finding.length,
        "firstOffset": finding.first_offset,
        "nextOffset": finding.next_offset,
        "sentence": without_quotes(finding.text),
    }


def _start(start: PlannedStart) -> dict[str, Any]:
    if start.skipped:
        return {"skipped": start.skipped}
    return {
        "version": start.version,
        "outcome": start.outcome,
        "reason": without_quotes(start.reason),
        "logs": start.logs,
        "lostRecords": start.lost_records,
        "lostBytes": start.lost_bytes,
        "offsetsGivenAgain": start.given_again,
        "partitionsMadeAnew": start.made_anew,
        "lostOffsets": start.lost_offsets,
        "logDirs": [{"path": each.path, "logs": len(each.folders)} for each in start.log_dirs],
        "changed": [_changed(each) for each in start.changed],
        "lostFolders": list(map(without_quotes, start.lost_folders)),
        "risks": list(map(without_quotes, start.risks)),
    }


def _changed(log: LogPlan) -> dict[str, Any]:
    return {
        "folder": log.folder,
        "logEndBefore": log.log_end_before,
        "logEnd": log.log_end,
        "lostRecords": log.losses.records,
        "lostBytes": log.losses.bytes,
        "damagedBatchesServed": log.kept.damaged_batches,
    }


def _topic(topic: TopicFacts) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "size": topic.size,
        "batches": topic.batches,
        "records": topic.records,
        "skew": topic.skew,
        "withoutKey": topic.without_key,
        "firstTimestamp": _known(topic.first_timestamp),
        "lastTimestamp": _known(topic.last_timestamp),
        "codecs": _codecs(topic.codecs),
        "recordsByTime": _times(topic.times),
        "findings": dict(topic.found),
    }


def _partition(partition: PartitionFacts) -> dict[str, Any]:
    return {
        "partition": partition.name,
        "topic": partition.place.topic,
        "number": partition.place.partition,
        "state": partition.state,
        "live": partition.is_live,
        "logStart": partition.log_start,
        "logEnd": partition.log_end,
        "segments": partition.segments,
        "size": partition.size,
        "batches": partition.batches,
        "records": partition.records,
        "firstTimestamp": _known(partition.first_timestamp),
        "lastTimestamp": _known(partition.last_timestamp),
        "lateBatches": partition.late_batches,
        "withoutKey": partition.without_key,
        "withoutTime": partition.without_time,
        "producers": partition.producers,
        "findings": dict(partition.found),
        "blocks": [
            {
                "segments": each.segments,
                "firstOffset": each.first_offset,
                "nextOffset": each.next_offset,
                "firstTimestamp": _known(each.first_timestamp),
                "lastTimestamp": _known(each.last_timestamp),
                "size": each.size,
                "records": each.records,
                "hasHole": each.has_hole,
            }
            for each in partition.blocks
        ],
        "holes": [
            {
                "file": hole.file,
                "fileSize": hole.file_size,
                "position": hole.position,
                "end": hole.position + hole.length,
                "length": hole.length,
                "firstOffset": hole.first_offset,
                "nextOffset": hole.next_offset,
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
        "copies": [
            {
                "name": each.name,
                "nodeId": each.node,
                "logDir": each.log_dir,
                "logStart": each.facts.log_start,
                "logEnd": each.facts.log_end,
                "lastEpoch": each.last_epoch,
                "records": each.facts.records,
                "size": each.facts.size,
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
        "step": found.width,
        "from": found.axis.first,
        "to": found.axis.end,
        "topicsLeftOut": found.left_out,
        "lossesWithoutTime": found.untimed,
        "topics": [
            {
                "topic": row.topic,
                "cells": [
                    {
                        "start": cell.start,
                        "state": cell.kind,
                        "records": cell.records,
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
        "group": group.name,
        "type": group.kind,
        "state": group.state,
        "members": group.members,
        "lag": group.lag,
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": each.committed,
                "logEnd": each.log_end,
                "lag": each.lag,
            }
            for each in group.lags
        ],
    }


def _transaction(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "firstOffset": found.first_offset,
        "since": found.first_timestamp,
        "producerId": found.producer_id,
        "transactionalId": found.transactional_id,
        "coordinatorState": found.coordinator_state,
        "hangs": found.hangs,
        "reason": found.reason,
    }


def _known(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp
