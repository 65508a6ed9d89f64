"""Options that choose the records a Spark job reads, and the job's keywords made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from engine.errors import KafkaStorageError
from engine.log.partition_choice import Item, PartitionChoice, TopicItem
from kafkafs.cli.arguments import Command, source_paths
from kafkafs.cli.options.executors import pairs
from kafkafs.cli.options.partitions import (
    NothingMatchedError,
    partition_options,
    require_choice,
)
from kafkafs.cli.options.times import range_options
from kafkafs.cli.printing.verbosity import detail

if TYPE_CHECKING:
    from engine.log.log_bound import LogRange


def selection_options(on_corrupt: str) -> Callable[[Command], Command]:
    """Add --topic, --from and the like, as keyword arguments of a command; see `selected`.

    Args:
        on_corrupt: default of --on-corrupt.
    """

    def add(command: Command) -> Command:
        for option in _options(on_corrupt):
            command = option(command)
        return partition_options(range_options(command))

    return add


def _options(on_corrupt: str) -> tuple[Callable[[Command], Command], ...]:
    return (
        click.option(
            "-O",
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set another option of the data source, such as splitBytes=128m. Repeatable.",
        ),
        click.option(
            "--on-corrupt",
            type=click.Choice(["fail", "skip"]),
            default=on_corrupt,
            show_default=True,
            help="Fail at a damaged place, or list the place and continue.",
        ),
        click.option("--internal", is_flag=True, help="Include Kafka's own topics."),
        click.option("--committed", is_flag=True, help="Read as a read_committed consumer."),
    )


def selected(sources: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords `path`, `topics`, `since`, `until` and the data source options of a job.

    Raises:
        click.BadParameter: an option is malformed.
        NothingMatchedError: the source can be opened here, and lacks the topics.
    """
    paths = source_paths(sources)
    detail(f"reading {', '.join(paths)}")
    found: dict[str, Any] = {"path": paths}
    options: dict[str, str | bool] = {"onCorrupt": given["on_corrupt"]}
    options |= pairs(given["options"], "--option")
    if given["committed"]:
        options["isolationLevel"] = "read_committed"
    if given["internal"]:
        options["includeInternalTopics"] = True
    extent: LogRange = given["extent"]
    for option, name, bound in (("--from", "since", extent.start), ("--to", "until", extent.stop)):
        if bound is not None and bound.timestamp is None:
            raise click.BadParameter(
                f"{bound.offset} is an offset, and a job takes times; for milliseconds write @{bound.offset}",
                param_hint=option,
            )
        if bound is not None:
            found[name] = bound.timestamp
    choice: PartitionChoice = given["choice"]
    if choice.partitions:
        found["partitions"] = _partitions(paths, choice, internal=given["internal"])
    elif choice:
        _require_topics(paths, choice, internal=given["internal"])
        if all(is_exact(item) for item in choice.topics):
            found["topics"] = ",".join(item.text for item in choice.topics)
        else:
            options["subscribePattern"] = choice.topic_regex
    return found | options


def is_exact(item: Item) -> bool:
    """Return whether an item names one topic."""
    return isinstance(item, TopicItem) and item.topic.regex is None


def _partitions(
    paths: list[str], choice: PartitionChoice, *, internal: bool
) -> dict[str, list[int]]:
    """Return the numbers of the chosen partitions by topic."""
    from kafkafs.spark.source.options.partition_choice import ALL, choose
    from kafkafs.spark.source.options.source_paths import open_paths

    source = open_paths(tuple(paths))
    try:
        require_choice(choice, source.partitions())
        named = any(is_exact(item) for item in choice.topics) or choice.folders()
        there = choose(source.partitions(), ALL, internal=internal or bool(named))
        found: dict[str, list[int]] = {}
        for place, log in there.items():
            if choice.takes(log):
                found.setdefault(place.topic, []).append(place.partition)
        return found
    finally:
        source.close()


def _require_topics(paths: list[str], choice: PartitionChoice, *, internal: bool) -> None:
    """Check before a session starts that the topics exist; leave a source that cannot be opened here to Spark."""
    from kafkafs.spark.errors import OptionError
    from kafkafs.spark.source.options.partition_choice import ALL, choose
    from kafkafs.spark.source.options.source_paths import open_paths

    try:
        source = open_paths(tuple(paths))
    except (OptionError, KafkaStorageError, OSError):
        return
    try:
        require_choice(choice, source.partitions())
        shown = choose(source.partitions(), ALL, internal=internal)
        for item in choice.topics:
            if not is_exact(item) and not any(map(item.takes, shown.values())):
                raise NothingMatchedError(
                    f"no topic matches --topic {item.text}; name --internal too"
                )
    finally:
        source.close()
