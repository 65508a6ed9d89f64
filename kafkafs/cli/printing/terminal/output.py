"""Output of the commands: results on standard output, a sentence for a failure on standard error.

Sentences for people wrap at the width of a terminal; a pipe or a file gets each as one line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import IO

import click

from engine.errors import SourceError
from engine.files.stores import STORES
from kafkafs.exit_codes import EXIT_CANNOT_READ

MOST_MESSAGE = 1000
_WORD = re.compile(r" *[^ ]+")
_HANG = 2


class OutputFailed(Exception):
    """Standard output failed: its reader is gone (`| head`), or a disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def write_output(data: bytes, *, flush: bool = False) -> None:
    """Write bytes to standard output; without `flush` they may stay in a buffer.

    Raises:
        OutputFailed: the write failed; an OSError would look like an error of the source.
    """
    try:
        sys.stdout.buffer.write(data)
        if flush:
            sys.stdout.flush()
    except OSError as error:
        raise OutputFailed(error) from None


def write_line(text: str) -> None:
    """Write a line of text to standard output; it may stay in a buffer. Raises OutputFailed as `write_output` does."""
    try:
        sys.stdout.write(f"{text}\n")
    except OSError as error:
        raise OutputFailed(error) from None


def sentence_of(error: Exception) -> str:
    """Return one sentence about an error: cause, place and a way out."""
    from engine.files.read_failures import failure_text

    if isinstance(error, SourceError):
        return f"{error.reason} ({error.hint})" if error.hint else error.reason
    return failure_text(error)


def fail(sentence: str) -> int:
    """Print one line on standard error; return the exit status for «cannot read»."""
    from kafkafs.decode.shown_text import printable

    say(f"kafkafs: {printable(sentence)[:MOST_MESSAGE]}", err=True)
    return EXIT_CANNOT_READ


def say(text: str, *, err: bool = False, hang: int | None = None) -> None:
    """Print a text for people: on a terminal no line is wider than that, but for a long word.

    Args:
        text: lines, perhaps with colours.
        err: print on standard error.
        hang: spaces before what is continued; by default 2 more than the line begins with.
    """
    text = STORES.shown(text)
    room = terminal_columns(sys.stderr if err else sys.stdout)
    click.echo(text if room is None else wrapped(text, room, hang), err=err)


def wrapped(text: str, room: int, hang: int | None = None) -> str:
    r"""Return a text with lines of at most `room` columns, but for words that are longer.

    >>> wrapped("  error  batch-checksum: the batch at byte 7 is wrong", 24)
    '  error  batch-checksum:\n    the batch at byte 7\n    is wrong'
    """
    return "\n".join(line for each in text.split("\n") for line in _lines(each, room, hang))


def _lines(text: str, room: int, hang: int | None) -> Iterator[str]:
    if _width(text) <= room:
        yield text
        return
    first = len(text) - len(text.lstrip(" "))
    indent = " " * min(first + _HANG if hang is None else hang, room // 3)
    line, used, is_begun = "", 0, False
    for word in _WORD.findall(text):
        width = _width(word)
        if is_begun and used + width > room:
            yield line.rstrip(" ")
            line = indent + word.lstrip(" ")
            used = _width(line)
        else:
            line, used = line + word, used + width
        is_begun = True
    yield line.rstrip(" ")


def _width(text: str) -> int:
    # Imported here: only texts on a terminal are measured.
    from kafkafs.cli.printing.terminal.columns import shown_width

    return shown_width(click.unstyle(text))


def terminal_columns(stream: IO[str]) -> int | None:
    """Return the width of the terminal that a stream writes to; None for a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None
