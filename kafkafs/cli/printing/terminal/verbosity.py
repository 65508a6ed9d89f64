"""How much a command prints on standard error beside its errors: nothing, progress and notes, or also details.

Errors and results are printed in any case, and the exit status is the same.
"""

from __future__ import annotations

import click

from kafkafs.cli.printing.terminal.output import say

_KEY = "kafkafs.cli.verbosity"


class Verbosity:
    """What --quiet and --verbose say.

    Attributes:
        is_quiet: whether progress and notes are left out.
        is_verbose: whether details are printed.
    """

    is_quiet = False
    is_verbose = False


def verbosity() -> Verbosity:
    """Return the verbosity of the running command; one object, also while its options are still read."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Verbosity()
    found: Verbosity = context.meta.setdefault(_KEY, Verbosity())
    return found


def note(sentence: str) -> None:
    """Print a sentence that is no error on standard error, unless the command is quiet."""
    if not verbosity().is_quiet:
        _print(sentence)


def detail(sentence: str) -> None:
    """Print a sentence about the work itself on standard error, if the command is verbose."""
    if verbosity().is_verbose:
        _print(sentence)


def _print(sentence: str) -> None:
    from kafkafs.decode.shown_text import printable

    say(f"kafkafs: {printable(sentence)}", err=True)
