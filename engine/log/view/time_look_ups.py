"""Look-ups by time in a whole log: find the first segment that is new enough, and the first record in it.

Results are kept for later views of the log while it only gains records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from threading import Lock

from engine.log.view.log_contents import LogContents
from engine.units import NO_TIMESTAMP, FoundTimestamp, Offset, Timestamp, TimestampOffset

_MOST_ANSWERS = 256


class TimeLookUps:
    """Known results and largest timestamps of one view; safe from several threads."""

    __slots__ = ("_answers", "_lock", "_newest")

    def __init__(
        self,
        answers: Mapping[tuple[Timestamp, bool], FoundTimestamp | None] | None = None,
        newest: tuple[list[Timestamp], list[Timestamp]] = ([], []),
    ) -> None:
        self._lock = Lock()
        self._answers = dict(answers or {})
        self._newest = list(newest[0]), list(newest[1])

    def of_later_view(self, segments: int, log_start_offset: Offset) -> TimeLookUps:
        """Return the results that are right for a later view, after records were appended.

        Args:
            segments: number of complete segments of this view.
            log_start_offset: log start of the later view.
        """
        with self._lock:
            answers = {
                question: found
                for question, found in self._answers.items()
                if found is not None and found.offset >= log_start_offset
            }
            all_batches, records = self._newest
            return TimeLookUps(answers, (all_batches[:segments], records[:segments]))

    def find(
        self, view: LogContents, timestamp: Timestamp, *, records_only: bool
    ) -> FoundTimestamp | None:
        """Return the first record of the view at or after a time; with `records_only` no control record."""
        question = timestamp, records_only
        with self._lock:
            if question in self._answers:
                return self._answers[question]
        found = self._find(view, timestamp, records_only)
        with self._lock:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[question] = found
        return found

    def _find(
        self, view: LogContents, timestamp: Timestamp, records_only: bool
    ) -> FoundTimestamp | None:
        start = view.log_start_offset
        place = max(bisect_right(view.base_offsets, start) - 1, 0)
        while place < len(view):
            place = self._first_new_enough(view, place, timestamp, records_only)
            if place == len(view):
                return None
            segment = view.segment_at(place)
            if segment.newest(records_only=records_only).timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, start, records_only=records_only)
                if found is not None:
                    return found
            place += 1
        return None

    def _first_new_enough(
        self, view: LogContents, start: int, timestamp: Timestamp, records_only: bool
    ) -> int:
        """Return the first segment from `start` on that can hold a record this new, by index; their number without one.

        The largest timestamp up to each segment is kept; it only grows.
        """
        with self._lock:
            newest = self._newest[records_only]
            if not newest or newest[-1] < timestamp:
                for place in range(len(newest), len(view)):
                    segment = view.segment_at(place)
                    largest = segment.newest(records_only=records_only).timestamp
                    newest.append(max(largest, newest[-1] if newest else NO_TIMESTAMP))
                    if largest >= timestamp:
                        break
            return max(start, bisect_left(newest, timestamp))


def first_of_newest(view: LogContents) -> FoundTimestamp | None:
    """Return the first record with the largest timestamp of a log; None when no record has a timestamp."""
    first = max(bisect_right(view.base_offsets, view.log_start_offset) - 1, 0)
    best: tuple[Timestamp, int] | None = None
    for place in range(first, len(view)):
        segment = view.segment_at(place)
        largest = segment.max_timestamp
        if place == first and segment.base_offset < view.log_start_offset:
            position = segment.seek(view.log_start_offset).position
            nothing = TimestampOffset(NO_TIMESTAMP, segment.base_offset)
            largest = segment.largest_after((nothing, position))
        if largest.timestamp >= 0 and (best is None or largest.timestamp > best[0]):
            best = largest.timestamp, place
    if best is None:
        return None
    return view.segment_at(best[1]).find_timestamp(best[0], view.log_start_offset)
