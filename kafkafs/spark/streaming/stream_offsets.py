"""Place of a streaming query: the next offset of each partition, in the form of Spark's checkpoint.

The form is the Kafka connector's: {"topic": {"0": 23, "1": 42}}. Topic ids (partition.metadata) add one key:
{"@topicIds": {"topic": {"<id>": [0, 1]}}}. No topic can have that name. Spark compares two places as text, so the
same offsets are always written in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from engine.units import Offset, TopicPartition
from kafkafs.spark.errors import OptionError

StreamOffsets: TypeAlias = Mapping[TopicPartition, Offset]
TopicIds: TypeAlias = Mapping[TopicPartition, str]
TOPIC_IDS = "@topicIds"


class StreamPlace(NamedTuple):
    """Place of a query.

    Attributes:
        offsets: next offset of each partition.
        topic_ids: known topic ids of the partitions. Checkpoints of older versions and of the connector have none,
            nor have logs without partition.metadata.
    """

    offsets: StreamOffsets
    topic_ids: TopicIds


def to_json(place: StreamPlace) -> dict[str, dict[str, Any]]:
    """Return topics by name, with their partitions by number, and the known topic ids."""
    found: dict[str, dict[str, Any]] = {}
    for partition in sorted(place.offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = place.offsets[partition]
    ids: dict[str, dict[str, list[int]]] = {}
    for partition in sorted(place.topic_ids.keys() & place.offsets.keys()):
        numbers = ids.setdefault(partition.topic, {})
        numbers.setdefault(place.topic_ids[partition], []).append(partition.partition)
    return found | {TOPIC_IDS: ids} if ids else found


def from_json(said: Any) -> StreamPlace:  # noqa: ANN401
    """Parse the result of `to_json`.

    Raises:
        OptionError: the JSON has no offsets of partitions: the checkpoint is of another source.
    """
    offsets: dict[TopicPartition, Offset] = {}
    topic_ids: dict[TopicPartition, str] = {}
    for topic, partitions in _items(said, said):
        if topic == TOPIC_IDS:
            topic_ids = _topic_ids(partitions, said)
            continue
        for number, offset in _items(partitions, said):
            if not (_is_whole(offset) and number.isascii() and number.isdigit()):
                raise _not_offsets(said)
            offsets[TopicPartition(topic, int(number))] = offset
    return StreamPlace(offsets, topic_ids)


def _topic_ids(value: object, said: object) -> dict[TopicPartition, str]:
    found: dict[TopicPartition, str] = {}
    for topic, numbers_by_id in _items(value, said):
        for topic_id, numbers in _items(numbers_by_id, said):
            if not (isinstance(numbers, list) and all(map(_is_whole, numbers))):
                raise _not_offsets(said)
            found |= {TopicPartition(topic, number): topic_id for number in numbers}
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _items(value: object, said: object) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _not_offsets(said)
    return list(value.items())


def _not_offsets(said: object) -> OptionError:
    return OptionError(
        f'the checkpoint is of another source: expected offsets such as {{"topicA":{{"0":23,"1":42}}}}, got {said}'
    )
