"""Size of a micro-batch, and whether to start one, by the connector's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from engine.units import MAX_INT64, Offset, TopicPartition
from kafkafs.spark.streaming.stream_offsets import StreamOffsets


def at_most(limit: int, start: StreamOffsets, end: StreamOffsets) -> dict[TopicPartition, Offset]:
    """Return an end at most about `limit` offsets away, shared among partitions in proportion to their new offsets.

    Every partition with new offsets gets at least one.

    Args:
        limit: offsets of all partitions together.
        start: start of each partition.
        end: log ends; a partition without a start below its end keeps its end.
    """
    sizes = {each: end[each] - start[each] for each in start if start[each] < end.get(each, 0)}
    total = float(sum(sizes.values()))
    found = dict(end)
    for partition, size in sizes.items():
        share = limit * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(end[partition], start[partition] + count, MAX_INT64)
    return found


class TriggerDelay:
    """Delay of micro-batches until there are enough offsets, or enough time has passed.

    Args:
        least: number of offsets that start a micro-batch; None for any.
        longest_ms: milliseconds since the last micro-batch after which any number does.
        now: clock in seconds, as `time.monotonic`.
    """

    def __init__(
        self, least: int | None, longest_ms: int, now: Callable[[], float] = monotonic
    ) -> None:
        self._least = least
        self._longest = longest_ms / 1000
        self._now = now
        self._last: float | None = None

    def must_wait(self, start: StreamOffsets, end: StreamOffsets) -> bool:
        """Return whether it is too early for a micro-batch; the first one never waits."""
        if self._least is None:
            return False
        now = self._now()
        if self._last is not None and now - self._last < self._longest:
            fresh = sum(end[each] - start[each] for each in end)
            if fresh < self._least:
                return True
        self._last = now
        return False
