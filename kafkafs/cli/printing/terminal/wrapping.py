"""Sentences for people, wrapped at the width of a terminal; a pipe or a file gets each as one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import IO

import click

from kafkafs.cli.printing.terminal.columns import shown_width

_WORD = re.compile(r" *[^ ]+")
_HANG = 2


def say(text: str, *, err: bool = False, hang: int | None = None) -> None:
    """Print a text for people: on a terminal no line is wider than that, but for a long word.

    Args:
        text: lines, perhaps with colours.
        err: print on standard error.
        hang: spaces before what is continued; by default 2 more than the line begins with.
    """
    room = terminal_columns(sys.stderr if err else sys.stdout)
    click.echo(text if room is None else wrapped(text, room, hang), err=err)


def wrapped(text: str, room: int, hang: int | None = None) -> str:
    r"""Return a text with lines of at most `room` columns, but for words that are longer.

    >>> wrapped("  error  batch-checksum: the batch at byte 7 is wrong", 24)
    '  error  batch-checksum:\n    the batch at byte 7\n    is wrong'
    """
    return "\n".join(line for each in text.split("\n") for line in _lines(each, room, hang))


def _lines(text: str, room: int, hang: int | None) -> Iterator[str]:
    if shown_width(click.unstyle(text)) <= room:
        yield text
        return
    first = len(text) - len(text.lstrip(" "))
    indent = " " * min(first + _HANG if hang is None else hang, room // 3)
    line, used, is_begun = "", 0, False
    for word in _WORD.findall(text):
        width = shown_width(click.unstyle(word))
        if is_begun and used + width > room:
            yield line.rstrip(" ")
            line = indent + word.lstrip(" ")
            used = shown_width(click.unstyle(line))
        else:
            line, used = line + word, used + width
        is_begun = True
    yield line.rstrip(" ")


def terminal_columns(stream: IO[str]) -> int | None:
    """Return the width of the terminal that a stream writes to; None for a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None
