"""Grammar of the names in the tree: offsets, ranges of offsets, instants and periods.

Pure functions from a name to a value, or to None if the name does not match the grammar; they know no log. Only
ASCII digits count, and a name must match as a whole.

In `offset/`:

    35   00000000000000000035      an offset: up to 20 digits, at most 2^63-1
    A..B   A..   ..B               offsets from A up to, not including, B
    A+COUNT                        COUNT offsets from A
    -COUNT   -COUNT..              the last COUNT offsets of the log

In `time/`, an instant (a link to a record) and a period (a folder) never share a name:

    2024-01-01T10:30:00Z           an instant: seconds, any number of decimals, a zone (UTC without one)
    20240101T103000Z               the same without colons: rsync takes the text before a colon for a host
    1704105000000                  the same in milliseconds since 1970
    2024  2024-01  2024-01-01      a year, a month, a day (also 20240101)
    2024-01-01T10  2024-01-01T10:30   an hour, a minute (also 20240101T10, 20240101T1030)
    A..B   A..   ..B               from A up to, not including, B, each an instant or a period's beginning

A name of digits alone is a year if it has 4 digits, a day if it has 8, and otherwise milliseconds since 1970. So 4
or 8 digits never count as milliseconds (write `001000` for second 1), and 8 digits that are no valid date are no
name. A zone is `Z`, `+02:00`, `+0200` or `+02`; after a date without a time it is `Z` or `+02:00`
(`2024-01-01+02:00`), and after the short form of a day also `+0200`: shorter zones would read as another month or
day.

Options of the commands know more times, such as `-1h` and `today`: `kafkafs.time_grammar`. A name in the tree
means the same at any moment and on any machine.

Records have whole milliseconds, so an instant between two milliseconds is rounded up: "the first record at or
after it" stays the same. A leap second (`23:59:60` in UTC) is the second after it, as in POSIX.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from engine.units import MAX_INT64, Offset, Timestamp

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_MS = (date(1, 1, 1).toordinal() - _EPOCH_DAY) * _DAY
_END_MS = (date(9999, 12, 31).toordinal() + 1 - _EPOCH_DAY) * _DAY


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, not including, `end`. None is the log's own bound on that side.

    If `last` is not None, the range is the last `last` offsets of the log, and both bounds are None.
    """

    start: Offset | None
    end: Offset | None
    last: int | None = None

    def within(self, log_start: Offset, log_end: Offset) -> tuple[Offset, Offset]:
        """Return the range as (start, end) inside [log_start, log_end]; start == end if nothing is left."""
        start, end = self.start, self.end
        if self.last is not None:
            start = log_end - self.last
        start = log_start if start is None else min(max(start, log_start), log_end)
        end = log_end if end is None else min(max(end, log_start), log_end)
        return start, max(start, end)


class Period(NamedTuple):
    """Time from `start_ms` up to, not including, `end_ms`, in milliseconds since 1970. None is unbounded."""

    start_ms: Timestamp | None
    end_ms: Timestamp | None


_OFFSET = re.compile(r"[0-9]{1,20}")
_OFFSETS_COUNTED = re.compile(r"([0-9]{1,20})\+([0-9]{1,20})")
_OFFSETS_LAST = re.compile(r"-([0-9]{1,20})(?:\.\.)?")


def parse_offset(name: str) -> Offset | None:
    """Parse an offset; leading zeros are allowed."""
    return _bounded(name) if _OFFSET.fullmatch(name) else None


def parse_range(name: str) -> OffsetRange | None:
    """Parse a range: A..B, A.., ..B, A+COUNT, -COUNT or -COUNT.. .

    An empty range is valid, a reversed one is not. A+COUNT ends at 2^63-1 at the latest.
    """
    if (match := _OFFSETS_LAST.fullmatch(name)) is not None:
        last = _bounded(match[1])
        return None if last is None else OffsetRange(None, None, last)
    if (match := _OFFSETS_COUNTED.fullmatch(name)) is not None:
        first, count = _bounded(match[1]), _bounded(match[2])
        if first is None or count is None:
            return None
        return OffsetRange(first, min(first + count, MAX_INT64))
    bounds = _two_sides(name)
    if bounds is None:
        return None
    start, end = (parse_offset(side) if side else None for side in bounds)
    if (start is None) != (bounds[0] == "") or (end is None) != (bounds[1] == ""):
        return None
    if start is not None and end is not None and end < start:
        return None
    return OffsetRange(start, end)


_ZONE = r"(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
_DATE_ZONE = r"(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
_SHORT_DATE_ZONE = r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
_YEAR, _MONTH, _DAY_OF_MONTH = r"(?P<year>[0-9]{4})", r"(?P<month>[0-9]{2})", r"(?P<day>[0-9]{2})"
_CLOCK, _SHORT_CLOCK = (
    rf"(?P<hour>[0-9]{{2}})(?:{colon}(?P<minute>[0-9]{{2}}))?" for colon in (":", "")
)
_SECONDS, _SHORT_SECONDS = (
    rf"(?P<hour>[0-9]{{2}}){colon}(?P<minute>[0-9]{{2}}){colon}(?P<second>[0-9]{{2}})"
    r"(?:\.(?P<fraction>[0-9]+))?"
    for colon in (":", "")
)
_INSTANTS = [
    re.compile(rf"{_YEAR}-{_MONTH}-{_DAY_OF_MONTH}[Tt]{_SECONDS}{_ZONE}"),
    re.compile(rf"{_YEAR}{_MONTH}{_DAY_OF_MONTH}[Tt]{_SHORT_SECONDS}{_ZONE}"),
]
_DATES = [
    re.compile(rf"{_YEAR}-{_MONTH}-{_DAY_OF_MONTH}{_DATE_ZONE}"),
    re.compile(rf"{_YEAR}{_MONTH}{_DAY_OF_MONTH}{_SHORT_DATE_ZONE}"),
    re.compile(rf"{_YEAR}-{_MONTH}-{_DAY_OF_MONTH}[Tt]{_CLOCK}{_ZONE}"),
    re.compile(rf"{_YEAR}{_MONTH}{_DAY_OF_MONTH}[Tt]{_SHORT_CLOCK}{_ZONE}"),
    re.compile(rf"{_YEAR}-{_MONTH}{_DATE_ZONE}"),
    re.compile(rf"{_YEAR}{_DATE_ZONE}"),
]


def _as_utc(wall: int) -> Timestamp:
    """Return the time at which a clock in UTC shows something: that itself, in milliseconds since 1970."""
    return wall


def parse_instant(name: str, to_utc: Callable[[int], Timestamp] = _as_utc) -> Timestamp | None:
    """Parse an instant to milliseconds since 1970, rounded up; may be negative.

    Args:
        to_utc: returns the time at which a clock shows something, for a name without a zone.
    """
    if _OFFSET.fullmatch(name):
        return None if len(name) in (4, 8) else _bounded(name)
    for pattern in _INSTANTS:
        if (match := pattern.fullmatch(name)) is not None:
            return _instant(match.groupdict(), to_utc)
    return None


def parse_time(name: str, to_utc: Callable[[int], Timestamp] = _as_utc) -> Timestamp | None:
    """Parse an instant, or a year, month, day, hour or minute, which stands for its beginning.

    Args:
        to_utc: returns the time at which a clock shows something, for a name without a zone.

    >>> parse_time("2024-01-01T10:30:00Z"), parse_time("2024-01-01"), parse_time("yesterday")
    (1704105000000, 1704067200000, None)
    """
    instant = parse_instant(name, to_utc)
    if instant is not None:
        return instant
    period = _calendar_period(name, to_utc)
    return None if period is None else period.start_ms


def parse_period(name: str) -> Period | None:
    """Parse a period: a year, month, day, hour or minute alone, or A..B, A.., ..B.

    An empty period is valid, a reversed one is not.
    """
    sides = _two_sides(name)
    if sides is None:
        return _calendar_period(name)
    start, end = (parse_time(side) if side else None for side in sides)
    if (start is None) != (sides[0] == "") or (end is None) != (sides[1] == ""):
        return None
    if start is not None and end is not None and end < start:
        return None
    return Period(start, end)


PERIOD_NAMES = {4: "-", 7: "-", 10: "T", 13: ":"}
"""The lengths of the names of a year, a month, a day and an hour, with the character before the next two digits."""
DAY_NAME = 10
"""Length of the name of a day."""


def instant_name(ms: Timestamp) -> str | None:
    """Return the instant's canonical name, 2024-01-01T10:30:00Z, with three decimals if they are not zero.

    After the year 9999 the name is the number of milliseconds; before the year 1 it is None. `parse_instant` of the
    name returns `ms` again.
    """
    if ms < _FIRST_MS:
        return None
    if ms >= _END_MS:
        return str(ms)
    day = date.fromordinal(ms // _DAY + _EPOCH_DAY)
    clock = ms % _DAY
    text = (
        f"{day.year:04}-{day.month:02}-{day.day:02}"
        f"T{clock // _HOUR:02}:{clock // _MINUTE % 60:02}:{clock // _SECOND % 60:02}"
    )
    return text + (f".{ms % _SECOND:03}Z" if ms % _SECOND else "Z")


def _bounded(digits: str) -> int | None:
    number = int(digits)
    return number if number <= MAX_INT64 else None


def _two_sides(name: str) -> tuple[str, str] | None:
    """Split a name at the two dots. None without dots, or if both sides are empty."""
    start, dots, end = name.partition("..")
    return (start, end) if dots and (start or end) else None


def _calendar_period(name: str, to_utc: Callable[[int], Timestamp] = _as_utc) -> Period | None:
    for pattern in _DATES:
        if (match := pattern.fullmatch(name)) is not None:
            return _calendar(match.groupdict(), to_utc)
    return None


def _calendar(fields: dict[str, str | None], to_utc: Callable[[int], Timestamp]) -> Period | None:
    zone = fields["zone"]
    days = _days(fields)
    if days is None:
        return None
    first, end = days * _DAY, _next_days(fields) * _DAY
    if fields.get("hour") is not None:
        clock = _clock_ms(fields)
        if clock is None:
            return None
        first += clock
        end = first + (_HOUR if fields["minute"] is None else _MINUTE)
    elif fields.get("day") is not None:
        end = first + _DAY
    start_ms, end_ms = _utc(first, zone, to_utc), _utc(end, zone, to_utc)
    return None if start_ms is None or end_ms is None else Period(start_ms, end_ms)


def _instant(fields: dict[str, str | None], to_utc: Callable[[int], Timestamp]) -> Timestamp | None:
    days, second, clock = _days(fields), int(fields["second"] or 0), _clock_ms(fields)
    if days is None or clock is None or second > 60:
        return None
    minute = _utc(days * _DAY + clock, fields["zone"], to_utc)
    if minute is None:
        return None
    if second == 60 and minute % _DAY != _DAY - _MINUTE:
        return None
    fraction = fields["fraction"] or ""
    ms = int(fraction[:3].ljust(3, "0")) + (fraction[3:].strip("0") != "")
    return minute + second * _SECOND + ms


def _days(fields: dict[str, str | None]) -> int | None:
    """Return the date as days since 1970; a missing month or day is 1."""
    year, month, day = (int(fields.get(name) or 1) for name in ("year", "month", "day"))
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def _next_days(fields: dict[str, str | None]) -> int:
    """Return the first day after the year or month, as days since 1970."""
    year, month = int(fields["year"] or 0), int(fields.get("month") or 12)
    if month == 12:
        return date(year, 12, 31).toordinal() + 1 - _EPOCH_DAY
    return date(year, month + 1, 1).toordinal() - _EPOCH_DAY


def _clock_ms(fields: dict[str, str | None]) -> int | None:
    hour, minute = int(fields["hour"] or 0), int(fields["minute"] or 0)
    return hour * _HOUR + minute * _MINUTE if hour < 24 and minute < 60 else None


def _utc(wall: int, zone: str | None, to_utc: Callable[[int], Timestamp]) -> Timestamp | None:
    """Return the time at which a clock in a zone shows something; None if there is no such zone."""
    if zone is None:
        return to_utc(wall)
    if zone in "Zz":
        return wall
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    ahead = hours * _HOUR + minutes * _MINUTE
    return wall + ahead if zone[0] == "-" else wall - ahead
