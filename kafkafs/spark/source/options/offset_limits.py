"""Start and end of a read as the options give them, before any log is opened.

The precedence is the connector's: one timestamp for all partitions, then timestamps by partition, then offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from engine.units import Offset, Timestamp, TopicPartition
from kafkafs.spark.errors import OptionError, unresolved_start_is_greater

LATEST: Offset = -1
EARLIEST: Offset = -2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extreme:
    """The log start or the log end of every partition: EARLIEST or LATEST."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition; EARLIEST and LATEST are allowed."""

    offsets: Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The first record at or after one time, in every partition."""

    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """The first record at or after a time for each partition."""

    timestamps: Mapping[TopicPartition, Timestamp]


OffsetLimit: TypeAlias = Extreme | SpecificOffsets | GlobalTimestamp | SpecificTimestamps


def parse_limit(options: Mapping[str, str], position: str, default: Offset) -> OffsetLimit:
    """Parse `<position>Timestamp`, `<position>OffsetsByTimestamp` and `<position>Offsets`.

    Args:
        options: options by lower-case name.
        position: "starting" or "ending".
        default: EARLIEST or LATEST, if none of the three is set.

    Raises:
        OptionError: an option is malformed.
    """
    if (text := options.get(f"{position}timestamp")) is not None:
        return GlobalTimestamp(_milliseconds(text, f"{position}Timestamp"))
    if (text := options.get(f"{position}offsetsbytimestamp")) is not None:
        return SpecificTimestamps(
            _by_partition(
                text,
                'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},'
                ' "topicB": {"0": 123456789, "1": 123456789}}',
            )
        )
    text = options.get(f"{position}offsets")
    if text is None:
        return Extreme(default)
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return Extreme(LATEST if word == "latest" else EARLIEST)
    offsets = _by_partition(
        text, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', least=EARLIEST
    )
    return SpecificOffsets(offsets)


def check_batch(start: OffsetLimit, end: OffsetLimit) -> None:
    """Refuse limits that a batch query cannot have, and a start above the end.

    Raises:
        OptionError: the limits are not valid for a batch query.
    """
    if start == Extreme(LATEST):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if end == Extreme(EARLIEST):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(start, SpecificOffsets):
        for partition, offset in start.offsets.items():
            if offset == LATEST:
                raise OptionError(
                    f"startingOffsets for {partition} can't be latest for batch queries on Kafka"
                )
    if isinstance(end, SpecificOffsets):
        for partition, offset in end.offsets.items():
            if offset == EARLIEST:
                raise OptionError(
                    f"ending offset for {partition} can't be earliest for batch queries on Kafka"
                )
    _check_order(start, end)


def _check_order(start: OffsetLimit, end: OffsetLimit) -> None:
    match start, end:
        case SpecificOffsets(starts), SpecificOffsets(ends):
            _check_same(starts, ends)
            for partition, offset in starts.items():
                if 0 <= ends[partition] < offset:
                    raise unresolved_start_is_greater("offset", partition, offset, ends[partition])
        case SpecificTimestamps(starts), SpecificTimestamps(ends):
            _check_same(starts, ends)
            for partition, timestamp in starts.items():
                if timestamp > ends[partition]:
                    raise unresolved_start_is_greater(
                        "timestamp", partition, timestamp, ends[partition]
                    )
        case GlobalTimestamp(first), GlobalTimestamp(last) if first > last:
            raise OptionError(
                "[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start timestamp"
                f" {first} is greater than the end timestamp {last}."
            )
        case _:
            pass


def _check_same(starts: Collection[TopicPartition], ends: Collection[TopicPartition]) -> None:
    if set(starts) != set(ends):
        raise OptionError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The specified start offset"
            " and end offset should have the same topic-partitions. Topic-partitions for start offset:"
            f" {', '.join(map(str, starts))}, topic-partitions for end offset: {', '.join(map(str, ends))}."
        )


def parse_assignment(text: str) -> dict[TopicPartition, None]:
    """Return the partitions of `assign`, in order.

    Raises:
        OptionError: the text is not of the form {"topic": [0, 1]}.
    """
    if not text.strip().startswith("{"):
        raise OptionError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{text}'"
        )

    def partitions(value: object) -> dict[TopicPartition, None]:
        return {
            TopicPartition(topic, _whole(number)): None
            for topic, numbers in _items(value)
            for number in _list(numbers)
        }

    return _parsed(text, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}', partitions)


def _by_partition(text: str, expected: str, least: int = 0) -> dict[TopicPartition, int]:
    def partitions(value: object) -> dict[TopicPartition, int]:
        found = {}
        for topic, numbers in _items(value):
            for partition, number in _items(numbers):
                if not partition.isascii() or not partition.isdigit():
                    raise ValueError(partition)
                found[TopicPartition(topic, int(partition))] = _whole(number, least)
        return found

    return _parsed(text, expected, partitions)


def _parsed(text: str, expected: str, parse: Callable[[object], T]) -> T:
    try:
        return parse(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(f"{expected}, got {text}") from error


def _items(value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return list(value.items())


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _whole(value: object, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise ValueError(value)
    return value


def _milliseconds(text: str, name: str) -> Timestamp:
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and -(1 << 63) <= int(text) < 1 << 63):
        raise OptionError(
            f"Expected a single long value, got {text}: {name} is in milliseconds since 1970, UTC"
        )
    return int(text)
