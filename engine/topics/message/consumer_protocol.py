"""Messages that clients of a classic group put into the metadata of its members."""

from __future__ import annotations

from engine.topics.message.schema import BYTES, INT32, STRING, Array, Field, Message, Struct

TOPIC_PARTITION = Struct(
    "TopicPartition",
    (
        Field("topic", STRING, since=1),
        Field("partitions", Array(INT32), since=1),
    ),
)

CONSUMER_PROTOCOL_SUBSCRIPTION = Message(
    "ConsumerProtocolSubscription",
    (
        Field("topics", Array(STRING)),
        Field("userData", BYTES, nullable=True, default=None),
        Field("ownedPartitions", Array(TOPIC_PARTITION), since=1),
        Field("generationId", INT32, since=2, default=-1),
        Field("rackId", STRING, since=3, nullable=True, default=None),
    ),
    last_version=3,
)

CONSUMER_PROTOCOL_ASSIGNMENT_TOPIC_PARTITION = Struct(
    "TopicPartition",
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)

CONSUMER_PROTOCOL_ASSIGNMENT = Message(
    "ConsumerProtocolAssignment",
    (
        Field("assignedPartitions", Array(CONSUMER_PROTOCOL_ASSIGNMENT_TOPIC_PARTITION)),
        Field("userData", BYTES, nullable=True, default=None),
    ),
    last_version=3,
)
