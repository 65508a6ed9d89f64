"""Options that choose the records a Spark job reads, and the job's keywords made of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from engine.errors import KafkaStorageError
from engine.log.unmatched import known_names
from kafkafs.cli.arguments import Command, source_paths, time_of
from kafkafs.cli.partition_choice import NothingMatchedError
from kafkafs.cli.spark.job import pairs


def selection_options(on_corrupt: str) -> Callable[[Command], Command]:
    """Add --topics, --since and the like, as keyword arguments of a command; see `selected`.

    Args:
        on_corrupt: default of --on-corrupt.
    """

    def add(command: Command) -> Command:
        for option in _options(on_corrupt):
            command = option(command)
        return command

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
        click.option(
            "--until", metavar="TIME", help="Stop before the first record at or after this."
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Start at the first record at or after this: 2024-01-01, 2024-01-01T10:30:00Z, "
            "or milliseconds since 1970.",
        ),
        click.option(
            "--topic-pattern",
            metavar="REGEX",
            help="Take only topics with a match of REGEX in their names.",
        ),
        click.option("--topics", metavar="LIST", help="Take only these topics, comma-separated."),
    )


def selected(sources: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords `path`, `topics`, `since`, `until` and the data source options of a job.

    Raises:
        click.BadParameter: an option is malformed.
        NothingMatchedError: the source can be opened here, and lacks the topics.
    """
    found: dict[str, Any] = {"path": source_paths(sources)}
    options: dict[str, str | bool] = {"onCorrupt": given["on_corrupt"]}
    options |= pairs(given["options"], "--option")
    if given["topics"] is not None:
        found["topics"] = given["topics"]
    if given["topic_pattern"] is not None:
        options["subscribePattern"] = given["topic_pattern"]
    if given["committed"]:
        options["isolationLevel"] = "read_committed"
    if given["internal"]:
        options["includeInternalTopics"] = True
    for name in ("since", "until"):
        if given[name] is not None:
            found[name] = time_of(given[name], f"--{name}")
    if given["topics"] is not None or given["topic_pattern"] is not None:
        _require_topics(found["path"], given)
    return found | options


def _require_topics(paths: list[str], given: dict[str, Any]) -> None:
    """Check before a session starts that the topics exist; leave a source that cannot be opened here to Spark."""
    from kafkafs.spark.errors import OptionError
    from kafkafs.spark.source.options.partition_choice import ALL, choose
    from kafkafs.spark.source.options.source_paths import open_paths

    try:
        source = open_paths(tuple(paths))
    except (OptionError, KafkaStorageError, OSError):
        return
    try:
        logs = source.partitions()
        topics = sorted({each.topic for each in choose(logs, ALL, internal=True)})
        shown = sorted({each.topic for each in choose(logs, ALL, internal=given["internal"])})
    finally:
        source.close()
    for name in filter(None, map(str.strip, (given["topics"] or "").split(","))):
        if name not in topics:
            there = known_names(shown, "topic", name)
            raise NothingMatchedError(f"no topic matches --topics {name}; {there}")
    _require_match(given["topic_pattern"], topics, shown)


def _require_match(text: str | None, topics: list[str], shown: list[str]) -> None:
    """Check that a pattern is found in the name of a topic."""
    if text is None:
        return
    try:
        pattern = re.compile(text.strip())
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is not a regular expression: {error}", param_hint="--topic-pattern"
        ) from error
    if any(map(pattern.search, shown)):
        return
    is_internal = any(map(pattern.search, topics))
    there = "name --internal too" if is_internal else known_names(shown, "topic", text)
    raise NothingMatchedError(f"no topic matches --topic-pattern {text}; {there}")
