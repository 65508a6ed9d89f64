"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.log.log_directory import LogSource, open_source

if TYPE_CHECKING:
    from kafkafs.tree.tree import Tree

Command = TypeVar("Command", bound=Callable[..., Any])

VALUE_MODES = ("auto", "text", "json", "base64", "hex", "none")

source_argument = click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
one_source_argument = click.argument("source", metavar="SOURCE")


def values_option(command: Command) -> Command:
    """--values, the form of keys and values in record lines."""
    return click.option(
        "--values",
        type=click.Choice(VALUE_MODES),
        default="auto",
        show_default=True,
        help="How keys, values and header values are written in record lines.",
    )(command)


def source_paths(sources: tuple[str, ...]) -> list[str]:
    """The log dirs that were named; one argument may hold several, comma-separated as in log.dirs."""
    paths: list[str] = []
    for source in sources:
        paths += [source] if os.path.lexists(source) or "," not in source else source.split(",")
    return paths


@contextmanager
def open_log_source(sources: tuple[str, ...]) -> Iterator[LogSource]:
    """The sources, opened to read; closed at the end."""
    source = open_source(source_paths(sources))
    try:
        yield source
    finally:
        source.close()


@contextmanager
def open_tree(source: str, values: str = "auto") -> Iterator[Tree]:
    """The tree over one SOURCE argument."""
    from kafkafs.tree.tree import Tree, TreeOptions

    with open_log_source((source,)) as logs:
        yield Tree(logs, options=TreeOptions(values=values))


def clean_path(path: str) -> str:
    """A path of the tree as a person types it: slashes at the ends and twice in a row do not count."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
