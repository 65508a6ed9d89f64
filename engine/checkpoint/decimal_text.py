"""Parse decimal numbers in text files as Java does, but with ASCII digits only."""

from __future__ import annotations

import re

from engine.units import MAX_INT32, MAX_INT64

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")


def parse_int32(text: str) -> int:
    """Return a signed 32-bit number. Raises ValueError for anything else."""
    return _parse(text, MAX_INT32)


def parse_int64(text: str) -> int:
    """Return a signed 64-bit number. Raises ValueError for anything else."""
    return _parse(text, MAX_INT64)


def _parse(text: str, largest: int) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) < 40) and not _NUMBER.fullmatch(text):
        raise ValueError(f"not a decimal number: {text[:40]!a}")
    number = int(text)
    if not -largest - 1 <= number <= largest:
        raise ValueError(f"not a number of {(largest + 1).bit_length()} bits: {text[:40]}")
    return number
