"""Partitions that a query reads: subscribe, subscribePattern, assign, or all.

Options and errors are the connector's, with two additions. A pattern and «all» leave out internal topics unless
the query includes them. Folders that are being deleted or moved, and a second copy of a partition in another log
dir, are never chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from engine.log.partition_log import PartitionLog
from engine.topics.topic_names import KAFKA_TOPICS
from engine.units import TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.offset_limits import parse_assignment

STRATEGIES = ("subscribe", "subscribePattern", "assign")
_LISTED = ", ".join(name.lower() for name in STRATEGIES)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of some topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics with a match of a pattern anywhere in their names."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """Partitions by name."""

    partitions: tuple[TopicPartition, ...]


Choice: TypeAlias = Subscribe | SubscribePattern | Assign

ALL = SubscribePattern("")


def parse_choice(options: Mapping[str, str]) -> Choice:
    """Return the choice of the options (by lower-case name); all topics if none of the three is set.

    Raises:
        OptionError: an option is malformed, or more than one is set.
    """
    named = [name for name in STRATEGIES if name.lower() in options]
    if len(named) > 1:
        raise OptionError(
            "Only one of the following options can be specified for Kafka source: "
            f"{_LISTED}. See the docs for more details."
        )
    if not named:
        return ALL
    text = options[named[0].lower()]
    match named[0]:
        case "assign":
            return Assign(tuple(parse_assignment(text)))
        case "subscribe":
            topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
            if not topics:
                raise OptionError(
                    f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'"
                )
            return Subscribe(topics)
        case _:
            return _parse_pattern(text)


def _parse_pattern(text: str) -> SubscribePattern:
    pattern = text.strip()
    if not pattern:
        raise OptionError(
            "Pattern to subscribe is empty as specified value for option"
            f" 'subscribePattern' is '{text}'"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(
            f"'subscribePattern' is not a regular expression: {error}: {pattern}"
        ) from error
    return SubscribePattern(pattern)


def choose(
    logs: Mapping[str, PartitionLog],
    choice: Choice,
    *,
    internal: bool = False,
    must_exist: bool = True,
) -> dict[TopicPartition, PartitionLog]:
    """Return the chosen partitions that exist, sorted.

    Args:
        logs: partitions of a source.
        choice: which of them to take.
        internal: whether a pattern may match Kafka's own topics. Topics that are named, also by the path of a
            partition's folder, are always taken.
        must_exist: whether a named topic must exist.

    Raises:
        OptionError: a named topic does not exist.
    """
    there = {
        log.topic_partition: log for name, log in logs.items() if name == str(log.topic_partition)
    }
    topics = {partition.topic for partition in there}
    match choice:
        case Subscribe(names):
            _check_known(names if must_exist else (), topics)
            taken = {each for each in there if each.topic in names}
        case Assign(partitions):
            _check_known([each.topic for each in partitions if must_exist], topics)
            taken = {each for each in partitions if each in there}
        case SubscribePattern(pattern):
            found = re.compile(pattern)
            taken = {
                each
                for each in there
                if found.search(each.topic)
                and (internal or each.topic not in KAFKA_TOPICS or not there[each].folder)
            }
    return {each: there[each] for each in sorted(taken)}


def _check_known(names: tuple[str, ...] | list[str], topics: set[str]) -> None:
    for name in names:
        if name not in topics:
            raise OptionError(
                f"UnknownTopicOrPartitionException: no folder of the log dirs holds a partition of {name!r}"
            )
