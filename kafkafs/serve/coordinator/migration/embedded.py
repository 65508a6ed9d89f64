"""What classic consumers send to each other through their coordinator: subscriptions and assignments, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.coding.fixed_width import read_int16
from engine.errors import CorruptMessageError
from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from engine.topics.message.decoding import read_message
from engine.topics.message.encoding import write_message
from engine.topics.message.schema import Message
from kafkafs.serve.coordinator.assignors.hash_order import ids_in_hash_order, numbers_in_hash_order
from kafkafs.serve.coordinator.assignors.subscriber import Place
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.request import Fields


class EmbeddedSubscription(NamedTuple):
    """A subscription.

    Attributes:
        topics: names of topics.
        owned: the partitions that the member has, of topics that exist.
        rack_id: its rack, or None.
    """

    topics: frozenset[str]
    owned: list[Place]
    rack_id: str | None


def read_subscription(data: bytes, now: TopicsNow) -> EmbeddedSubscription:
    """Return the subscription in some bytes.

    Raises:
        CorruptMessageError: the bytes are none.
    """
    fields = _read(CONSUMER_PROTOCOL_SUBSCRIPTION, data)
    return EmbeddedSubscription(
        frozenset(fields["topics"]), _places(fields["ownedPartitions"], now), fields["rackId"]
    )


def read_assignment(data: bytes, now: TopicsNow) -> tuple[list[Place], bytes]:
    """Return the partitions of an assignment whose topics exist, and the data of its assignor.

    Raises:
        CorruptMessageError: the bytes are no assignment.
    """
    fields = _read(CONSUMER_PROTOCOL_ASSIGNMENT, data)
    return _places(fields["assignedPartitions"], now), fields["userData"] or b""


def assignment_bytes(
    places: Iterable[Place], names: Mapping[str, str], subscription: bytes
) -> bytes:
    """Return the bytes of an assignment, in the version of the subscription of its member.

    Args:
        places: the partitions.
        names: names of topics by id.
        subscription: the bytes of the subscription.
    """
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        if topic in names:
            topics.setdefault(topic, []).append(number)
    assigned = [
        {"topic": names[topic], "partitions": numbers_in_hash_order(topics[topic])}
        for topic in ids_in_hash_order(sorted(topics))
    ]
    message = CONSUMER_PROTOCOL_ASSIGNMENT
    version = min(_version(subscription), message.last_version)
    head = version.to_bytes(2, "big", signed=True)
    (data,) = write_message(message, version, {"assignedPartitions": assigned}, head)
    return bytes(data)


def _read(message: Message, data: bytes) -> Fields:
    return read_message(message, _version(data), data, 2, lenient=True)[0]


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise CorruptMessageError("a message of a consumer is cut off within its version")
    return read_int16(data)


def _places(topics: Iterable[Fields], now: TopicsNow) -> list[Place]:
    return [
        (topic_id, number)
        for each in topics
        for topic_id in now.ids([each["topic"]])
        for number in each["partitions"]
    ]
