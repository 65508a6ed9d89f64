"""The check of partitions on Spark's executors: `kafkafs check` and `kafkafs stats`.

An executor checks partitions whole. Of one that is larger than a task, executors check the segments; the conclusions are
drawn here, from what they tell of each batch, without its bytes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from engine.budgets import MiB
from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import (
    CheckOptions,
    Event,
    NotLookedAt,
    PartitionDone,
    SourceCheck,
    fingerprint_of,
)
from engine.check.rules.finding import found
from engine.clock import SystemClock
from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.units import Offset, Timestamp
from engine.verdict.source_evidence import evidence_of
from engine.workers import Workers
from kafkafs.spark.executors import Executors

TASK_BYTES = 128 * MiB
_ROW_FILE_BYTES = 8 << 30
"""Headers of 100 million batches; executors checked the segments, so that losing headers means reading again."""


class _Unit(NamedTuple):
    """A partition, or some of its segments.

    Attributes:
        place: of the partition among all.
        name: its name.
        log: the partition; None where a host does not find it.
        segments: base offsets; None for the whole partition.
        size: bytes of records.
    """

    place: int
    name: str
    log: PartitionLog | None
    segments: tuple[Offset, ...] | None
    size: int


class _StillClock(SystemClock):
    """The time of the check, the same on each host."""

    def __init__(self, now_ms: Timestamp) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> Timestamp:
        return self._now_ms


@dataclass(frozen=True, slots=True)
class _CheckTask:
    """Checks units. Each result has the place of its partition before it; the first one of a unit is whether it has looks at
    segments, and not events.
    """

    check: SourceCheck

    def __call__(self, unit: _Unit) -> Iterator[tuple[int, Any]]:
        yield unit.place, unit.segments is not None
        if unit.log is None:
            yield from ((unit.place, event) for event in self._missing(unit.name))
        elif unit.segments is None:
            with Workers(1) as workers:
                for event in self.check.partition(unit.log, workers):
                    yield unit.place, event
            unit.log.forget()
        else:
            for base in unit.segments:
                yield from ((unit.place, each) for each in self._looks(unit.log, base))

    def _looks(self, log: PartitionLog, base: Offset) -> Iterator[tuple[Offset, Any]]:
        try:
            for look in self.check.segment(log, base):
                yield base, look
        except (OSError, KafkaStorageError):
            return  # the conclusion fails at the same place, and reports it

    def _missing(self, name: str) -> Iterator[Event]:
        """Yield a finding, unless a broker may have deleted the partition."""
        source = self.check.source
        if source.broker_pid is None:
            where = ", ".join(root.path for root in source.roots)
            sentence = (
                f"host {socket.gethostname()} does not find it, where the command runs it is there"
            )
            yield found("file-unreadable", where, sentence, partition=name)


def checked(
    executors: Executors, check: SourceCheck, logs: Sequence[PartitionLog]
) -> Iterator[Event]:
    """Yield the events of a check of some partitions, in their order.

    Args:
        executors: where they are checked.
        check: the check; its choice of partitions is made.
        logs: the partitions.
    """
    policy_of = evidence_of(check.source).policy_of
    topics = {log.topic_partition.topic for log in logs}
    options = CheckOptions(
        clock=_StillClock(check.options.clock.now_ms()),
        second_look_after=check.options.second_look_after,
        policy_of={topic: policy_of(topic) for topic in topics}.get,
        row_file_bytes=_ROW_FILE_BYTES,
        counts=check.options.counts,
        takes_files=check.options.takes_files,
    )
    here = SourceCheck(check.source, options)
    before: dict[int, str] = {}
    left: list[NotLookedAt] = []

    def units() -> Iterator[_Unit]:
        for place, log in enumerate(logs):
            if time.monotonic() >= check.options.ends_at:
                left.append(NotLookedAt(log.name))
                continue
            before[place] = fingerprint_of(log) if check.options.fingerprints else ""
            yield from _units(place, log)

    results = executors.flat_map(_CheckTask(here), units(), lambda unit: unit.size, TASK_BYTES)
    with Workers(1) as workers:
        for place, some in groupby(results, itemgetter(0)):
            log = logs[place]
            payloads = map(itemgetter(1), some)
            has_looks = next(payloads)
            each = (payload for payload in payloads if not isinstance(payload, bool))
            is_whole = False
            for event in here.partition(log, workers, each) if has_looks else each:
                is_whole |= isinstance(event, PartitionSummary)
                yield event
            if is_whole and before[place] and before[place] == fingerprint_of(log):
                yield PartitionDone(log.name, before[place])
            log.forget()
    yield from left


def _units(place: int, log: PartitionLog) -> Iterator[_Unit]:
    """Yield a partition as one unit, or in parts of about TASK_BYTES."""
    sizes = _sizes(log)
    whole = _Unit(place, log.name, log, None, sum(sizes.values()))
    if whole.size <= TASK_BYTES or len(sizes) < 2:
        yield whole
        return
    bases: list[Offset] = []
    size = 0
    for base, more in sizes.items():
        if bases and size + more > TASK_BYTES:
            yield whole._replace(segments=tuple(bases), size=size)
            bases, size = [], 0
        bases.append(base)
        size += more
    yield whole._replace(segments=tuple(bases), size=size)


def _sizes(log: PartitionLog) -> dict[Offset, int]:
    """Return bytes of each segment by base offset; nothing if a folder cannot be read, which the check reports."""
    try:
        view = log.view()
        places = range(len(view.base_offsets))
        return {view.base_offsets[place]: view.segment_at(place).size for place in places}
    except (OSError, KafkaStorageError):
        return {}
