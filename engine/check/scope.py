"""What a check looks at if not at everything: a part of the partitions, or a sample of the segments."""

from __future__ import annotations

import heapq
import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.check.log_dir_check import size_of
from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog


class Scope(NamedTuple):
    """What is looked at, of what.

    Attributes:
        partitions: names of the partitions.
        alone: names of records files by partition, if they are looked at one by one; None for whole partitions.
        facts: how it was chosen, for JSON.
        looked_at, total: numbers of partitions, or of segments if `alone`.
        bytes, total_bytes: of records files.
    """

    partitions: frozenset[str]
    alone: Mapping[str, Sequence[str]] | None
    facts: Mapping[str, Any]
    looked_at: int
    total: int
    bytes: int
    total_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        noun = "Partitions" if self.alone is None else "Segments"
        return {
            **self.facts,
            f"chosen{noun}": self.looked_at,
            f"all{noun}": self.total,
            "chosenBytes": self.bytes,
            "allBytes": self.total_bytes,
        }


def part_of(logs: Sequence[PartitionLog], number: int, parts: int) -> Scope:
    """Choose the part `number` of `parts`, counted from 1, by the bytes of partitions.

    The largest partition that is left goes to the part with the fewest bytes. A partition is never divided, so that what
    spans its segments is checked. The choice depends on names and sizes alone.
    """
    sizes = sorted((-size_of(log), log.name) for log in logs)
    filled = [(0, each) for each in range(1, parts + 1)]
    chosen: dict[str, int] = {}
    for negative, name in sizes:
        size, part = filled[0]
        heapq.heapreplace(filled, (size - negative, part))
        if part == number:
            chosen[name] = -negative
    return Scope(
        frozenset(chosen),
        None,
        {"part": number, "parts": parts},
        len(chosen),
        len(sizes),
        sum(chosen.values()),
        -sum(size for size, _ in sizes),
    )


def sample_of(logs: Sequence[PartitionLog], share: float, seed: int | None) -> Scope:
    """Choose segments at random until they have a share of the bytes; at least one, if there is any.

    Args:
        logs: the partitions.
        share: percentage of the bytes.
        seed: start of the random numbers; equal seeds choose equally from equal logs. None for a new one.
    """
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    segments = [each for log in logs for each in _segments(log)]
    total = sum(size for _, _, size in segments)
    random.Random(seed).shuffle(segments)
    alone: dict[str, list[str]] = {}
    count = read = 0
    for partition, name, size in segments:
        if read >= total * share / 100 and count:
            break
        alone.setdefault(partition, []).append(name)
        count, read = count + 1, read + size
    for names in alone.values():
        names.sort()
    return Scope(
        frozenset(alone),
        alone,
        {"samplePercent": share, "seed": seed},
        count,
        len(segments),
        read,
        total,
    )


def _segments(log: PartitionLog) -> list[tuple[str, str, int]]:
    """Return partition, file name and bytes of each segment; none of a log that cannot be read, whose problem it is."""
    try:
        view = log.view()
        segments = map(view.segment_at, range(len(view)))
        return [(log.name, each.path.rpartition("/")[2], each.tail_end) for each in segments]
    except (OSError, KafkaStorageError):
        return []
    finally:
        log.forget()
