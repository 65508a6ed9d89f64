"""Parsers of option values: words, flags, numbers, sizes, times.

`given` holds the options by lower-case name; each function raises OptionError for a value that it cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkafs.spark.errors import OptionError

SMALLEST = 1024
"""Least number of bytes for any size."""
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)i?b?")
_DELAY = re.compile(r"([0-9]+)\s*(us|ms|s|m|min|h|d)?")
_DELAY_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def one_of(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Return one of some words; the first is the default."""
    text = given.get(name.lower(), values[0]).strip().lower()
    if text not in values:
        raise OptionError(f"'{name}' is one of {', '.join(values)}, not {given[name.lower()]!r}")
    return text


def flag(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return true or false."""
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"'{name}' is true or false, not {given[name.lower()]!r}")
    return text == "true"


def count(given: Mapping[str, str], name: str) -> int | None:
    """Return a number above 0, or None."""
    text = given.get(name.lower())
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.removeprefix("-").isdigit()):
        raise OptionError(f"'{name}' is a number, not {text!r}")
    if int(digits) <= 0:
        raise OptionError(f"{name} must be positive")
    return int(digits)


def size(given: Mapping[str, str], name: str, default: int) -> int:
    """Return a number of bytes, given with or without a unit, of at least SMALLEST."""
    text = given.get(name.lower())
    if text is None:
        return default
    match = _SIZE.fullmatch(text.strip().lower())
    size = int(match[1]) << (" kmgt".index(match[2] or " ") * 10) if match else 0
    if size < SMALLEST:
        raise OptionError(f"'{name}' is a size such as 64m, at least 1k, not {text!r}")
    return size


def delay(given: Mapping[str, str], name: str, default: int) -> int:
    """Return milliseconds, given with or without a unit."""
    text = given.get(name.lower())
    if text is None:
        return default
    match = _DELAY.fullmatch(text.strip().lower())
    if not match:
        raise OptionError(f"'{name}' is a time such as 15m or 30s, not {text!r}")
    return int(int(match[1]) * _DELAY_MS[match[2] or "ms"])


def pattern(given: Mapping[str, str], name: str) -> str | None:
    """Return a valid regular expression, or None."""
    text = given.get(name.lower())
    if text is not None:
        try:
            re.compile(text.encode())
        except re.error as error:
            raise OptionError(f"'{name}' is not a regular expression: {error}: {text}") from error
    return text
