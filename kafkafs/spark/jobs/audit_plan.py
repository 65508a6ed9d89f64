"""Which task of an audit looks at what.

A partition that is small is checked whole by one task, several small ones by the same. A large one is looked at
segment by segment in many tasks, and concluded from that by another. Beside all partitions one more task looks at
what lies in the log dirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.check.cleanup_policies import cleanup_policies
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.units import Offset
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.planning.task_packing import largest_first, packed
from kafkafs.spark.source.planning.volume import Volume

TASK_BYTES = 128 << 20
MOST_TASKS = 10_000
_MOST_BUCKETS = 1000


@dataclass(frozen=True, slots=True)
class Unit:
    """What is looked at in one go.

    Attributes:
        partition: its name in the source; "" for what lies beside the partitions.
        topic: whose it is; "" beside the partitions.
        segments: base offsets of the segments to look at; None to check all of it.
        size: bytes.
        bucket: which task concludes.
        policy: the topic's cleanup.policy where it is known.
    """

    partition: str
    topic: str
    segments: tuple[Offset, ...] | None
    size: int
    bucket: int = 0
    policy: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """An audit before it starts.

    Attributes:
        volume: what is audited.
        topic: a pattern of topics as a whole; None for all.
        tasks: what each looks at, the largest first.
        buckets: how many tasks conclude.
        size: bytes of records to look at.
    """

    volume: Volume
    topic: str | None
    tasks: tuple[tuple[Unit, ...], ...]
    buckets: int
    size: int


def takes(topic: str | None) -> Callable[[PartitionLog], bool]:
    """Which partitions a pattern of topics takes.

    Raises:
        OptionError: it is no pattern.
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
    """Plan the audit of a source; lists folders and sizes, reads no records.

    Args:
        source: the volume, opened.
        volume: how tasks are to open it.
        topic: a pattern of topics as a whole; None for all.
        task_bytes: about how much a task looks at; more where there would be very many tasks.

    Raises:
        OptionError: there is no partition, or none that `topic` takes.
    """
    is_taken = takes(topic)
    sizes = {log.name: _sizes(log) for log in source.partitions().values() if is_taken(log)}
    if not sizes:
        where = ", ".join(volume.paths)
        wanted = "" if topic is None else f" of a topic that matches {topic!r}"
        raise OptionError(f"no folder below {where} is a partition{wanted}")
    total = sum(sum(each.values()) for each in sizes.values())
    share = max(task_bytes, total // MOST_TASKS)
    policy_of = cleanup_policies(source)
    units: list[Unit] = []
    for place, name in enumerate(sorted(sizes, key=lambda name: -sum(sizes[name].values()))):
        whose = source.partitions()[name].topic_partition.topic
        whole = Unit(name, whose, None, 0, place % _MOST_BUCKETS, policy_of(whose))
        units += _units(whole, sizes[name], share)
    # A folder costs something also where it holds nothing.
    by_size = sorted(units, key=lambda unit: -unit.size)
    tasks = [(Unit("", "", None, 0),), *largest_first(packed(by_size, share, share // 100))]
    split = [unit.bucket for unit in units if unit.segments is not None]
    return AuditPlan(volume, topic, tuple(tasks), max(split, default=0) + 1, total)


def _sizes(log: PartitionLog) -> dict[Offset, int]:
    """Bytes of each segment by its base offset; none where that cannot be told: the check says why."""
    try:
        view = log.view()
        places = range(len(view.base_offsets))
        return {view.base_offsets[place]: view.segment_at(place).size for place in places}
    except (OSError, KafkaStorageError):
        return {}


def _units(whole: Unit, sizes: dict[Offset, int], share: int) -> Iterator[Unit]:
    """A partition as one unit, or in parts of about `share` bytes."""
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
