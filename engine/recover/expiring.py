"""What goes minutes after the start if nothing is held: segments by retention, offsets and transactional ids by age.

Retention is decided by the rules that a broker of ours and `kafkafs du` have; settings that only a server.properties
states are not known, and Kafka's defaults count for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.recover.coordinators.group_offsets import GroupOffset
from engine.recover.coordinators.transaction_states import TransactionalState
from engine.recover.partitions.copies import FoundCopies
from engine.recover.partitions.survey import readable
from engine.recover.planning import PlannedPartition, RecoveryPlan
from engine.units import Offset, Timestamp, TopicPartition
from engine.usage.aged_log import AgedLog
from engine.usage.predictions import LOG_START, predict
from engine.usage.topic_configs import LogRules, TopicConfigs

EXPIRY_MS = 7 * 24 * 3600 * 1000
"""Kafka's default of offsets.retention.minutes and of transactional.id.expiration.ms."""


class Departing(NamedTuple):
    """The beginning of a log that retention takes at its first check.

    Attributes:
        partition: topic and partition.
        first, next: its offsets.
        bytes, segments: bytes of the records files, and their number.
        reason: the setting that takes the first segment.
    """

    partition: TopicPartition
    first: Offset
    next: Offset
    bytes: int
    segments: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the part for JSON."""
        return {**self._asdict(), "partition": str(self.partition)}


@dataclass(frozen=True)
class Expiring:
    """What goes soon after the start.

    Attributes:
        departing: parts of logs that retention takes.
        groups: number of offsets, by group, that are older than Kafka keeps those of a group without members.
        transactional_ids: those that are not used for longer than Kafka keeps them.
    """

    departing: list[Departing] = field(default_factory=list)
    groups: Counter[str] = field(default_factory=Counter)
    transactional_ids: list[str] = field(default_factory=list)


def expiring(plan: RecoveryPlan) -> Expiring:
    """Return what goes soon after the start of a recovered cluster in which nothing is held."""
    found = plan.cluster.found
    return Expiring(
        sorted(_departing(plan, found), key=lambda each: -each.bytes),
        _old_groups(
            (each for each in plan.offsets if each.group not in plan.emptied_now), plan.now
        ),
        sorted(_old_ids(plan.states, plan.now)),
    )


def _departing(plan: RecoveryPlan, found: FoundCopies) -> Iterator[Departing]:
    configs = TopicConfigs(plan.cluster.metadata.image, None, {})
    rules: dict[str, LogRules] = {}
    for name, planned in plan.partitions.items():
        if not planned.has_log:
            continue
        topic = rules.setdefault(name.topic, configs.of(name.topic))
        if topic.config.delete and max(topic.config.retention_ms, topic.config.retention_size) >= 0:
            log = readable(found.copies[name])[planned.survey.leading].log
            with suppress(KafkaStorageError, OSError):
                yield from _of_log(log, planned, topic, plan.now)
            log.forget()


def _of_log(
    log: PartitionLog, planned: PlannedPartition, rules: LogRules, now: Timestamp
) -> Iterator[Departing]:
    """Yield what goes of a log, whose new segments are those of its leading copy."""
    aged = AgedLog.of(log)
    if aged is None:
        return
    segments = list(aged.segments)
    if planned.appended:
        segments[-1] = segments[-1]._replace(largest_timestamp=now)
    start, end = planned.survey.start, planned.end
    aged = replace(aged, segments=tuple(segments), log_start_offset=start, log_end_offset=end)
    due = predict(aged, rules, now).due
    going = [each for each in due if each.reason != LOG_START]
    if going:
        left = segments[len(due) :]
        yield Departing(
            planned.partition,
            max(going[0].segment.base_offset, start),
            left[0].base_offset if left else end,
            sum(each.segment.size for each in going),
            len(going),
            going[0].reason,
        )


def _old_groups(offsets: Iterable[GroupOffset], now: Timestamp) -> Counter[str]:
    return Counter(each.group for each in offsets if 0 <= each.committed < now - EXPIRY_MS)


def _old_ids(states: Iterable[TransactionalState], now: Timestamp) -> set[str]:
    newest: dict[str, TransactionalState] = {}
    for each in states:
        newest[each.transactional_id] = each
    return {
        name
        for name, each in newest.items()
        if not each.status.is_open and 0 <= each.updated < now - EXPIRY_MS
    }
