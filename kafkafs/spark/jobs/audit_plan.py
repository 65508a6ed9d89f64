"""Plan of an audit: which task checks what.

One task checks several small partitions whole. A large partition is checked segment by segment in many tasks, and
one more task draws the conclusions. Another task checks the other files of the log dirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.units import Offset
from engine.verdict.missing_folders import MissingFolder
from engine.verdict.source_evidence import evidence_of
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.planning.volume import Volume
from kafkafs.table.splits.task_packing import largest_first, packed

TASK_BYTES = 128 << 20
MOST_TASKS = 10_000
_MOST_BUCKETS = 1000


@dataclass(frozen=True, slots=True)
class Unit:
    """Piece of work of an audit.

    Attributes:
        partition: name in the source; "" for the files beside the partitions.
        topic: topic of the partition; "" beside the partitions.
        segments: base offsets of segments to check; None for the whole partition.
        size: bytes.
        bucket: number of the concluding task.
        policy: cleanup.policy of the topic; None if unknown.
    """

    partition: str
    topic: str
    segments: tuple[Offset, ...] | None
    size: int
    bucket: int = 0
    policy: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Plan of an audit.

    Attributes:
        volume: volume to audit.
        topic: regular expression that must match topics as a whole; None for all.
        tasks: units of each task, the largest task first.
        buckets: number of concluding tasks.
        size: bytes of records to check.
    """

    volume: Volume
    topic: str | None
    tasks: tuple[tuple[Unit, ...], ...]
    buckets: int
    size: int


def takes(topic: str | None) -> Callable[[PartitionLog | MissingFolder], bool]:
    """Return the filter of partitions by topic.

    Raises:
        OptionError: `topic` is not a regular expression.
    """
    if topic is None:
        return lambda log: True
    try:
        pattern = re.compile(topic)
    except re.error as error:
        raise OptionError(f"topic is not a regular expression: {error}: {topic}") from error
    return lambda log: pattern.fullmatch(log.topic_partition.topic) is not None


def plan_audit(
    source: LogSource, volume: Volume, *, topic: str | None = None, task_bytes: int = TASK_BYTES
) -> AuditPlan:
    """Plan the audit of a source; list folders and sizes, but read no records.

    Args:
        source: the opened volume.
        volume: the volume, for tasks to open.
        topic: regular expression that must match topics as a whole; None for all.
        task_bytes: bytes of logs for each task, about; more if there were too many tasks.

    Raises:
        OptionError: there is no partition, or none that `topic` matches.
    """
    is_taken = takes(topic)
    sizes = {log.name: _sizes(log) for log in source.partitions().values() if is_taken(log)}
    if not sizes:
        where = ", ".join(volume.paths)
        wanted = "" if topic is None else f" of a topic that matches {topic!r}"
        raise OptionError(f"no folder below {where} is a partition{wanted}")
    total = sum(sum(each.values()) for each in sizes.values())
    share = max(task_bytes, total // MOST_TASKS)
    policy_of = evidence_of(source).policy_of
    units: list[Unit] = []
    for place, name in enumerate(sorted(sizes, key=lambda name: -sum(sizes[name].values()))):
        whose = source.partitions()[name].topic_partition.topic
        whole = Unit(name, whose, None, 0, place % _MOST_BUCKETS, policy_of(whose))
        units += _units(whole, sizes[name], share)
    # Even an empty folder takes time.
    by_size = sorted(units, key=lambda unit: -unit.size)
    tasks = [(Unit("", "", None, 0),), *largest_first(packed(by_size, share, share // 100))]
    split = [unit.bucket for unit in units if unit.segments is not None]
    return AuditPlan(volume, topic, tuple(tasks), max(split, default=0) + 1, total)


def _sizes(log: PartitionLog) -> dict[Offset, int]:
    """Return bytes of each segment by base offset; nothing if a folder cannot be read, which the check reports."""
    try:
        view = log.view()
        places = range(len(view.base_offsets))
        return {view.base_offsets[place]: view.segment_at(place).size for place in places}
    except (OSError, KafkaStorageError):
        return {}


def _units(whole: Unit, sizes: dict[Offset, int], share: int) -> Iterator[Unit]:
    """Yield a partition as one unit, or in parts of about `share` bytes."""
    total = sum(sizes.values())
    if total <= share or len(sizes) < 2:
        yield replace(whole, size=total)
        return
    bases: list[Offset] = []
    size = 0
    for base, more in sizes.items():
        if bases and size + more > share:
            yield replace(whole, segments=tuple(bases), size=size)
            bases, size = [], 0
        bases.append(base)
        size += more
    yield replace(whole, segments=tuple(bases), size=size)
