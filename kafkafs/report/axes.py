"""Axes: a range of numbers or times, its round marks, and positions on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from engine.check.log_statistics import DAY_MS, HOUR_MS, MINUTE_MS
from engine.units import LAST_TIME
from kafkafs import amounts

WIDTH = 1000
"""Width of a picture's coordinates: its SVG is as wide as the page."""
_TIME_STEPS = (
    *(1, 10, 100, 1000, 2000, 5000, 10_000, 30_000),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14)),
)


class Mark(NamedTuple):
    """A mark of an axis: its place in percent, and its text."""

    percent: str
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A range that a picture shows, from `first` to `end`.

    Attributes:
        is_time: whether the numbers are milliseconds since 1970.
    """

    first: int
    end: int
    is_time: bool = False

    def at(self, number: float) -> float:
        """Return the place of a number in coordinates, inside the picture."""
        place = (number - self.first) * WIDTH / max(self.end - self.first, 1)
        return round(min(max(place, 0), WIDTH), 2)

    def span(self, first: float, end: float, least: float = 1.2) -> tuple[float, float]:
        """Return place and width of a range, at least so wide that it is visible."""
        start = self.at(first)
        width = max(self.at(end) - start, least)
        return round(min(start, WIDTH - width), 2), round(width, 2)

    def marks(self, most: int = 8) -> list[Mark]:
        """Return the round marks."""
        found = self._times(most) if self.is_time else self._numbers(most)
        return [Mark(f"{self.at(at) / WIDTH * 100:.2f}%", text) for at, text in found]

    def _numbers(self, most: int) -> Iterator[tuple[int, str]]:
        step = round_step((self.end - self.first) / most)
        at = -(-self.first // step) * step
        while at <= self.end:
            yield at, amounts.short(at)
            at += step

    def _times(self, most: int) -> Iterator[tuple[int, str]]:
        length = max(self.end - self.first, 1)
        step = next((each for each in _TIME_STEPS if length / each <= most), None)
        if step is None:
            yield from self._months(most)
            return
        at = -(-self.first // step) * step
        while at <= self.end:
            yield at, _time_text(at, step)
            at += step

    def _months(self, most: int) -> Iterator[tuple[int, str]]:
        """Yield beginnings of months or years."""
        if self.end > LAST_TIME:
            return
        first = datetime.fromtimestamp(self.first / 1000, UTC)
        months = max((self.end - self.first) // (30 * DAY_MS), 1)
        step = next(
            each for each in (1, 3, 6, 12, 60, 120, 600, 1200, 12000) if months / each <= most
        )
        number = first.year * 12 + first.month - 1
        number = -(-number // step) * step
        while True:
            year, month = divmod(number, 12)
            if year > 9999:
                return
            day = datetime(max(year, 1), month + 1, 1, tzinfo=UTC)
            at = int((day - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
            if at > self.end:
                return
            if at >= self.first:
                yield at, f"{year:04}" if step >= 12 else f"{day:%Y-%m}"
            number += step


def round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, … that is at least a number.

    >>> [round_step(each) for each in (0, 1, 3, 11, 4000)]
    [1, 1, 5, 20, 5000]
    """
    power = 1
    while True:
        for factor in (1, 2, 5):
            if power * factor >= least:
                return power * factor
        power *= 10


def _time_text(at: int, step: int) -> str:
    """Return a mark: a day at midnight, else the time."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    if at % DAY_MS == 0:
        return f"{moment:%Y-%m-%d}" if step >= DAY_MS else f"{moment:%m-%d}"
    if step < 1000:
        return f"{moment:%H:%M:%S}.{at % 1000:03}"
    return f"{moment:%H:%M:%S}" if step < MINUTE_MS else f"{moment:%H:%M}"


def main_span(times: list[tuple[int, int]], share: float = 0.999) -> tuple[int, int] | None:
    """Return the shortest span of steps with nearly all records; None without records.

    A single wrong timestamp, from 1970 or the far future, would make a picture of all of it empty.

    Args:
        times: (step, records), ascending.
        share: of the records that lie within.
    """
    total = sum(records for _, records in times)
    if not total:
        return None
    first, end = times[0][0], times[-1][0]
    best, held, start = (first, end), 0, 0
    for step, records in times:
        held += records
        while held - times[start][1] >= total * share:
            held -= times[start][1]
            start += 1
        if held >= total * share and step - times[start][0] < best[1] - best[0]:
            best = times[start][0], step
    # Leave nothing out where that would not make the picture much clearer.
    return best if best[1] - best[0] < (end - first) / 2 else (first, end)
