"""Paths of the tree as a user types them, and what to write instead of a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kafkafs.cli.arguments import clean_path
from kafkafs.tree.errors import NotADirectory, NotFound

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.view.log_view import LogView
    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree

Result = TypeVar("Result")
_MOST_NAMES = 10_000


def node_at(tree: Tree, path: str) -> Node:
    """Return the node of a path that a user typed.

    Raises:
        NotFound: there is no such node; the error has the existing names or offsets.
    """
    return found_at(tree.source, path, tree.resolve)


def found_at(source: LogSource, path: str, find: Callable[[str], Result]) -> Result:
    """Call `find` for a path of the tree; in a source that is one partition's folder also for a path inside of it.

    Raises:
        NotFound: from `find`, with what there is: partitions, offsets, or a similar name.
    """
    typed = clean_path(path)
    try:
        return find(typed)
    except (NotFound, NotADirectory) as error:
        logs = source.partitions()
        if len(logs) == 1 and typed.split("/")[0] not in logs:
            ((name, log),) = logs.items()
            if not log.folder:
                try:
                    return find(f"{name}/{typed}")
                except NotFound as inside:
                    if typed.split("/")[0] not in ("time", "state"):
                        raise explained(source, f"{name}/{typed}", inside) from None
        if isinstance(error, NotADirectory):
            raise
        raise explained(source, typed, error) from None


def explained(source: LogSource, path: str, error: NotFound) -> NotFound:
    """Return an error with what there is in place of a path."""
    from engine.log.unmatched import unmatched_partition
    from kafkafs.tree.root.root import OWN_NAMES

    parts = path.split("/")
    name = parts[2] if parts[0] == "time" and len(parts) > 2 else parts[0]
    logs = source.partitions()
    if name not in logs and name not in OWN_NAMES:
        return NotFound(error.path, unmatched_partition("", name, logs))
    view = logs[name].view_or_none() if name in logs else None
    there = _offsets(view, parts) or _like(source, path)
    reason = error.reason or "no such file or folder"
    return NotFound(error.path, f"{reason}; {there}") if there else error


def _offsets(view: LogView | None, parts: list[str]) -> str | None:
    """Return the offsets or times of a log, for a path in offset/ or time/."""
    from kafkafs.cli.printing.terminal.table import moment
    from kafkafs.tree.path_names import parse_instant, parse_offset, parse_period, parse_range

    if view is None or len(parts) < 3:
        return None
    name = parts[2].partition(".")[0] if parts[1] == "offset" else parts[2]
    if parts[1] == "offset" and (
        parse_offset(name) is not None or parse_range(parts[2]) is not None
    ):
        return f"log start {view.log_start_offset}, end {view.log_end_offset}"
    if parts[1] == "time":
        if parse_instant(name) is None and parse_period(name) is None:
            return "a time is 2024-01-01T10:30:00Z, 2024-01-01 or milliseconds since 1970"
        newest = view.max_timestamp
        return (
            None if newest is None else f"the newest record has the time {moment(newest.timestamp)}"
        )
    return None


def _like(source: LogSource, path: str) -> str | None:
    """Return a similar path, with the first name that does not exist replaced."""
    from engine.log.unmatched import most_like
    from kafkafs.tree.node import Directory
    from kafkafs.tree.tree import Tree

    node: Node = Tree(source).root()
    parts = path.split("/")
    for place, name in enumerate(parts):
        if not isinstance(node, Directory):
            return None
        folder = node
        try:
            node = folder.lookup(name)
        except NotFound:
            names = [entry.name for entry in islice(folder.entries(0), _MOST_NAMES)]
            like = most_like(name, names)
            return like and f"did you mean {'/'.join([*parts[:place], like])}?"
    return None
