"""Numbers, sizes and times as people read them: few digits, a unit, one width."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from engine.units import LAST_TIME, Timestamp

NONE = "–"
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_QUOTED = re.compile(r"(?<!\w)(?:b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\")")


def count(number: int | None) -> str:
    """Return a number with commas between thousands.

    >>> count(1234567), count(None)
    ('1,234,567', '–')
    """
    return NONE if number is None else f"{number:,}"


def large(number: int) -> str:
    """Return a number that fits where there is little room.

    >>> large(1_234_567), large(28_120_607_000)
    ('1,234,567', '28.1 billion')
    """
    return count(number) if number < 10**9 else f"{number / 10**9:,.1f} billion"


def size(number: int | None) -> str:
    """Return a number of bytes with three digits and a decimal unit.

    >>> [size(each) for each in (999, 1000, 12_345, 999_999, 1_170_000_000)]
    ['999 B', '1.00 kB', '12.3 kB', '1.00 MB', '1.17 GB']
    """
    if number is None:
        return NONE
    if number < 1000:
        return f"{number} B"
    amount = float(number)
    for unit in _SIZES:
        if amount < 999.5 or unit == _SIZES[-1]:
            break
        amount /= 1000
    digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
    return f"{amount:.{digits}f} {unit}"


def short(number: float) -> str:
    """Return a number with three digits and k, M, G: for axes.

    >>> [short(each) for each in (0, 7, 1500, 20_000, 3_000_000)]
    ['0', '7', '1.5k', '20k', '3M']
    """
    amount = float(number)
    for unit in ("", "k", "M", "G", "T", "P", "E"):
        if abs(amount) < 1000 or unit == "E":
            break
        amount /= 1000
    return f"{amount:.3g}{unit}"


def ratio(number: float | None) -> str:
    """Return a ratio.

    >>> ratio(3.14159), ratio(None)
    ('3.14×', '–')
    """
    return NONE if number is None else f"{number:.2f}×"


def time(timestamp: Timestamp | None) -> str:
    """Return a time in UTC to the second; a number of milliseconds outside of the calendar.

    >>> time(1_700_000_000_000), time(-1), time(1 << 62)
    ('2023-11-14 22:13:20', '–', '4611686018427387904')
    """
    if timestamp is None or timestamp < 0:
        return NONE
    if timestamp > LAST_TIME:
        return str(timestamp)
    return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def minute(timestamp: Timestamp | None) -> str:
    """Return a time without its seconds, for tables.

    >>> minute(1_700_000_000_000)
    '2023-11-14 22:13'
    """
    return time(timestamp)[:16]


def length(milliseconds: int) -> str:
    """Return a length of time in its two largest units.

    >>> [length(each) for each in (0, 250, 61_000, 90_000_000)]
    ['0 ms', '250 ms', '1 min 1 s', '1 d 1 h']
    """
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    left = milliseconds // 1000
    parts = []
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "batch"), counted(2000, "batch"), counted(0, "topic")
    ('1 batch', '2,000 batches', '0 topics')
    """
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count(number)} {noun}{ending}"


def without_quotes(sentence: str) -> str:
    """Return a sentence without the text that it quotes from a file: a damaged file may hold anything.

    >>> without_quotes("the line 'secret' is malformed, and a topic's name")
    "the line '…' is malformed, and a topic's name"
    """
    return _QUOTED.sub("'…'", sentence)


def parsed_size(text: str) -> int | None:
    """Return a positive whole number, with K, M or G for powers of 1024; None for another text.

    >>> parsed_size("64M")
    67108864
    """
    digits = text[:-1] if text[-1:] in ("K", "M", "G") else text
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or int(digits) < 1:
        return None
    return int(digits) * factor
