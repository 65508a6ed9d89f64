"""`kafkafs browse`: look around in a source on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import one_source_argument, open_tree, schemas_option, values_option
from kafkafs.cli.completing import names
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.outputs import refuse_inside
from kafkafs.cli.options.times import grammar
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import write_line
from kafkafs.cli.printing.terminal.verbosity import note

if TYPE_CHECKING:
    from kafkafs.browse.session import BrowseSession
    from kafkafs.browse.work import Runner
    from kafkafs.time_grammar import TimeGrammar
    from kafkafs.tree.tree import Tree


@click.command()
@one_source_argument
@click.argument("path", default="", required=False, shell_complete=names.paths)
@values_option
@schemas_option
@mask_option
@verbosity_options
def browse(source: str, path: str, values: str, schemas: tuple[str, ...], masks: Masks) -> None:
    """Look around in SOURCE on a terminal: topics, partitions, records, damage.

    \b
    kafkafs browse /var/lib/kafka/data
    kafkafs browse /var/lib/kafka/data orders-0
    kafkafs browse /var/lib/kafka/data orders-0/offset/35
    kafkafs browse /var/lib/kafka/data orders-0/time/2024-01-01T10:30:00Z

    Arrows and Enter move, ? lists the keys, q leaves. Records are decoded and masked as
    cat shows them. c checks a partition in the background, / searches it, g goes to an
    offset or a time. With NO_COLOR damage is bold.

    Into a pipe, and on a terminal that cannot move its cursor (TERM=dumb), it prints
    the screen of PATH as text. Exit status: 0, or 3 if there is no such PATH.
    """
    masks.refuse(values)
    with (
        open_tree(source, values, schemas=schemas, mask=masks.policy) as tree,
        masks.told(tree.source),
    ):
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        if sys.stdout.isatty() and not is_dumb:
            _show(tree, path)
            return
        if sys.stdout.isatty():
            note(
                "TERM=dumb cannot move a cursor: this is one screen; set TERM to what the terminal is"
            )
        _print(tree, path)


def _print(tree: Tree, path: str) -> None:
    """Print one screen."""
    from kafkafs.browse.explorer import first_screen
    from kafkafs.browse.terminal import size_of_page
    from kafkafs.browse.work import AtOnce

    session = _session(tree, AtOnce(), lambda _: None)
    for line in first_screen(session, path.strip("/"), *size_of_page()):
        write_line(line)


def _show(tree: Tree, path: str) -> None:
    """Show the screens until they are left."""
    from kafkafs.browse.explorer import Explorer
    from kafkafs.browse.terminal import Terminal

    # Standard input may be the source.
    keys = os.dup(0) if os.isatty(0) else os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    try:
        terminal = Terminal(
            keys,
            sys.stdout.fileno(),
            sys.stdout.encoding,
            has_colours=not os.environ.get("NO_COLOR"),
        )
        explorer = Explorer(_session(tree, terminal.runner, terminal.copy), path.strip("/"))
        with terminal:
            terminal.run(explorer)
    finally:
        os.close(keys)


def _session(tree: Tree, runner: Runner, copy: Callable[[bytes], None]) -> BrowseSession:
    from kafkafs.browse.session import BrowseSession

    try:
        "█▓·…".encode(sys.stdout.encoding)
        is_unicode = True
    except (UnicodeEncodeError, LookupError):
        is_unicode = False
    return BrowseSession(tree, runner, _times, partial(_append, tree), copy, is_unicode)


def _times() -> TimeGrammar:
    """Return the grammar of times, with the moment at which it is asked as «now»."""
    from engine.clock import SYSTEM_CLOCK

    return grammar()._replace(now_ms=SYSTEM_CLOCK.now_ms())


def _append(tree: Tree, path: str, data: bytes) -> str:
    """Append to a file outside of the source; return what was done."""
    path = os.path.expanduser(path)
    try:
        refuse_inside(tree.source, path, "w")
        with open(path, "ab") as file:
            file.write(data)
    except click.BadParameter:
        return f"nothing is written into the source: {path}"
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return f"appended {len(data):,} bytes to {path}"
