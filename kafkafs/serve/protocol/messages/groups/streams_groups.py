"""Messages of streams groups, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
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
from kafkafs.serve.protocol.api import Api

_KEY_VALUE = Struct(
    "KeyValue",
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)

_TOPIC_INFO = Struct(
    "TopicInfo",
    (
        Field("name", STRING),
        Field("partitions", INT32),
        Field("replicationFactor", INT16),
        Field("topicConfigs", Array(_KEY_VALUE)),
    ),
)

_COPARTITION_GROUP = Struct(
    "CopartitionGroup",
    (
        Field("sourceTopics", Array(INT16)),
        Field("sourceTopicRegex", Array(INT16)),
        Field("repartitionSourceTopics", Array(INT16)),
    ),
)

_SUBTOPOLOGY = Struct(
    "Subtopology",
    (
        Field("subtopologyId", STRING),
        Field("sourceTopics", Array(STRING)),
        Field("sourceTopicRegex", Array(STRING)),
        Field("stateChangelogTopics", Array(_TOPIC_INFO)),
        Field("repartitionSinkTopics", Array(STRING)),
        Field("repartitionSourceTopics", Array(_TOPIC_INFO)),
        Field("copartitionGroups", Array(_COPARTITION_GROUP)),
    ),
)

_TOPOLOGY = Struct(
    "Topology",
    (
        Field("epoch", INT32),
        Field("subtopologies", Array(_SUBTOPOLOGY)),
    ),
)

_TASK_IDS = Struct(
    "TaskIds",
    (
        Field("subtopologyId", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_ENDPOINT = Struct(
    "Endpoint",
    (
        Field("host", STRING),
        Field("port", UINT16),
    ),
)

_TASK_OFFSET = Struct(
    "TaskOffset",
    (
        Field("subtopologyId", STRING),
        Field("partition", INT32),
        Field("offset", INT64),
    ),
)

_STATUS = Struct(
    "Status",
    (
        Field("statusCode", INT8),
        Field("statusDetail", STRING),
    ),
)

_TOPIC_PARTITION = Struct(
    "TopicPartition",
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_ENDPOINT_TO_PARTITIONS = Struct(
    "EndpointToPartitions",
    (
        Field("userEndpoint", _ENDPOINT),
        Field("activePartitions", Array(_TOPIC_PARTITION)),
        Field("standbyPartitions", Array(_TOPIC_PARTITION)),
    ),
)

STREAMS_GROUP_HEARTBEAT = Api(
    88,
    Message(
        "StreamsGroupHeartbeatRequest",
        (
            Field("groupId", STRING),
            Field("memberId", STRING),
            Field("memberEpoch", INT32),
            Field("endpointInformationEpoch", INT32),
            Field("instanceId", STRING, nullable=True, default=None),
            Field("rackId", STRING, nullable=True, default=None),
            Field("rebalanceTimeoutMs", INT32, default=-1),
            Field("topology", _TOPOLOGY, nullable=True, default=None),
            Field("activeTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("standbyTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("warmupTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("processId", STRING, nullable=True, default=None),
            Field("userEndpoint", _ENDPOINT, nullable=True, default=None),
            Field("clientTags", Array(_KEY_VALUE), nullable=True, default=None),
            Field("taskOffsets", Array(_TASK_OFFSET), nullable=True, default=None),
            Field("taskEndOffsets", Array(_TASK_OFFSET), nullable=True, default=None),
            Field("shutdownApplication", BOOL),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "StreamsGroupHeartbeatResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("memberId", STRING),
            Field("memberEpoch", INT32),
            Field("heartbeatIntervalMs", INT32),
            Field("acceptableRecoveryLagLegacy", INT32, until=0),
            Field("taskOffsetIntervalMs", INT32),
            Field("acceptableRecoveryLag", INT64, since=1, default=-1),
            Field("status", Array(_STATUS), nullable=True),
            Field("activeTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("standbyTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("warmupTasks", Array(_TASK_IDS), nullable=True, default=None),
            Field("topologyDescriptionRequired", BOOL, since=1),
            Field("endpointInformationEpoch", INT32),
            Field(
                "partitionsByUserEndpoint",
                Array(_ENDPOINT_TO_PARTITIONS),
                nullable=True,
                default=None,
            ),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)

_STREAMS_GROUP_DESCRIBE_RESPONSE_SUBTOPOLOGY = Struct(
    "Subtopology",
    (
        Field("subtopologyId", STRING),
        Field("sourceTopics", Array(STRING)),
        Field("repartitionSinkTopics", Array(STRING)),
        Field("stateChangelogTopics", Array(_TOPIC_INFO)),
        Field("repartitionSourceTopics", Array(_TOPIC_INFO)),
    ),
)

_STREAMS_GROUP_DESCRIBE_RESPONSE_TOPOLOGY = Struct(
    "Topology",
    (
        Field("epoch", INT32),
        Field(
            "subtopologies",
            Array(_STREAMS_GROUP_DESCRIBE_RESPONSE_SUBTOPOLOGY),
            nullable=True,
            default=None,
        ),
    ),
)

_ASSIGNMENT = Struct(
    "Assignment",
    (
        Field("activeTasks", Array(_TASK_IDS)),
        Field("standbyTasks", Array(_TASK_IDS)),
        Field("warmupTasks", Array(_TASK_IDS)),
    ),
)

_MEMBER = Struct(
    "Member",
    (
        Field("memberId", STRING),
        Field("memberEpoch", INT32),
        Field("instanceId", STRING, nullable=True, default=None),
        Field("rackId", STRING, nullable=True, default=None),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("topologyEpoch", INT32),
        Field("processId", STRING),
        Field("userEndpoint", _ENDPOINT, nullable=True, default=None),
        Field("clientTags", Array(_KEY_VALUE)),
        Field("taskOffsets", Array(_TASK_OFFSET)),
        Field("taskEndOffsets", Array(_TASK_OFFSET)),
        Field("assignment", _ASSIGNMENT),
        Field("targetAssignment", _ASSIGNMENT),
        Field("isClassic", BOOL),
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
        Field("topology", _STREAMS_GROUP_DESCRIBE_RESPONSE_TOPOLOGY, nullable=True, default=None),
        Field("members", Array(_MEMBER)),
        Field("authorizedOperations", INT32, default=-2_147_483_648),
    ),
)

STREAMS_GROUP_DESCRIBE = Api(
    89,
    Message(
        "StreamsGroupDescribeRequest",
        (
            Field("groupIds", Array(STRING)),
            Field("includeAuthorizedOperations", BOOL),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "StreamsGroupDescribeResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("groups", Array(_DESCRIBED_GROUP)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

_TOPOLOGY_DESCRIPTION_NODE = Struct(
    "TopologyDescriptionNode",
    (
        Field("name", STRING),
        Field("nodeType", INT8),
        Field("sourceTopics", Array(STRING)),
        Field("sinkTopic", STRING, nullable=True, default=None),
        Field("stores", Array(STRING)),
        Field("successors", Array(STRING)),
    ),
)

_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY = Struct(
    "TopologyDescriptionSubtopology",
    (
        Field("subtopologyId", STRING),
        Field("nodes", Array(_TOPOLOGY_DESCRIPTION_NODE)),
    ),
)

_TOPOLOGY_DESCRIPTION_GLOBAL_STORE = Struct(
    "TopologyDescriptionGlobalStore",
    (
        Field("source", _TOPOLOGY_DESCRIPTION_NODE),
        Field("processor", _TOPOLOGY_DESCRIPTION_NODE),
    ),
)

_TOPOLOGY_DESCRIPTION = Struct(
    "TopologyDescription",
    (
        Field("subtopologies", Array(_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY)),
        Field("globalStores", Array(_TOPOLOGY_DESCRIPTION_GLOBAL_STORE)),
    ),
)

STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = Api(
    93,
    Message(
        "StreamsGroupTopologyDescriptionUpdateRequest",
        (
            Field("groupId", STRING),
            Field("memberId", STRING),
            Field("topologyEpoch", INT32),
            Field("topologyDescription", _TOPOLOGY_DESCRIPTION),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "StreamsGroupTopologyDescriptionUpdateResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
