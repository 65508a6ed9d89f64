"""Options with times: the one grammar of times and bounds on the command line.

A time is one that the tree knows (`kafkafs.tree.path_names`), or one of these:

    @1704105000000               milliseconds since 1970
    now  today  yesterday        this moment; the beginning of the day, and of the day before
    -1h  -7d  -1d12h  -90s       that long before now; units w, d, h, m, s, ms
    today-7d  yesterday+8h       a sum

Without a zone a time is in UTC, or with --local in the zone of this machine. A bound is an offset (digits alone) or a
time. Names in the tree are never relative: the same name stays the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs.cli.arguments import Command

if TYPE_CHECKING:
    from engine.log.log_bound import LogBound, LogRange
    from engine.units import Timestamp

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
_MILLISECONDS = re.compile(r"@[0-9]{1,18}")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall time
_IS_LOCAL = "kafkafs.cli.is_local"
_NOW = "kafkafs.cli.now"


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

    def bound(self, text: str) -> LogBound | None:
        """Return an offset or a time; None if the text is neither.

        >>> TimeGrammar(0).bound("2024"), TimeGrammar(0).bound("@2024")
        (LogBound(offset=2024, timestamp=None), LogBound(offset=None, timestamp=2024))
        """
        from engine.log.log_bound import LogBound
        from kafkafs.tree.path_names import parse_offset

        if (offset := parse_offset(text)) is not None:
            return LogBound(offset=offset)
        found = self.time(text)
        return None if found is None else LogBound(timestamp=found)

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


def grammar() -> TimeGrammar:
    """Return the grammar of the running command; «now» is the same for all its options."""
    from engine.clock import SYSTEM_CLOCK

    context = click.get_current_context(silent=True)
    meta: dict[str, Any] = {} if context is None else context.meta
    return TimeGrammar(meta.setdefault(_NOW, SYSTEM_CLOCK.now_ms()), meta.get(_IS_LOCAL, False))


def _set_zone(context: click.Context, _: click.Parameter, is_utc: bool) -> None:
    context.meta[_IS_LOCAL] = not is_utc


zone_option = click.option(
    "--utc/--local",
    "is_utc",
    default=True,
    is_eager=True,
    expose_value=False,
    callback=_set_zone,
    help="Zone of times without one. [default: utc]",
)


def at_option(command: Command) -> Command:
    """Add --at, the time of the state that is shown, in milliseconds; None for now."""
    return zone_option(
        click.option(
            "--at",
            metavar="TIME",
            callback=lambda _context, _option, text: (
                None if text is None else time_of(text, "--at")
            ),
            help=f"Show the state at this time ({FORMS}), from records with timestamps up to it.",
        )(command)
    )


def range_options(command: Command) -> Command:
    """Add --from and --to; the command gets `extent`, a LogRange."""

    @wraps(command)
    def with_range(
        *given: Any,  # noqa: ANN401
        range_start: str | None,
        range_stop: str | None,
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        extent = range_of(range_start, range_stop, may_be_empty=bool(named.get("allow_empty")))
        return command(*given, extent=extent, **named)

    for option in (
        zone_option,
        click.option(
            "--to",
            "range_stop",
            metavar="OFFSET|TIME",
            help="Stop before this offset, or before the first record at or after this time.",
        ),
        click.option(
            "--from",
            "range_start",
            metavar="OFFSET|TIME",
            help="Start at this offset (digits), or at the first record at or after this time: "
            f"{FORMS}.",
        ),
    ):
        with_range = option(with_range)
    return with_range  # type: ignore[return-value]


def range_of(start: str | None, stop: str | None, *, may_be_empty: bool = False) -> LogRange:
    """Return the range of --from and --to.

    Raises:
        click.BadParameter: a text is neither an offset nor a time.
        click.UsageError: the range ends before it begins.
    """
    from engine.log.log_bound import LogRange

    found = LogRange(bound_of(start, "--from"), bound_of(stop, "--to"))
    if found.is_backwards and not may_be_empty:
        raise click.UsageError(f"--from {start} is not before --to {stop}, and --to is exclusive")
    return found


def time_of(text: str, option: str, names: Mapping[str, int] = MappingProxyType({})) -> Timestamp:
    """Return the time of an option in milliseconds since 1970; a year, day or hour is its beginning.

    Args:
        names: other values of the option, by name.

    Raises:
        click.BadParameter: the text is no time.
    """
    found = names[text] if text in names else grammar().time(text)
    if found is None:
        others = f"one of {', '.join(names)}, or " if names else ""
        raise click.BadParameter(
            f"{text!r} is not {others}a time such as {FORMS}", param_hint=option
        )
    return found


def bound_of(text: str | None, option: str) -> LogBound | None:
    """Return the offset or time of --from or --to; None if the option is not given.

    Raises:
        click.BadParameter: the text is neither an offset nor a time.
    """
    if text is None:
        return None
    found = grammar().bound(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is neither an offset (digits) nor a time such as {FORMS}", param_hint=option
        )
    return found
