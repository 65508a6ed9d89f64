"""Kafka's rules for which segments of a log are deleted: by log start, size and age.

One home for a broker's log and for a prediction. See UnifiedLog.deletableSegments and deleteOldSegments in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, TypeVar

from engine.units import Offset, Timestamp


class AgedSegment(Protocol):
    """What the rules ask of a segment."""

    @property
    def base_offset(self) -> Offset:
        """Offset in its name."""

    @property
    def size(self) -> int:
        """Bytes of its records file."""

    @property
    def largest_timestamp(self) -> Timestamp:
        """Largest timestamp, or the modification time of the records file without one."""


Segment = TypeVar("Segment", bound=AgedSegment)
Condition: TypeAlias = Callable[[Segment, Segment | None], bool]
"""Function that decides whether to delete a segment; its second argument is the next segment."""


def deletable_segments(
    segments: Iterable[Segment],
    condition: Condition[Segment],
    *,
    high_watermark: Offset,
    log_end: Offset,
) -> list[Segment]:
    """Return the oldest segments, up to the first that must stay or fails the condition.

    A segment that reaches the high watermark stays, so that the log start does not pass the high
    watermark; an empty last segment stays too.
    """
    deletable = []
    left = iter(segments)
    segment = next(left, None)
    while segment is not None:
        following = next(left, None)
        end = log_end if following is None else following.base_offset
        if high_watermark < end or not condition(segment, following):
            break
        if following is None and segment.size == 0:
            break
        deletable.append(segment)
        segment = following
    return deletable


def below_log_start(log_start: Offset) -> Condition[AgedSegment]:
    """Return the condition of segments that are wholly below the log start."""

    def is_below(_: AgedSegment, following: AgedSegment | None) -> bool:
        return following is not None and following.base_offset <= log_start

    return is_below


def oversize(log_size: int, bound: int) -> Condition[AgedSegment] | None:
    """Return the condition of segments without which a log is still as large as retention.bytes.

    None if none goes: there is no bound (below 0), or the log is smaller. The condition counts, so it is for one pass.
    """
    excess = log_size - bound
    if bound < 0 or excess < 0:
        return None

    def is_superfluous(segment: AgedSegment, _: AgedSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return is_superfluous


def expired(now: Timestamp, bound: int) -> Condition[AgedSegment] | None:
    """Return the condition of segments that are older than retention.ms; None if there is no bound (below 0)."""
    if bound < 0:
        return None

    def is_expired(segment: AgedSegment, _: AgedSegment | None) -> bool:
        return now - segment.largest_timestamp > bound

    return is_expired
