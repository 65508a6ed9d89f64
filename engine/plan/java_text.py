"""Text files and names as Kafka's Java code takes them: what it accepts, and which exception it throws.

Readers elsewhere in the engine are strict, since they have to believe what they read. Here the question is
what a broker does with it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from engine.plan.broker_failure import offline, stops
from engine.units import MAX_INT32, MAX_INT64, EpochEntry, Offset, TopicPartition

LARGEST_COUNT = 250_000_000
"""An array of that many references takes a GB: beyond, a broker runs out of memory."""

_NUMBER = re.compile(r"[+-]?\d+")
_SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_COLON = re.compile(r":[ \t\n\x0b\f\r]+")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def parse_long(text: str) -> int:
    """Long.parseLong: ASCII or other decimal digits, a sign. Raises ValueError."""
    return _parse(text, MAX_INT64)


def parse_int(text: str) -> int:
    """Integer.parseInt. Raises ValueError."""
    return _parse(text, MAX_INT32)


def offset_in_name(name: str) -> Offset | None:
    """The offset that Kafka takes a file's name for: what is before the first dot; None when it is none.

    >>> offset_in_name("+5.log")
    5
    """
    before, dot, _ = name.partition(".")
    try:
        return parse_long(before) if dot else None
    except ValueError:
        return None


def parse_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """leader-epoch-checkpoint as a broker reads it. Raises BrokerFailure."""
    entries = []
    for words, line in _checkpoint_lines(data, path):
        if len(words) != 2:
            raise _malformed(path, line)
        try:
            entry = EpochEntry(parse_int(words[0]), parse_long(words[1]))
        except ValueError:
            raise stops(
                "NumberFormatException", f"{path}: {line!a} does not hold two numbers"
            ) from None
        entries.append(entry)
    for entry in entries:
        if min(entry) < 0:
            raise stops("IllegalArgumentException", f"{path}: {entry} is negative")
    return entries


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    """An offset checkpoint as a broker reads it. Raises BrokerFailure."""
    offsets = {}
    for words, line in _checkpoint_lines(data, path):
        if len(words) != 3:
            raise _malformed(path, line)
        try:
            offsets[TopicPartition(words[0], parse_int(words[1]))] = parse_long(words[2])
        except ValueError:
            raise stops(
                "NumberFormatException", f"{path}: {line!a} does not end with two numbers"
            ) from None
    return offsets


def parse_topic_id(data: bytes, path: str) -> str:
    """The topic id of partition.metadata as a broker reads it. Raises BrokerFailure."""
    lines = _lines(data, path)
    version = _value(lines, 0, path)
    try:
        known = parse_int(version) >= 0
    except ValueError:
        known = False
    if not known:
        raise offline("IOException", f"{path}: the version is {version!a}")
    text = _value(lines, 1, path)
    if _UUID.fullmatch(text) is None:
        raise stops("IllegalArgumentException", f"{path}: {text!a} is no topic id")
    try:
        uuid = base64.urlsafe_b64decode(text[:22] + "==")
    except binascii.Error:
        raise stops("IllegalArgumentException", f"{path}: {text!a} is no topic id") from None
    if uuid == bytes(16):
        raise offline("IOException", f"{path}: the topic id is that of no topic")
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def _value(lines: list[str], at: int, path: str) -> str:
    if at >= len(lines):
        raise stops("NullPointerException", f"{path} ends before line {at + 1}")
    words = _split(_COLON, lines[at])
    if len(words) != 2:
        raise _malformed(path, lines[at])
    return words[1]


def _checkpoint_lines(data: bytes, path: str) -> Iterator[tuple[list[str], str]]:
    """The entries of a checkpoint file, each in words and whole.

    A malformed entry is found before a wrong count is.
    """
    lines = _lines(data, path)
    if not lines:
        return
    if _count(lines[0], path):
        raise offline("IOException", f"{path}: the version {lines[0]!a} is unknown")
    if len(lines) == 1:
        return
    count = _count(lines[1], path)
    if count < 0:
        raise stops("IllegalArgumentException", f"{path}: {count} entries")
    if count > LARGEST_COUNT:
        raise stops("OutOfMemoryError", f"{path} claims {count} entries")
    for line in lines[2:]:
        yield _split(_SPACES, line), line
    if len(lines) - 2 != count:
        raise offline("IOException", f"{path}: {count} entries are stated, {len(lines) - 2} there")


def _count(text: str, path: str) -> int:
    try:
        return parse_int(text)
    except ValueError:
        raise _malformed(path, text) from None


def _lines(data: bytes, path: str) -> list[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise offline("MalformedInputException", f"{path} is not UTF-8") from None
    lines = _LINE_END.split(text)
    return lines[:-1] if not lines[-1] else lines


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """String.split: empty words at the end are left out, but for an empty text."""
    words = pattern.split(text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _malformed(path: str, line: str) -> Exception:
    return offline("IOException", f"{path}: the line {line[:80]!a} is malformed")


def _parse(text: str, largest: int) -> int:
    if len(text) > 400 or _NUMBER.fullmatch(text) is None:
        raise ValueError(f"not a number: {text[:40]!a}")
    number = int(text)
    if not -largest - 1 <= number <= largest:
        raise ValueError(f"not a number of {(largest + 1).bit_length()} bits: {text[:40]}")
    return number
