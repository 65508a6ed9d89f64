"""What the commands print: bytes of results, and one line for what failed."""

from __future__ import annotations

import sys

import click

from engine.errors import SourceError
from kafkafs.exit_codes import EXIT_CANNOT_READ

MOST_MESSAGE = 1000


class OutputFailed(Exception):
    """Standard output took no more: its reader went away (`| head`), or a disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def write_output(data: bytes, *, flush: bool = False) -> None:
    """Write bytes to standard output; they may wait in a buffer without `flush`.

    Raises:
        OutputFailed: it takes no more; an OSError would look like one of the source's.
    """
    try:
        sys.stdout.buffer.write(data)
        if flush:
            sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputFailed(error) from None


def sentence_of(error: Exception) -> str:
    """What went wrong, where, and a way out."""
    from engine.files.read_failures import failure_text

    if isinstance(error, SourceError):
        return f"{error.reason} ({error.hint})" if error.hint else error.reason
    return failure_text(error)


def fail(sentence: str) -> int:
    """Say one line on standard error; the exit status for «cannot read»."""
    from kafkafs.decode.shown_text import printable

    click.echo(f"kafkafs: {printable(sentence)[:MOST_MESSAGE]}", err=True)
    return EXIT_CANNOT_READ
