"""Messages about the start offsets of share groups, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC = Struct(
    "DescribeShareGroupOffsetsRequestTopic",
    (
        Field("topicName", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP = Struct(
    "DescribeShareGroupOffsetsRequestGroup",
    (
        Field("groupId", STRING),
        Field("topics", Array(_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC), nullable=True),
    ),
)

_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION = Struct(
    "DescribeShareGroupOffsetsResponsePartition",
    (
        Field("partitionIndex", INT32),
        Field("startOffset", INT64),
        Field("leaderEpoch", INT32),
        Field("lag", INT64, since=1, default=-1),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
    ),
)

_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC = Struct(
    "DescribeShareGroupOffsetsResponseTopic",
    (
        Field("topicName", STRING),
        Field("topicId", UUID),
        Field("partitions", Array(_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION)),
    ),
)

_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP = Struct(
    "DescribeShareGroupOffsetsResponseGroup",
    (
        Field("groupId", STRING),
        Field("topics", Array(_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC)),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
    ),
)

DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    90,
    Message(
        "DescribeShareGroupOffsetsRequest",
        (Field("groups", Array(_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP)),),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "DescribeShareGroupOffsetsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("groups", Array(_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)

_ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION = Struct(
    "AlterShareGroupOffsetsRequestPartition",
    (
        Field("partitionIndex", INT32),
        Field("startOffset", INT64),
    ),
)

_ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC = Struct(
    "AlterShareGroupOffsetsRequestTopic",
    (
        Field("topicName", STRING),
        Field("partitions", Array(_ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION)),
    ),
)

_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION = Struct(
    "AlterShareGroupOffsetsResponsePartition",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
    ),
)

_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC = Struct(
    "AlterShareGroupOffsetsResponseTopic",
    (
        Field("topicName", STRING),
        Field("topicId", UUID),
        Field("partitions", Array(_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION)),
    ),
)

ALTER_SHARE_GROUP_OFFSETS = Api(
    91,
    Message(
        "AlterShareGroupOffsetsRequest",
        (
            Field("groupId", STRING),
            Field("topics", Array(_ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "AlterShareGroupOffsetsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("responses", Array(_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

_DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC = Struct(
    "DeleteShareGroupOffsetsRequestTopic",
    (Field("topicName", STRING),),
)

_DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC = Struct(
    "DeleteShareGroupOffsetsResponseTopic",
    (
        Field("topicName", STRING),
        Field("topicId", UUID),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
    ),
)

DELETE_SHARE_GROUP_OFFSETS = Api(
    92,
    Message(
        "DeleteShareGroupOffsetsRequest",
        (
            Field("groupId", STRING),
            Field("topics", Array(_DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "DeleteShareGroupOffsetsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("responses", Array(_DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
