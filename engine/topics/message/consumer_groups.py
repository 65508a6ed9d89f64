"""Messages of __consumer_offsets for groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from engine.topics.message.schema import (
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

CONSUMER_GROUP_METADATA_KEY = Message(
    "ConsumerGroupMetadataKey",
    (Field("groupId", STRING),),
)

CONSUMER_GROUP_METADATA_VALUE = Message(
    "ConsumerGroupMetadataValue",
    (
        Field("epoch", INT32),
        Field("metadataHash", INT64, tag=0),
    ),
    flexible_since=0,
)

CONSUMER_GROUP_PARTITION_METADATA_KEY = Message(
    "ConsumerGroupPartitionMetadataKey",
    (Field("groupId", STRING),),
)

PARTITION_METADATA = Struct(
    "PartitionMetadata",
    (
        Field("partition", INT32),
        Field("racks", Array(STRING)),
    ),
)

TOPIC_METADATA = Struct(
    "TopicMetadata",
    (
        Field("topicId", UUID),
        Field("topicName", STRING),
        Field("numPartitions", INT32),
        Field("partitionMetadata", Array(PARTITION_METADATA)),
    ),
)

CONSUMER_GROUP_PARTITION_METADATA_VALUE = Message(
    "ConsumerGroupPartitionMetadataValue",
    (Field("topics", Array(TOPIC_METADATA)),),
    flexible_since=0,
)

CONSUMER_GROUP_MEMBER_METADATA_KEY = Message(
    "ConsumerGroupMemberMetadataKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

CLASSIC_PROTOCOL = Struct(
    "ClassicProtocol",
    (
        Field("name", STRING),
        Field("metadata", BYTES),
    ),
)

CLASSIC_MEMBER_METADATA = Struct(
    "ClassicMemberMetadata",
    (
        Field("sessionTimeoutMs", INT32),
        Field("supportedProtocols", Array(CLASSIC_PROTOCOL)),
    ),
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE = Message(
    "ConsumerGroupMemberMetadataValue",
    (
        Field("instanceId", STRING, nullable=True),
        Field("rackId", STRING, nullable=True),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("subscribedTopicNames", Array(STRING)),
        Field("subscribedTopicRegex", STRING, nullable=True),
        Field("rebalanceTimeoutMs", INT32, default=-1),
        Field("serverAssignor", STRING, nullable=True),
        Field("classicMemberMetadata", CLASSIC_MEMBER_METADATA, nullable=True, tag=0),
    ),
    flexible_since=0,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "ConsumerGroupTargetAssignmentMetadataKey",
    (Field("groupId", STRING),),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "ConsumerGroupTargetAssignmentMetadataValue",
    (
        Field("assignmentEpoch", INT32),
        Field("assignmentTimestamp", INT64, tag=0),
    ),
    flexible_since=0,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "ConsumerGroupTargetAssignmentMemberKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

TOPIC_PARTITION = Struct(
    "TopicPartition",
    (
        Field("topicId", UUID),
        Field("partitions", Array(INT32)),
    ),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "ConsumerGroupTargetAssignmentMemberValue",
    (Field("topicPartitions", Array(TOPIC_PARTITION)),),
    flexible_since=0,
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "ConsumerGroupCurrentMemberAssignmentKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

TOPIC_PARTITIONS = Struct(
    "TopicPartitions",
    (
        Field("topicId", UUID),
        Field("partitions", Array(INT32)),
        Field("assignmentEpochs", Array(INT32), nullable=True, tag=0),
    ),
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "ConsumerGroupCurrentMemberAssignmentValue",
    (
        Field("memberEpoch", INT32),
        Field("previousMemberEpoch", INT32),
        Field("state", INT8),
        Field("assignedPartitions", Array(TOPIC_PARTITIONS)),
        Field("partitionsPendingRevocation", Array(TOPIC_PARTITIONS)),
    ),
    flexible_since=0,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Message(
    "ConsumerGroupRegularExpressionKey",
    (
        Field("groupId", STRING),
        Field("regularExpression", STRING),
    ),
)

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Message(
    "ConsumerGroupRegularExpressionValue",
    (
        Field("topics", Array(STRING)),
        Field("version", INT64),
        Field("timestamp", INT64),
    ),
    flexible_since=0,
)
