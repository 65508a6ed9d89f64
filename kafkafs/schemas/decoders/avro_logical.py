"""Avro's logical types as JSON: dates and times as RFC 3339 writes them, decimals with their exact digits.

A time that RFC 3339 cannot write (a year outside of 1 to 9999, a time of day of 24 h or more) stays a number.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from engine.lines.json_text import JSON_NUMBER
from kafkafs.schemas.decoders.avro_schema import Logical
from kafkafs.schemas.errors import UndecodableError

_DAY = 24 * 60 * 60
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_ORDINAL = date.max.toordinal()
_MOST_DECIMAL_BYTES = 1024
"""Bytes of an unscaled number; about 2,500 digits."""
_DURATION = struct.Struct("<III")


def date_text(days: int) -> str | int:
    """Return the date that lies some days after 1970-01-01.

    >>> date_text(19675), date_text(10**9)
    ('2023-11-14', 1000000000)
    """
    ordinal = days + _EPOCH
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST_ORDINAL else days


def time_text(digits: int, ticks: int) -> str | int:
    """Return the time of day that lies some ticks of 10^-digits s after midnight.

    >>> time_text(3, 3_723_004), time_text(6, -1)
    ('01:02:03.004', -1)
    """
    second, part = divmod(ticks, 10**digits)
    if not 0 <= second < _DAY:
        return ticks
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{part:0{digits}}"


def timestamp_text(digits: int, zone: str, ticks: int) -> str | int:
    """Return the time that lies some ticks of 10^-digits s after 1970-01-01T00:00; `zone` is "Z" or "".

    >>> timestamp_text(3, "Z", 1_700_000_000_123), timestamp_text(9, "", -1)
    ('2023-11-14T22:13:20.123Z', '1969-12-31T23:59:59.999999999')
    """
    days, rest = divmod(ticks, _DAY * 10**digits)
    day = date_text(days)
    return ticks if isinstance(day, int) else f"{day}T{time_text(digits, rest)}{zone}"


def decimal_text(scale: int, unscaled: bytes) -> str:
    """Return a decimal of a two's complement number in big-endian order, with all digits of its scale.

    >>> decimal_text(2, b"\\x04\\xd2"), decimal_text(3, b"\\xff"), decimal_text(0, b"\\x05")
    ('12.34', '-0.001', '5')

    Raises:
        UndecodableError: it has too many digits.
    """
    if len(unscaled) > _MOST_DECIMAL_BYTES or not abs(scale) <= JSON_NUMBER:
        raise UndecodableError("a decimal has too many digits")
    number = int.from_bytes(unscaled, "big", signed=True)
    if scale <= 0:
        return str(number) + "0" * (-scale if number else 0)
    digits = f"{abs(number):0{scale + 1}}"
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def uuid_text(data: bytes) -> str:
    """Return the text of a UUID of 16 bytes."""
    return str(uuid.UUID(bytes=data))


def duration_json(data: bytes) -> dict[str, int]:
    """Return the parts of a duration of 12 bytes."""
    months, days, milliseconds = _DURATION.unpack(data)
    return {"months": months, "days": days, "milliseconds": milliseconds}


def number_form(logical: Logical | None) -> Callable[[int], Any] | None:
    """Return what makes the JSON of an int or long; None if it stays a number."""
    return None if logical is None else _NUMBERS.get(logical)


_NUMBERS: dict[Logical, Callable[[int], Any]] = {
    Logical.DATE: date_text,
    Logical.TIME_MILLIS: partial(time_text, 3),
    Logical.TIME_MICROS: partial(time_text, 6),
    Logical.TIMESTAMP_MILLIS: partial(timestamp_text, 3, "Z"),
    Logical.TIMESTAMP_MICROS: partial(timestamp_text, 6, "Z"),
    Logical.TIMESTAMP_NANOS: partial(timestamp_text, 9, "Z"),
    Logical.LOCAL_TIMESTAMP_MILLIS: partial(timestamp_text, 3, ""),
    Logical.LOCAL_TIMESTAMP_MICROS: partial(timestamp_text, 6, ""),
    Logical.LOCAL_TIMESTAMP_NANOS: partial(timestamp_text, 9, ""),
}
