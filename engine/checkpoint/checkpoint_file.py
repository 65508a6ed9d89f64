"""Checkpoint files: a version, a count, one entry per line, in UTF-8.

    0
    2
    orders 0 1000
    orders 1 985

The count is only compared with the number of lines. An empty file, or one that ends after the
version, has no entries. See CheckpointFile in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from engine.checkpoint.decimal_text import parse_int32
from engine.errors import CorruptCheckpointError, LimitExceededError

CURRENT_VERSION = 0
MAX_ENTRIES = 250_000
"""Most partitions of a log dir; each costs some 300 bytes."""

_LINE = re.compile(rb"([^\r\n]+)(?:\r\n?|\n|\Z)|\r\n?|\n")
_SPACES = re.compile(r"[ \t\x0b\f]+")

Entry = TypeVar("Entry")


def parse_checkpoint(
    data: bytes, parse_entry: Callable[[list[str]], Entry], *, path: str | None = None
) -> list[Entry]:
    """Return the entries of a checkpoint file.

    `parse_entry` gets the words of a line and raises ValueError if they are no entry.
    Raises CorruptCheckpointError, and LimitExceededError for more than MAX_ENTRIES.
    """
    lines = text_lines(data, path=path)
    version = next(lines, None)
    if version is None:
        return []
    if _number(version, 1, path) != CURRENT_VERSION:
        raise CorruptCheckpointError(
            "the version is unknown",
            line=1,
            path=path,
            expected=CURRENT_VERSION,
            found=version[:40],
        )
    count = next(lines, None)
    if count is None:
        return []
    expected = _number(count, 2, path)
    entries: list[Entry] = []
    for line, text in enumerate(lines, 3):
        try:
            entries.append(parse_entry(_words(text)))
        except ValueError:
            raise _malformed(text, line, path) from None
        if len(entries) > MAX_ENTRIES:
            raise LimitExceededError("there are too many entries", limit="MAX_ENTRIES", path=path)
        if len(entries) > expected:
            break
    if len(entries) != expected:
        raise CorruptCheckpointError(
            "the count is wrong",
            line=2,
            path=path,
            expected=f"{expected} entries",
            found=f"{'more than ' * (len(entries) > expected)}{min(len(entries), expected)}",
        )
    return entries


def render_checkpoint(entries: Iterable[str]) -> bytes:
    """Return the file of these entries, each the text of a line."""
    lines = list(entries)
    return "".join(f"{line}\n" for line in (CURRENT_VERSION, len(lines), *lines)).encode()


def text_lines(data: bytes, *, path: str | None = None) -> Iterator[str]:
    """Yield the lines of a text file without their ends (LF, CR or CR LF), decoded one by one.

    Raises CorruptCheckpointError at the first line that is not UTF-8.
    """
    for match in _LINE.finditer(data):
        try:
            yield (match[1] or b"").decode()
        except UnicodeDecodeError as error:
            raise CorruptCheckpointError(
                "the file is not UTF-8", path=path, position=match.start() + error.start
            ) from None


def _words(text: str) -> list[str]:
    words = _SPACES.split(text)
    while words and not words[-1]:
        words.pop()
    return words


def _number(text: str, line: int, path: str | None) -> int:
    try:
        return parse_int32(text)
    except ValueError:
        raise _malformed(text, line, path) from None


def _malformed(text: str, line: int, path: str | None) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        "the line is malformed", line=line, path=path, found=ascii(text[:80])
    )
