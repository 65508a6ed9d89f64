"""Tables, JSON and times on standard output, and warnings about damage in internal topics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from engine.units import LAST_TIME
from kafkafs.cli.printing.terminal.columns import table_lines
from kafkafs.cli.printing.terminal.output import say, terminal_columns
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.decode.shown_text import json_text, printable

if TYPE_CHECKING:
    from engine.replay.partition_records import Unreadable

MISSING = "-"
MOST_WARNINGS = 20


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    err: bool = False,
    keys: int = 1,
    has_numbers: bool = False,
) -> None:
    """Print rows under a header, in columns as wide as they need; None shows as "-".

    On a terminal that is too narrow, long texts are cut in the middle and columns continue below.

    Args:
        header, rows: the names of the columns, and the values.
        err: print on standard error.
        keys: number of first columns that name a row; they are repeated where columns continue below.
        has_numbers: whether all other columns are numbers, which are right-aligned.
    """
    shown = [list(header), *([cell(value) for value in row] for row in rows)]
    room = terminal_columns(sys.stderr if err else sys.stdout)
    for line in table_lines(shown, room, keys, has_numbers=has_numbers):
        click.echo(line, err=err)


def cell(value: object) -> str:
    """Return a value as text for people; "-" for None."""
    if type(value) is int:
        return str(value)
    return MISSING if value is None or value == "" else printable(str(value))


def print_json(facts: dict[str, Any]) -> None:
    """Print one object on one line, in ASCII."""
    click.echo(json_text(facts))


def moment(timestamp: int | None) -> str | None:
    """Format a timestamp in milliseconds as RFC 3339; None for no timestamp (None or negative)."""
    if timestamp is None or not 0 <= timestamp <= LAST_TIME:
        return None if timestamp is None or timestamp < 0 else str(timestamp)
    at = datetime.fromtimestamp(timestamp / 1000, tz=UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp % 1000:03}Z"


def duration(milliseconds: int) -> str:
    """Format a length of time in its two largest units: 3d 4h, 5m 10s, 0.250s."""
    if milliseconds < 1000:
        return f"{milliseconds / 1000:.3f}s"
    left = milliseconds // 1000
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def warn(unreadable: Iterable[Unreadable], notes: Iterable[str] = ()) -> bool:
    """Print unreadable places and notes as warnings on standard error; return whether there were any."""
    sentences = [
        f"{each.file}, position {each.position}, {each.length} bytes: {each.reason}"
        for each in unreadable
    ]
    sentences += notes
    for sentence in sentences[:MOST_WARNINGS]:
        say(f"kafkafs: warning: {printable(sentence)}", err=True)
    if len(sentences) > MOST_WARNINGS:
        say(f"kafkafs: warning: and {len(sentences) - MOST_WARNINGS} more", err=True)
    return bool(sentences)


@contextmanager
def replaying() -> Iterator[Callable[[int], None]]:
    """Show progress while internal topics are read; yield the function that counts bytes."""
    with Progress("replayed") as progress:
        yield progress.advance
    progress.active = False  # later reads happen while results are printed
