"""Moments as callers of the Python API give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from engine.clock import SYSTEM_CLOCK
from engine.cut.moment import Moment as CutMoment
from engine.units import NO_TIMESTAMP, Timestamp
from kafkafs.time_grammar import FORMS, MOMENTS, TimeGrammar

Moment: TypeAlias = datetime | int | str
"""A datetime with a zone, milliseconds since 1970, or a text as the commands take it: "2024-01-01T10:30:00Z", "-1h", "today"."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: Moment) -> Timestamp:
    """Return a moment in milliseconds since 1970, rounded up: records have whole milliseconds.

    Raises:
        ValueError: a datetime without a zone, or a text that is no time.

    >>> milliseconds("2024-01-01T10:30:00Z"), milliseconds("2024-01-01"), milliseconds(5)
    (1704105000000, 1704067200000, 5)
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        found = TimeGrammar(SYSTEM_CLOCK.now_ms()).time(moment)
        if found is None:
            raise ValueError(f"{moment!r} is not a time such as {FORMS}")
        return found
    if moment.tzinfo is None:
        raise ValueError(
            f"{moment!r} has no time zone: write datetime(…, tzinfo=timezone.utc), or another zone"
        )
    return -((_EPOCH - moment) // _MILLISECOND)


def moment_of(moment: Moment) -> CutMoment:
    """Return a moment of a cluster: a time, "orders-0@500", "before-delete:orders" or "after-transaction:ID".

    Raises:
        ValueError: a datetime without a zone, or a text that is no moment.
    """
    if isinstance(moment, str):
        found = TimeGrammar(SYSTEM_CLOCK.now_ms()).moment(moment)
        if found is None:
            raise ValueError(f"{moment!r} is no moment: {MOMENTS}; a time is such as {FORMS}")
        return found
    return CutMoment(time=milliseconds(moment))


def datetime_of(timestamp: Timestamp) -> datetime | None:
    """Return a timestamp as a datetime in UTC; None for no timestamp, and for one before the year 1 or after 9999."""
    if timestamp == NO_TIMESTAMP:
        return None
    try:
        return _EPOCH + timestamp * _MILLISECOND
    except OverflowError:
        return None
