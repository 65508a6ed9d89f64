"""The one grammar of times and bounds that a person writes in an option.

A time is one that the tree knows (`kafkafs.tree.path_names`), or one of these:

    @1704105000000               milliseconds since 1970
    now  today  yesterday        this moment; the beginning of the day, and of the day before
    -1h  -7d  -1d12h  -90s       that long before now; units w, d, h, m, s, ms
    today-7d  yesterday+8h       a sum

Without a zone a time is in UTC, or in the zone of this machine. A bound is an offset (digits alone) or a time. Names
in the tree are never relative: the same name stays the same file.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.cut.moment import Moment
    from engine.log.view.log_bound import LogBound
    from engine.units import Timestamp

MOMENTS = (
    "a time, orders-0@500 (just before that record), before-delete:orders or after-transaction:ID"
)
"""Examples of moments for help texts and errors."""
FORMS = "2024-01-01, 2024-01-01T10:30:00Z, -1h, today or @1704105000000"
"""Examples of times for help texts and errors."""
_UNITS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_STEP = re.compile(r"([+-]?)([0-9]{1,15})(ms|[smhdw])")
_RELATIVE = re.compile(
    r"(now|today|yesterday)?((?:[+-][0-9]{1,15}(?:ms|[smhdw])(?:[0-9]{1,15}(?:ms|[smhdw]))*)*)"
)
_BEFORE_END = re.compile(r"-[0-9]{1,18}")
_MILLISECONDS = re.compile(r"@[0-9]{1,18}")
_RECORD = re.compile(r"(.+)-([0-9]{1,9})@([0-9]{1,18})")
_DELETED = "before-delete:"
_ENDED = "after-transaction:"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall time


class TimeGrammar(NamedTuple):
    """What a text means as a time.

    Attributes:
        now_ms: the present time.
        is_local: whether a time without a zone is in the zone of this machine, and not in UTC.
    """

    now_ms: Timestamp
    is_local: bool = False

    def time(self, text: str) -> Timestamp | None:
        """Return a time in milliseconds since 1970; None if the text is no time.

        >>> grammar = TimeGrammar(1704105000000)
        >>> [grammar.time(text) for text in ("2024-01-01", "-1h", "today", "@5", "soon")]
        [1704067200000, 1704101400000, 1704067200000, 5, None]
        """
        from kafkafs.tree.path_names import parse_time

        if _MILLISECONDS.fullmatch(text):
            return int(text[1:])
        found = self._relative(text)
        return parse_time(text, self._utc) if found is None else found

    def moment(self, text: str) -> Moment | None:
        """Return a moment: a time, just before a record or a deletion, just after a transaction; None if the text is none.

        >>> grammar = TimeGrammar(0)
        >>> grammar.moment("@5").time, grammar.moment("before-delete:orders").deleted
        (5, 'orders')
        >>> grammar.moment("orders-0@500").record
        (TopicPartition(topic='orders', partition=0), 500)
        """
        from engine.cut.moment import Moment
        from engine.units import TopicPartition

        if text.startswith(_DELETED) and text != _DELETED:
            return Moment(deleted=text.removeprefix(_DELETED))
        if text.startswith(_ENDED) and text != _ENDED:
            return Moment(transaction=text.removeprefix(_ENDED))
        if (record := _RECORD.fullmatch(text)) is not None:
            return Moment(record=(TopicPartition(record[1], int(record[2])), int(record[3])))
        found = self.time(text)
        return None if found is None else Moment(time=found)

    def bound(self, text: str) -> LogBound | None:
        """Return an offset or a time; None if the text is neither.

        >>> TimeGrammar(0).bound("2024"), TimeGrammar(0).bound("@2024")
        (LogBound(offset=2024, timestamp=None, before_end=None), LogBound(offset=None, timestamp=2024, before_end=None))
        """
        from engine.log.view.log_bound import LogBound
        from kafkafs.tree.path_names import parse_offset

        if (offset := parse_offset(text)) is not None:
            return LogBound(offset=offset)
        found = self.time(text)
        return None if found is None else LogBound(timestamp=found)

    def kcats_bounds(self, text: str) -> tuple[LogBound | None, LogBound | None] | None:
        """Return the start and the stop that a value of kcat's `-o` means; None for a text that is none.

        >>> TimeGrammar(0).kcats_bounds("-10")[0].before_end, TimeGrammar(0).kcats_bounds("e@5")[1].timestamp
        (10, 5)
        """
        from engine.log.view.log_bound import LogBound
        from kafkafs.tree.path_names import parse_offset

        if text in ("beginning", "earliest"):
            return LogBound(offset=0), None
        if text in ("end", "latest"):
            return LogBound(before_end=0), None
        if _BEFORE_END.fullmatch(text):
            return LogBound(before_end=int(text[1:])), None
        if text[:2] in ("s@", "e@"):
            found = self.time(f"@{text[2:]}" if text[2:].isdecimal() else text[2:])
            if found is None:
                return None
            bound = LogBound(timestamp=found)
            return (bound, None) if text[0] == "s" else (None, bound)
        found = parse_offset(text)
        return None if found is None else (LogBound(offset=found), None)

    def _relative(self, text: str) -> Timestamp | None:
        match = _RELATIVE.fullmatch(text)
        if match is None or not text:
            return None
        length, sign = 0, 1
        for plus_or_minus, number, unit in _STEP.findall(match[2]):
            sign = {"+": 1, "-": -1, "": sign}[plus_or_minus]
            length += sign * int(number) * _UNITS[unit]
        if match[1] in (None, "now"):
            return self.now_ms + length
        wall = self._wall(self.now_ms)
        days = wall // _UNITS["d"] - (match[1] == "yesterday")
        return self._utc(days * _UNITS["d"] + length)

    def _wall(self, timestamp: Timestamp) -> int:
        """Return what the clock on the wall shows at a time, as milliseconds since 1970 on that clock."""
        if not self.is_local:
            return timestamp
        local = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone().replace(tzinfo=None)
        return (local - _EPOCH) // timedelta(milliseconds=1)

    def _utc(self, wall: int) -> Timestamp:
        """Return the time at which the clock on the wall shows something."""
        if not self.is_local:
            return wall
        try:
            there = (_EPOCH + timedelta(milliseconds=wall)).astimezone(UTC).replace(tzinfo=None)
        except (OverflowError, ValueError, OSError):  # before the year 1, or after 9999
            return wall
        return (there - _EPOCH) // timedelta(milliseconds=1)
