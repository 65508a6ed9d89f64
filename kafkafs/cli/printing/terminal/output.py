"""Output of the commands: results on standard output, one line for a failure on standard error."""

from __future__ import annotations

import sys

from engine.errors import SourceError
from kafkafs.cli.printing.terminal.wrapping import say
from kafkafs.exit_codes import EXIT_CANNOT_READ

MOST_MESSAGE = 1000


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
