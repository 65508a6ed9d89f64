"""Messages of share groups: members and descriptions, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_TOPIC_PARTITIONS = Struct(
    "TopicPartitions",
    (
        Field("topicId", UUID),
        Field("partitions", Array(INT32)),
    ),
)

_ASSIGNMENT = Struct(
    "Assignment",
    (Field("topicPartitions", Array(_TOPIC_PARTITIONS)),),
)

SHARE_GROUP_HEARTBEAT = Api(
    76,
    Message(
        "ShareGroupHeartbeatRequest",
        (
            Field("groupId", STRING),
            Field("memberId", STRING),
            Field("memberEpoch", INT32),
            Field("rackId", STRING, nullable=True, default=None),
            Field("subscribedTopicNames", Array(STRING), nullable=True, default=None),
        ),
        first_version=1,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "ShareGroupHeartbeatResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("memberId", STRING, nullable=True, default=None),
            Field("memberEpoch", INT32),
            Field("heartbeatIntervalMs", INT32),
            Field("assignment", _ASSIGNMENT, nullable=True, default=None),
        ),
        first_version=1,
        last_version=1,
        flexible_since=0,
    ),
)

_SHARE_GROUP_DESCRIBE_RESPONSE_TOPIC_PARTITIONS = Struct(
    "TopicPartitions",
    (
        Field("topicId", UUID),
        Field("topicName", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_SHARE_GROUP_DESCRIBE_RESPONSE_ASSIGNMENT = Struct(
    "Assignment",
    (Field("topicPartitions", Array(_SHARE_GROUP_DESCRIBE_RESPONSE_TOPIC_PARTITIONS)),),
)

_MEMBER = Struct(
    "Member",
    (
        Field("memberId", STRING),
        Field("rackId", STRING, nullable=True, default=None),
        Field("memberEpoch", INT32),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("subscribedTopicNames", Array(STRING)),
        Field("assignment", _SHARE_GROUP_DESCRIBE_RESPONSE_ASSIGNMENT),
    ),
)

_DESCRIBED_GROUP = Struct(
    "DescribedGroup",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
        Field("groupId", STRING),
        Field("groupState", STRING),
        Field("groupEpoch", INT32),
        Field("assignmentEpoch", INT32),
        Field("assignorName", STRING),
        Field("members", Array(_MEMBER)),
        Field("authorizedOperations", INT32, default=-2_147_483_648),
    ),
)

SHARE_GROUP_DESCRIBE = Api(
    77,
    Message(
        "ShareGroupDescribeRequest",
        (
            Field("groupIds", Array(STRING)),
            Field("includeAuthorizedOperations", BOOL),
        ),
        first_version=1,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "ShareGroupDescribeResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("groups", Array(_DESCRIBED_GROUP)),
        ),
        first_version=1,
        last_version=1,
        flexible_since=0,
    ),
)
