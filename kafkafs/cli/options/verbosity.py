"""--quiet and --verbose, which every command has that reads a source."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.printing.terminal.verbosity import Verbosity, detail, verbosity

QUIET_HELP = "Print no progress and no notes on standard error; errors remain."


def quiet_option(text: str = QUIET_HELP) -> Callable[[Command], Command]:
    """Add --quiet; `text` is its help where it leaves out more than progress and notes."""
    return click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_set_quiet, help=text
    )


def verbose_option(command: Command) -> Command:
    """Add --verbose."""
    return click.option(
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_set_verbose,
        help="Print on standard error what is read, what is skipped and why, and the time it takes.",
    )(command)


def verbosity_options(command: Command) -> Command:
    """Add --quiet and --verbose."""
    return quiet_option()(verbose_option(command))


def _set_quiet(_: click.Context, __: click.Parameter, is_wanted: bool) -> None:
    chosen = verbosity()
    chosen.is_quiet = is_wanted
    _check(chosen)


def _set_verbose(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    chosen = verbosity()
    chosen.is_verbose = is_wanted
    _check(chosen)
    if is_wanted:
        start = time.monotonic()
        name = context.command_path.removeprefix(context.find_root().command_path).strip()
        context.call_on_close(lambda: detail(f"{name} took {time.monotonic() - start:.2f} s"))


def _check(chosen: Verbosity) -> None:
    if chosen.is_quiet and chosen.is_verbose:
        raise click.UsageError("--quiet and --verbose cannot be used together")
