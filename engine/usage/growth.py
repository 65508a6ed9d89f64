"""How fast logs grow by the timestamps of their records, and when a disk is full at that rate.

A segment's records are taken as spread evenly between the largest timestamp of the segment before it and its own. A
timestamp after the modification time of its file, as producers with a wrong clock write it, counts as that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.units import Timestamp
from engine.usage.aged_log import AgedLog
from engine.usage.predictions import Prediction
from engine.writing.log_config import DAY_MS

WINDOW_MS = 7 * DAY_MS
_SHORTEST_MS = 60_000
_FAR_MS = 100 * 365 * DAY_MS


class LogGrowth(NamedTuple):
    """Bytes of records files that logs grew by in a period of their records' timestamps.

    Attributes:
        since, until: the period in milliseconds: the last seven days with records, or less.
        sizes: bytes by the name of a log.
    """

    since: Timestamp
    until: Timestamp
    sizes: dict[str, float]

    @property
    def a_day(self) -> float | None:
        """Bytes a day of all logs; None if the period is too short for a rate."""
        rates = [self.a_day_of(name) for name in self.sizes]
        return None if not rates or rates[0] is None else sum(filter(None, rates))

    def a_day_of(self, name: str) -> float | None:
        """Return the bytes a day of one log; None if the period is too short for a rate."""
        length = self.until - self.since
        return None if length < _SHORTEST_MS else self.sizes.get(name, 0.0) * DAY_MS / length


def growth(logs: Sequence[AgedLog]) -> LogGrowth | None:
    """Return how logs grew; None without a timestamp."""
    spans = {log.name: list(_spans(log)) for log in logs}
    known = [span for each in spans.values() for span in each if span[0] >= 0]
    if not known:
        return None
    until = max(end for _, end, _ in known)
    since = max(min(start for start, _, _ in known), until - WINDOW_MS)
    sizes = {name: sum(_share(span, since, until) for span in each) for name, each in spans.items()}
    return LogGrowth(since, until, sizes)


def _spans(log: AgedLog) -> Iterator[tuple[Timestamp, Timestamp, int]]:
    """Yield start, end and bytes of each segment with records."""
    before = log.first_timestamp
    for segment in log.segments:
        if not segment.size:
            continue
        end = min(segment.largest_timestamp, segment.modified)
        start = min(before, end) if before >= 0 else end
        yield start, end, segment.size
        before = max(before, end)


def _share(span: tuple[Timestamp, Timestamp, int], since: Timestamp, until: Timestamp) -> float:
    """Return the bytes of a span that are of a period."""
    start, end, size = span
    if end <= start:
        return float(size) if since <= end else 0.0
    return size * max(min(end, until) - max(start, since), 0) / (end - start)


def full_at(
    free: int, predictions: Sequence[Prediction], found: LogGrowth, *, keeps_all: bool = False
) -> Timestamp | None:
    """Return when a disk is full at a rate of growth; None if not within 100 years.

    What retention takes is taken into account, of the segments that are there and of those to come; what compaction
    takes is not.

    Args:
        free: free bytes of the disk.
        predictions: what retention takes of each log on it.
        found: how the logs grew.
        keeps_all: as if retention took nothing.
    """
    if not predictions:
        return None
    now = predictions[0].now
    # Bytes a millisecond that are added, and bytes that go, by the time at which that changes.
    events: list[tuple[Timestamp, float, int]] = []
    rate = 0.0
    for each in predictions:
        own = (found.a_day_of(each.log.name) or 0.0) / DAY_MS
        rate += own
        if keeps_all:
            continue
        end = _steady_after(each, own)
        if end is not None and own:
            events.append((now + end, -own, 0))
        events += [
            (departure.at, 0.0, departure.segment.allocated) for departure in each.departures
        ]
    used, at = 0.0, now
    for time, change, gone in [*sorted(events), (now + _FAR_MS, 0.0, 0)]:
        if rate > 0 and used + rate * (time - at) >= free:
            return round(at + (free - used) / rate)
        used, at = used + rate * (time - at) - gone, max(time, at)
        rate = max(rate + change, 0.0)
    return None


def _steady_after(prediction: Prediction, rate: float) -> int | None:
    """Return the milliseconds after which retention takes as much of a log as comes in; None if it never does."""
    config = prediction.rules.config
    if not config.delete:
        return None
    bounds = [config.retention_ms] if config.retention_ms >= 0 else []
    if prediction.bytes_until_next is not None and rate > 0:
        bounds.append(round(prediction.bytes_until_next / rate))
    return min(bounds, default=None)
