"""What may stand at a place of the command line: paths of the tree, topics, partitions, groups, rules, pages.

The names are those of the SOURCE that is on the command line before. A source that cannot be read has none: a
completion never prints an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from engine.log.log_directory import LogSource


def source_paths(text: str) -> list[str]:
    """Return the log dirs in an argument, which may list several, comma-separated as in log.dirs."""
    return [text] if os.path.lexists(text) or "," not in text else text.split(",")


Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"

MOST = 1000
"""Names that are offered at most."""
MOST_BYTES = 16 << 20
"""Size of the logs of __consumer_offsets up to which the names of groups are read: a completion must not take long."""


def completer(names: Callable[[click.Context, str], Iterable[str]]) -> Completer:
    """Return the completer for some names; any error means that there are none."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with suppress(Exception):
            fitting = (name for name in names(context, begun) if name.startswith(begun))
            return [CompletionItem(name) for name in islice(fitting, MOST)]
        return []

    return complete


def files(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Leave the completion to the shell, which knows its files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]


def words_of_grep(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete PATTERN SOURCE [PATH]...: nothing for a pattern, files for a source, then paths of the tree."""
    given = context.params.get("arguments") or ()
    place = len(given) + bool(context.params.get("patterns"))
    if place == 0:
        return []
    return files(context, parameter, begun) if place == 1 else paths(context, parameter, begun)


def _sources(context: click.Context) -> tuple[str, ...]:
    """Return the sources that are on the command line before."""
    given = context.params
    # An option without its value ends click's parsing: the arguments before it are still words.
    words = tuple(word for word in context.args if not word.startswith("-"))
    if context.command.name == "grep":
        words = given.get("arguments") or words
        return words[:1] if given.get("patterns") else words[1:2]
    if "source" in given or any(each.name == "source" for each in context.command.params):
        return (given["source"],) if given.get("source") else words[:1]
    several: Any = given.get("sources") or given.get("paths") or words
    return tuple(several)


@contextmanager
def _opened(context: click.Context) -> Iterator[LogSource]:
    from engine.log.log_directory import open_source

    source = open_source([path for text in _sources(context) for path in source_paths(text)])
    try:
        yield source
    finally:
        source.close()


def _last_item(names: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Return the completer for the last item of a comma-separated list."""

    def listed(context: click.Context, begun: str) -> Iterator[str]:
        before, comma, _ = begun.rpartition(",")
        return (f"{before}{comma}{name}" for name in names(context))

    return completer(listed)


def _topics(context: click.Context) -> list[str]:
    with _opened(context) as source:
        return sorted({log.topic_partition.topic for log in source.partitions().values()})


def _partitions(context: click.Context) -> list[str]:
    with _opened(context) as source:
        return list(source.partitions())


def _groups(context: click.Context, _: str) -> list[str]:
    from engine.replay.internal_logs import InternalLogs
    from engine.replay.source_state import SourceState
    from engine.topics.topic_names import CONSUMER_OFFSETS

    with _opened(context) as source:
        logs = InternalLogs(source)
        views = filter(None, (log.view_or_none() for log in logs.of(CONSUMER_OFFSETS)))
        if sum(view.size for view in views) > MOST_BYTES:
            return []
        return list(SourceState(source, logs=logs).known_groups().names)


def _subjects(context: click.Context, _: str) -> list[str]:
    from kafkafs.schemas.sources.opened import open_schemas

    paths = [path for text in _sources(context) for path in source_paths(text)]
    topic = context.params.get("registry_topic")
    return open_schemas(paths, *([topic] if topic else [])).subjects()


def _paths(context: click.Context, begun: str) -> Iterator[str]:
    from kafkafs.tree.errors import NotADirectory, NotFound
    from kafkafs.tree.node import Directory, Kind
    from kafkafs.tree.tree import Tree

    folder, slash, _ = begun.rpartition("/")
    with _opened(context) as source:
        tree = Tree(source)
        inside = [name for name, log in source.partitions().items() if not log.folder]
        for start in ("", *inside):  # also paths inside of a partition's folder
            with suppress(NotFound, NotADirectory):
                node = tree.resolve("/".join(filter(None, (start, *folder.split("/")))))
                for entry in node.entries(0) if isinstance(node, Directory) else ():
                    name = f"{folder}{slash}{entry.name}"
                    if name.startswith(begun):
                        yield name + ("/" if entry.kind is Kind.DIRECTORY else "")


def _rules(_: click.Context, __: str) -> Iterable[str]:
    from engine.check.rules.rules import RULES

    return sorted(RULES)


paths = completer(_paths)
topics = _last_item(_topics)
partitions = _last_item(_partitions)
groups = completer(_groups)
subjects = completer(_subjects)
rules = completer(_rules)
