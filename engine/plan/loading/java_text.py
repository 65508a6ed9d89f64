"""Parse text files and names as Kafka's Java code does, with its exceptions.

Other readers of the engine are strict, and refuse some text that a broker accepts.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Iterator

from engine.plan.loading.broker_failure import BrokerFailure, Outcome, offline, stops
from engine.units import MAX_INT32, MAX_INT64, EpochEntry, Offset, TopicPartition

LARGEST_COUNT = 250_000_000
"""Most entries of a checkpoint: an array of more references takes over a GB, and a broker runs out of memory."""
TEXT_LIMIT = 4 << 20
"""Most bytes of a text file that are read: twice the need of 10,000 partitions with the longest names."""
_LARGEST_LINE = 1 << 30
"""Bytes of a line that does not fit into a broker's default heap of 1 GB."""
_BUFFER = 8192
"""Bytes that Java decodes at a time: it finds an error in later bytes only after these are parsed."""

_NUMBER = re.compile(r"[+-]?\d+")
_SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_COLON = re.compile(r":[ \t\n\x0b\f\r]+")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def parse_long(text: str) -> int:
    """Parse a number as Long.parseLong does: ASCII or other decimal digits, a sign. Raises ValueError."""
    return _parse(text, MAX_INT64)


def parse_int(text: str) -> int:
    """Parse a number as Integer.parseInt does. Raises ValueError."""
    return _parse(text, MAX_INT32)


def offset_in_name(name: str) -> Offset | None:
    """Return the offset that Kafka parses in a file's name, before the first dot; None if there is no number.

    >>> offset_in_name("+5.log")
    5
    """
    before, dot, _ = name.partition(".")
    try:
        return parse_long(before) if dot else None
    except ValueError:
        return None


def parse_epochs(data: bytes, path: str, size: int | None = None) -> list[EpochEntry]:
    """Return the entries of a leader-epoch-checkpoint.

    Args:
        data: content of the file, or its first bytes.
        path: path of the file.
        size: size of the file; None for that of the data.

    Raises:
        BrokerFailure: a broker cannot read the file, or `data` does not have all of it.
    """
    entries = []
    for words, line in _checkpoint_lines(data, path, size):
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


def parse_offsets(data: bytes, path: str, size: int | None = None) -> dict[TopicPartition, Offset]:
    """Return the offsets in an offset checkpoint; arguments and errors as for `parse_epochs`."""
    offsets = {}
    for words, line in _checkpoint_lines(data, path, size):
        if len(words) != 3:
            raise _malformed(path, line)
        try:
            offsets[TopicPartition(words[0], parse_int(words[1]))] = parse_long(words[2])
        except ValueError:
            raise stops(
                "NumberFormatException", f"{path}: {line!a} does not end with two numbers"
            ) from None
    return offsets


def parse_topic_id(data: bytes, path: str, size: int | None = None) -> str:
    """Return the topic id in partition.metadata; arguments and errors as for `parse_epochs`."""
    lines = _lines(data, path, size)
    version = _value(lines, 1, path)
    try:
        known = parse_int(version) >= 0
    except ValueError:
        known = False
    if not known:
        raise offline("IOException", f"{path}: the version is {version!a}")
    text = _value(lines, 2, path)
    if _UUID.fullmatch(text) is None:
        raise stops("IllegalArgumentException", f"{path}: {text!a} is no topic id")
    try:
        uuid = base64.urlsafe_b64decode(text[:22] + "==")
    except binascii.Error:
        raise stops("IllegalArgumentException", f"{path}: {text!a} is no topic id") from None
    if uuid == bytes(16):
        raise offline("IOException", f"{path}: the topic id is zero, which no topic has")
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def first_line(data: bytes, path: str, size: int | None = None) -> str | None:
    """Return the first line of a text, None for an empty one; arguments and errors as for `parse_epochs`."""
    return next(_lines(data, path, size), None)


def _value(lines: Iterator[str], number: int, path: str) -> str:
    line = next(lines, None)
    if line is None:
        raise stops("NullPointerException", f"{path} ends before line {number}")
    words = _split(_COLON, line)
    if len(words) != 2:
        raise _malformed(path, line)
    return words[1]


def _checkpoint_lines(data: bytes, path: str, size: int | None) -> Iterator[tuple[list[str], str]]:
    """Yield the words and the line of each entry of a checkpoint; a wrong count is found after the last entry."""
    lines = _lines(data, path, size)
    version = next(lines, None)
    if version is None:
        return
    if _count(version, path):
        raise offline("IOException", f"{path}: the version {version[:80]!a} is unknown")
    stated = next(lines, None)
    if stated is None:
        return
    count = _count(stated, path)
    if count < 0:
        raise stops("IllegalArgumentException", f"{path}: {count} entries")
    if count > LARGEST_COUNT:
        raise stops("OutOfMemoryError", f"{path} claims {count} entries")
    found = 0
    for line in lines:
        yield _split(_SPACES, line), line
        found += 1
    if found != count:
        raise offline("IOException", f"{path} states {count} entries and has {found}")


def _count(text: str, path: str) -> int:
    try:
        return parse_int(text)
    except ValueError:
        raise _malformed(path, text) from None


def _lines(data: bytes, path: str, size: int | None) -> Iterator[str]:
    """Yield the lines as Java's BufferedReader does."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, is_whole = "", size is None or size <= len(data)
    for position in range(0, max(len(data), 1), _BUFFER):
        chunk = data[position : position + _BUFFER]
        is_last = is_whole and position + _BUFFER >= len(data)
        try:
            rest += decoder.decode(chunk, final=is_last)
        except UnicodeDecodeError:
            raise offline("MalformedInputException", f"{path} is not UTF-8") from None
        if "\n" not in rest and "\r" not in rest:
            continue
        # The last character may be the first half of a line ending.
        held = "" if is_last or not rest.endswith("\r") else "\r"
        *lines, rest = _LINE_END.split(rest[: len(rest) - len(held)])
        rest += held
        yield from lines
    if not is_whole:
        raise _too_long(path, size or 0, len(data) - len(rest))
    if rest:
        yield rest


def _too_long(path: str, size: int, line_start: int) -> Exception:
    """Return the failure for a file that was not read whole; its last line starts at `line_start`."""
    if line_start < TEXT_LIMIT // 2 and size - line_start >= _LARGEST_LINE:
        return stops(
            "OutOfMemoryError", f"{path} has a line of more than {_LARGEST_LINE >> 30} GiB"
        )
    return BrokerFailure(
        Outcome.UNKNOWN,
        "",
        f"{path} has {size} bytes: a broker reads all of them, but only the first {TEXT_LIMIT} were read here",
    )


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split a text as Java's String.split does: without empty words at the end, except for an empty text."""
    words = pattern.split(text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _malformed(path: str, line: str) -> Exception:
    if line and not line.strip("\0"):
        return offline("IOException", f"{path} holds {len(line)} zero bytes in place of a line")
    return offline("IOException", f"{path}: the line {line[:80]!a} is malformed")


def _parse(text: str, largest: int) -> int:
    if len(text) > 400 or _NUMBER.fullmatch(text) is None:
        raise ValueError(f"not a number: {text[:40]!a}")
    number = int(text)
    if not -largest - 1 <= number <= largest:
        raise ValueError(f"not a number of {(largest + 1).bit_length()} bits: {text[:40]}")
    return number
