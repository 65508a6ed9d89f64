"""Messages of consumer groups by the new protocol, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
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

CONSUMER_GROUP_HEARTBEAT = Api(
    68,
    Message(
        "ConsumerGroupHeartbeatRequest",
        (
            Field("groupId", STRING),
            Field("memberId", STRING),
            Field("memberEpoch", INT32),
            Field("instanceId", STRING, nullable=True, default=None),
            Field("rackId", STRING, nullable=True, default=None),
            Field("rebalanceTimeoutMs", INT32, default=-1),
            Field("subscribedTopicNames", Array(STRING), nullable=True, default=None),
            Field("subscribedTopicRegex", STRING, since=1, nullable=True, default=None),
            Field("serverAssignor", STRING, nullable=True, default=None),
            Field("topicPartitions", Array(_TOPIC_PARTITIONS), nullable=True, default=None),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "ConsumerGroupHeartbeatResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("memberId", STRING, nullable=True, default=None),
            Field("memberEpoch", INT32),
            Field("heartbeatIntervalMs", INT32),
            Field("assignment", _ASSIGNMENT, nullable=True, default=None),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)

_CONSUMER_GROUP_DESCRIBE_RESPONSE_TOPIC_PARTITIONS = Struct(
    "TopicPartitions",
    (
        Field("topicId", UUID),
        Field("topicName", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_CONSUMER_GROUP_DESCRIBE_RESPONSE_ASSIGNMENT = Struct(
    "Assignment",
    (Field("topicPartitions", Array(_CONSUMER_GROUP_DESCRIBE_RESPONSE_TOPIC_PARTITIONS)),),
)

_MEMBER = Struct(
    "Member",
    (
        Field("memberId", STRING),
        Field("instanceId", STRING, nullable=True, default=None),
        Field("rackId", STRING, nullable=True, default=None),
        Field("memberEpoch", INT32),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("subscribedTopicNames", Array(STRING)),
        Field("subscribedTopicRegex", STRING, nullable=True, default=None),
        Field("assignment", _CONSUMER_GROUP_DESCRIBE_RESPONSE_ASSIGNMENT),
        Field("targetAssignment", _CONSUMER_GROUP_DESCRIBE_RESPONSE_ASSIGNMENT),
        Field("memberType", INT8, since=1, default=-1),
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

CONSUMER_GROUP_DESCRIBE = Api(
    69,
    Message(
        "ConsumerGroupDescribeRequest",
        (
            Field("groupIds", Array(STRING)),
            Field("includeAuthorizedOperations", BOOL),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "ConsumerGroupDescribeResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("groups", Array(_DESCRIBED_GROUP)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)
