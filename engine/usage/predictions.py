"""What retention and compaction take of a log next, and when, by a broker's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.json_facts import facts_of
from engine.units import MAX_INT64, Timestamp
from engine.usage.aged_log import AgedLog, ListedSegment
from engine.usage.cleaning_rules import (
    DirtyPart,
    dirty_part,
    first_dirty_offset,
    overdue_ms,
    uncleanable_offset,
)
from engine.usage.retention_rules import (
    AgedSegment,
    Condition,
    below_log_start,
    deletable_segments,
    expired,
    oversize,
)
from engine.usage.topic_configs import LogRules
from engine.writing.log_config import LogConfig

LOG_START = "logStart"
RETENTION_BYTES = "retention.bytes"
RETENTION_MS = "retention.ms"


class Departure(NamedTuple):
    """A segment that retention deletes.

    Attributes:
        segment: the segment.
        at: when it goes, at the next check after this time; the time of the prediction for what goes now.
        reason: LOG_START, RETENTION_BYTES or RETENTION_MS.
    """

    segment: ListedSegment
    at: Timestamp
    reason: str

    def facts(self) -> dict[str, Any]:
        """Return the departure for JSON."""
        segment = self.segment
        return {
            **facts_of(
                segment, "base_offset bytes=size allocatedBytes=allocated largest_timestamp"
            ),
            "timestampOf": "file" if segment.is_modification_time else "records",
            "deletedAt": self.at,
            "reason": self.reason,
            "files": list(segment.files),
        }


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a broker deletes of a log that gets no more records.

    Attributes:
        log, rules: the log, and what decides.
        now: time of the prediction.
        departures: the segments that go, in order; those with `at` of `now` go at the next check.
        bytes_until_next: bytes that the log may grow by until retention.bytes takes a segment; None without that bound.
        cleaning: what the cleaner sees; None for a log that is not compacted.
        is_cleaned_next: whether the cleaner takes the log at its next look.
    """

    log: AgedLog
    rules: LogRules
    now: Timestamp
    departures: tuple[Departure, ...]
    bytes_until_next: int | None
    cleaning: DirtyPart | None
    is_cleaned_next: bool

    @property
    def due(self) -> tuple[Departure, ...]:
        """The segments that go at the next check."""
        return tuple(each for each in self.departures if each.at <= self.now)

    @property
    def due_bytes(self) -> int:
        """Allocated bytes of the files that go at the next check."""
        return sum(each.segment.allocated for each in self.due)

    @property
    def later(self) -> tuple[Departure, ...]:
        """The segments that go later."""
        return self.departures[len(self.due) :]

    @property
    def rolls(self) -> bool:
        """Whether a new active segment is made, since all segments go at the next check."""
        return len(self.due) == len(self.log.segments)


def predict(log: AgedLog, rules: LogRules, now: Timestamp) -> Prediction:
    """Return what a broker deletes of a log, which it leads and whose followers have all records.

    Raises:
        OSError: a compacted log cannot be read for its open transactions.
    """
    left = list(log.segments)
    config = rules.config
    departures = [Departure(segment, now, why) for segment, why in _deleted_now(log, config, now)]
    del left[: len(departures)]
    until_next = None
    if config.delete and config.retention_size >= 0 and left:
        size = sum(segment.size for segment in left)
        until_next = max(config.retention_size + left[0].size - size, 0)
    if config.delete and config.retention_ms >= 0:
        departures += _expiring(left, config.retention_ms, now)
    cleaning, is_next = _cleaning(log, config, now) if config.compact else (None, False)
    return Prediction(log, rules, now, tuple(departures), until_next, cleaning, is_next)


def _deleted_now(
    log: AgedLog, config: LogConfig, now: Timestamp
) -> Iterator[tuple[ListedSegment, str]]:
    """Yield what one check deletes: below the log start, then by size, then by age."""
    left = list(log.segments)
    end = log.log_end_offset
    for reason in (LOG_START, RETENTION_BYTES, RETENTION_MS) if config.delete else (LOG_START,):
        condition: Condition[AgedSegment] | None
        if reason == LOG_START:
            condition = below_log_start(log.log_start_offset)
        elif reason == RETENTION_BYTES:
            condition = oversize(sum(each.size for each in left), config.retention_size)
        else:
            condition = expired(now, config.retention_ms)
        if condition is None:
            continue
        going = deletable_segments(left, condition, high_watermark=end, log_end=end)
        yield from ((segment, reason) for segment in going)
        del left[: len(going)]


def _expiring(left: Sequence[ListedSegment], bound: int, now: Timestamp) -> Iterator[Departure]:
    """Yield the segments that go by age later: each once it and those before it are old enough."""
    at = now
    for place, segment in enumerate(left):
        if place == len(left) - 1 and segment.size == 0:
            return
        at = max(at, min(segment.largest_timestamp + bound + 1, MAX_INT64))
        yield Departure(segment, at, RETENTION_MS)


def _cleaning(log: AgedLog, config: LogConfig, now: Timestamp) -> tuple[DirtyPart, bool]:
    """Return what the cleaner sees of a log, and whether it cleans it at its next look."""
    first = first_dirty_offset(log.log_start_offset, log.log_end_offset, log.cleaner_offset).offset
    lag = config.min_compaction_lag_ms
    end = uncleanable_offset(
        log.segments,
        first,
        last_stable=log.view.last_stable_offset,
        young_since=now - lag if lag > 0 else None,
    )
    part = dirty_part(log.segments, first, end)
    delay = 0
    if config.max_compaction_lag_ms < MAX_INT64:
        firsts = log.first_timestamps_from(first)[:-1]
        delay = overdue_ms(firsts, config.max_compaction_lag_ms, now)
    return part, part.is_worth_it(config.min_cleanable_ratio, is_overdue=delay > 0)
