"""How much a micro-batch takes, and whether one is worth starting: the connector's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from engine.units import MAX_INT64, Offset, TopicPartition
from kafkafs.spark.streaming.stream_offsets import StreamOffsets


def at_most(limit: int, start: StreamOffsets, end: StreamOffsets) -> dict[TopicPartition, Offset]:
    """An end that is at most about `limit` offsets away, shared out by how much each partition has.

    No partition that has something gets nothing.

    Args:
        limit: offsets, of all partitions together.
        start: of the partitions.
        end: where the logs end; a partition that has no start, or one that is not below, keeps its end.
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
    """Lets micro-batches wait until there is enough for one, or until it has waited long enough.

    Args:
        least: offsets that are worth a micro-batch; None when all are.
        longest_ms: milliseconds since the last one after which any are.
        now: seconds, as `time.monotonic`.
    """

    def __init__(
        self, least: int | None, longest_ms: int, now: Callable[[], float] = monotonic
    ) -> None:
        self._least = least
        self._longest = longest_ms / 1000
        self._now = now
        self._last: float | None = None

    def must_wait(self, start: StreamOffsets, end: StreamOffsets) -> bool:
        """Whether it is too early for a micro-batch; the first one never waits."""
        if self._least is None:
            return False
        now = self._now()
        if self._last is not None and now - self._last < self._longest:
            fresh = sum(end[each] - start[each] for each in end)
            if fresh < self._least:
                return True
        self._last = now
        return False
