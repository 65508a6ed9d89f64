"""Messages of __consumer_offsets for share groups (KIP-932)."""

from __future__ import annotations

from engine.topics.message.schema import (
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

SHARE_GROUP_MEMBER_METADATA_KEY = Message(
    "ShareGroupMemberMetadataKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

SHARE_GROUP_MEMBER_METADATA_VALUE = Message(
    "ShareGroupMemberMetadataValue",
    (
        Field("rackId", STRING, nullable=True),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("subscribedTopicNames", Array(STRING)),
    ),
    flexible_since=0,
)

SHARE_GROUP_METADATA_KEY = Message(
    "ShareGroupMetadataKey",
    (Field("groupId", STRING),),
)

SHARE_GROUP_METADATA_VALUE = Message(
    "ShareGroupMetadataValue",
    (
        Field("epoch", INT32),
        Field("metadataHash", INT64),
    ),
    flexible_since=0,
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "ShareGroupTargetAssignmentMetadataKey",
    (Field("groupId", STRING),),
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "ShareGroupTargetAssignmentMetadataValue",
    (
        Field("assignmentEpoch", INT32),
        Field("assignmentTimestamp", INT64, tag=0),
    ),
    flexible_since=0,
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "ShareGroupTargetAssignmentMemberKey",
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

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "ShareGroupTargetAssignmentMemberValue",
    (Field("topicPartitions", Array(TOPIC_PARTITION)),),
    flexible_since=0,
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "ShareGroupCurrentMemberAssignmentKey",
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
    ),
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "ShareGroupCurrentMemberAssignmentValue",
    (
        Field("memberEpoch", INT32),
        Field("previousMemberEpoch", INT32),
        Field("state", INT8),
        Field("assignedPartitions", Array(TOPIC_PARTITIONS)),
    ),
    flexible_since=0,
)

SHARE_GROUP_PARTITION_METADATA_KEY = Message(
    "ShareGroupPartitionMetadataKey",
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

SHARE_GROUP_PARTITION_METADATA_VALUE = Message(
    "ShareGroupPartitionMetadataValue",
    (Field("topics", Array(TOPIC_METADATA)),),
    flexible_since=0,
)

SHARE_GROUP_STATE_PARTITION_METADATA_KEY = Message(
    "ShareGroupStatePartitionMetadataKey",
    (Field("groupId", STRING),),
)

TOPIC_PARTITIONS_INFO = Struct(
    "TopicPartitionsInfo",
    (
        Field("topicId", UUID),
        Field("topicName", STRING),
        Field("partitions", Array(INT32)),
    ),
)

TOPIC_INFO = Struct(
    "TopicInfo",
    (
        Field("topicId", UUID),
        Field("topicName", STRING),
    ),
)

SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Message(
    "ShareGroupStatePartitionMetadataValue",
    (
        Field("initializingTopics", Array(TOPIC_PARTITIONS_INFO)),
        Field("initializedTopics", Array(TOPIC_PARTITIONS_INFO)),
        Field("deletingTopics", Array(TOPIC_INFO)),
    ),
    flexible_since=0,
)
