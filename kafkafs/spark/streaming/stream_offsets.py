"""Where a streaming query is: the next offset of each partition, as Spark keeps it in a checkpoint.

The form is the Kafka connector's: {"topic": {"0": 23, "1": 42}}. Spark compares the text of two of them,
so equal offsets are always written in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from engine.units import Offset, TopicPartition
from kafkafs.spark.errors import OptionError

StreamOffsets: TypeAlias = Mapping[TopicPartition, Offset]


def to_json(offsets: StreamOffsets) -> dict[str, dict[str, int]]:
    """Topics by name, their partitions by number."""
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(said: Any) -> dict[TopicPartition, Offset]:  # noqa: ANN401
    """The same read back.

    Raises:
        OptionError: they are no offsets of partitions: the checkpoint is another source's.
    """
    found = {}
    for topic, partitions in _items(said, said):
        for number, offset in _items(partitions, said):
            is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
            if not (is_offset and number.isascii() and number.isdigit()):
                raise _not_offsets(said)
            found[TopicPartition(topic, int(number))] = offset
    return found


def _items(value: object, said: object) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _not_offsets(said)
    return list(value.items())


def _not_offsets(said: object) -> OptionError:
    return OptionError(
        f'the checkpoint is of another source: expected offsets such as {{"topicA":{{"0":23,"1":42}}}}, got {said}'
    )
