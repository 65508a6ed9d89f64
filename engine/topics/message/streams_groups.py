"""Messages of __consumer_offsets for streams groups (KIP-1071)."""

from __future__ import annotations

from engine.topics.message.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    Array,
    Field,
    Message,
    Struct,
)

STREAMS_GROUP_METADATA_KEY = Message(
    "StreamsGroupMetadataKey",
    (Field("groupId", STRING),),
)

LAST_ASSIGNMENT_CONFIG = Struct(
    "LastAssignmentConfig",
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)

STREAMS_GROUP_METADATA_VALUE = Message(
    "StreamsGroupMetadataValue",
    (
        Field("epoch", INT32),
        Field("metadataHash", INT64),
        Field("validatedTopologyEpoch", INT32, tag=0, default=-1),
        Field("lastAssignmentConfigs", Array(LAST_ASSIGNMENT_CONFIG), nullable=True, tag=1),
        Field("storedDescriptionTopologyEpoch", INT32, tag=2, default=-1),
        Field("failedDescriptionTopologyEpoch", INT32, tag=3, default=-1),
    ),
    flexible_since=0,
)

STREAMS_GROUP_MEMBER_METADATA_KEY = Message(
    "StreamsGroupMemberMetadataKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

ENDPOINT = Struct(
    "Endpoint",
    (
        Field("host", STRING),
        Field("port", UINT16),
    ),
)

KEY_VALUE = Struct(
    "KeyValue",
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)

STREAMS_GROUP_MEMBER_METADATA_VALUE = Message(
    "StreamsGroupMemberMetadataValue",
    (
        Field("instanceId", STRING, nullable=True),
        Field("rackId", STRING, nullable=True),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("rebalanceTimeoutMs", INT32, default=-1),
        Field("topologyEpoch", INT32),
        Field("processId", STRING),
        Field("userEndpoint", ENDPOINT, nullable=True, default=None),
        Field("clientTags", Array(KEY_VALUE)),
    ),
    flexible_since=0,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "StreamsGroupTargetAssignmentMetadataKey",
    (Field("groupId", STRING),),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "StreamsGroupTargetAssignmentMetadataValue",
    (
        Field("assignmentEpoch", INT32),
        Field("assignmentTimestamp", INT64, tag=0),
    ),
    flexible_since=0,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "StreamsGroupTargetAssignmentMemberKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

TASK_IDS = Struct(
    "TaskIds",
    (
        Field("subtopologyId", STRING),
        Field("partitions", Array(INT32)),
    ),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "StreamsGroupTargetAssignmentMemberValue",
    (
        Field("activeTasks", Array(TASK_IDS)),
        Field("standbyTasks", Array(TASK_IDS)),
        Field("warmupTasks", Array(TASK_IDS)),
    ),
    flexible_since=0,
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "StreamsGroupCurrentMemberAssignmentKey",
    (
        Field("groupId", STRING),
        Field("memberId", STRING),
    ),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS = Struct(
    "TaskIds",
    (
        Field("subtopologyId", STRING),
        Field("partitions", Array(INT32)),
        Field("assignmentEpochs", Array(INT32), nullable=True, tag=0),
    ),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "StreamsGroupCurrentMemberAssignmentValue",
    (
        Field("memberEpoch", INT32),
        Field("previousMemberEpoch", INT32),
        Field("state", INT8),
        Field("activeTasks", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)),
        Field("standbyTasks", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)),
        Field("warmupTasks", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)),
        Field(
            "activeTasksPendingRevocation", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)
        ),
        Field(
            "standbyTasksPendingRevocation", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)
        ),
        Field(
            "warmupTasksPendingRevocation", Array(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_TASK_IDS)
        ),
    ),
    flexible_since=0,
)

STREAMS_GROUP_TOPOLOGY_KEY = Message(
    "StreamsGroupTopologyKey",
    (Field("groupId", STRING),),
)

TOPIC_CONFIG = Struct(
    "TopicConfig",
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)

TOPIC_INFO = Struct(
    "TopicInfo",
    (
        Field("name", STRING),
        Field("partitions", INT32),
        Field("replicationFactor", INT16),
        Field("topicConfigs", Array(TOPIC_CONFIG)),
    ),
)

COPARTITION_GROUP = Struct(
    "CopartitionGroup",
    (
        Field("sourceTopics", Array(INT16)),
        Field("sourceTopicRegex", Array(INT16)),
        Field("repartitionSourceTopics", Array(INT16)),
    ),
)

SUBTOPOLOGY = Struct(
    "Subtopology",
    (
        Field("subtopologyId", STRING),
        Field("sourceTopics", Array(STRING)),
        Field("sourceTopicRegex", Array(STRING)),
        Field("stateChangelogTopics", Array(TOPIC_INFO)),
        Field("repartitionSinkTopics", Array(STRING)),
        Field("repartitionSourceTopics", Array(TOPIC_INFO)),
        Field("copartitionGroups", Array(COPARTITION_GROUP)),
    ),
)

STREAMS_GROUP_TOPOLOGY_VALUE = Message(
    "StreamsGroupTopologyValue",
    (
        Field("epoch", INT32),
        Field("subtopologies", Array(SUBTOPOLOGY)),
    ),
    flexible_since=0,
)
