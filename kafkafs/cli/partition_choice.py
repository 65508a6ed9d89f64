"""Choice of partitions: --topic, --topic-partitions, and paths of the tree.

A choice that matches nothing is an error that names the existing partitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from engine.errors import SourceError
from engine.log.unmatched import unmatched_partition
from kafkafs.cli.arguments import Command, clean_path
from kafkafs.decode.shown_text import printable
from kafkafs.tree.errors import NotFound

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_log import PartitionLog
    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree

Found = TypeVar("Found")

_ITEM = re.compile(r"([^:,]*)(?::(?:([0-9]+)|([0-9]*)-([0-9]*))?)?")


class NothingMatchedError(click.ClickException):
    """A choice of topics or partitions that matches nothing, in one line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one line on standard error."""
        click.echo(f"kafkafs: {printable(self.message)}", file=file, err=True)


class PartitionRange(NamedTuple):
    """One item of a choice: a folder's name, or a topic pattern and a half-open range of partitions."""

    text: str
    topic: re.Pattern[str]
    first: int
    end: int | None

    def takes(self, log: PartitionLog) -> bool:
        """Return whether the item names a log."""
        if log.name == self.text:
            return True
        topic, partition = log.topic_partition
        in_range = self.first <= partition and (self.end is None or partition < self.end)
        return in_range and self.topic.fullmatch(topic) is not None


class PartitionChoice(NamedTuple):
    """Partitions that --topic or --topic-partitions names; all partitions without items."""

    option: str
    items: tuple[PartitionRange, ...]

    def takes(self, log: PartitionLog) -> bool:
        """Return whether a log is chosen."""
        return not self.items or any(item.takes(log) for item in self.items)

    def require(self, source: LogSource) -> None:
        """Check that every item names a partition of the source.

        Raises:
            NothingMatchedError: an item names none.
        """
        logs = source.partitions()
        for item in self.items:
            if not any(item.takes(log) for log in logs.values()):
                selector = f"{self.option} {item.text}"
                raise NothingMatchedError(unmatched_partition(selector, item.text, logs))


def partition_options(command: Command) -> Command:
    """Add --topic and --topic-partitions; see `partition_choice`."""
    for option in (
        click.option(
            "--topic", metavar="REGEX", help="Take only topics that REGEX matches as a whole."
        ),
        click.option(
            "--topic-partitions",
            metavar="LIST",
            help="Take only these, comma-separated: TOPIC, TOPIC:PARTITION, TOPIC:LOW-HIGH (HIGH "
            "exclusive) or a partition's folder (orders-0); TOPIC is a regular expression.",
        ),
    ):
        command = option(command)
    return command


def partition_choice(topic: str | None, topic_partitions: str | None) -> PartitionChoice:
    """Parse the two options.

    Raises:
        click.UsageError: both are given, or one is malformed.
    """
    if topic is not None and topic_partitions is not None:
        raise click.UsageError("--topic and --topic-partitions cannot be used together")
    option, text = (
        ("--topic", topic) if topic is not None else ("--topic-partitions", topic_partitions)
    )
    if text is None:
        return PartitionChoice("", ())
    return PartitionChoice(option, tuple(_parse_item(part, option) for part in text.split(",")))


def _parse_item(text: str, option: str) -> PartitionRange:
    """Parse an item of GetOffsetShell's list: `topic:partition`, `topic:low-high` (high exclusive), `:partition`."""
    match = _ITEM.fullmatch(text)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is not TOPIC, TOPIC:PARTITION, TOPIC:LOW-HIGH or a partition's folder",
            param_hint=option,
        )
    topic, one, low, high = match.groups()
    try:
        pattern = re.compile(topic or ".*")
    except re.error as error:
        raise click.BadParameter(
            f"{topic!r} is not a regular expression: {error}", param_hint=option
        ) from error
    if one is not None:
        return PartitionRange(text, pattern, int(one), int(one) + 1)
    return PartitionRange(text, pattern, int(low or 0), int(high) if high else None)


def require_partitions(source: LogSource) -> Mapping[str, PartitionLog]:
    """Return the partitions of a source.

    Raises:
        SourceError: the source has none.
    """
    logs = source.partitions()
    if not logs:
        paths = ", ".join(root.path for root in source.roots)
        raise SourceError(f"{paths} has no partition", hint="name a log dir that a broker wrote to")
    return logs


def node_at(tree: Tree, path: str) -> Node:
    """Return the node of a path that a user typed.

    Raises:
        NotFound: there is no such node; for an unknown partition the error names the existing ones.
    """
    return with_known_partitions(tree.source, path, lambda: tree.resolve(clean_path(path)))


def with_known_partitions(source: LogSource, path: str, find: Callable[[], Found]) -> Found:
    """Call `find` for a path of the tree; name the existing partitions when the path names an unknown one.

    Raises:
        NotFound: from `find`, with the existing partitions added.
    """
    try:
        return find()
    except NotFound as error:
        from kafkafs.tree.root.root import OWN_NAMES

        parts = clean_path(path).split("/")
        name = parts[2] if parts[0] == "time" and len(parts) > 2 else parts[0]
        logs = source.partitions()
        if name in logs or name in OWN_NAMES:
            raise
        raise NotFound(error.path, unmatched_partition("", name, logs)) from None
