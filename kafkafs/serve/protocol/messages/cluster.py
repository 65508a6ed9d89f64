"""Messages by which clients find brokers, topics and coordinators, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
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

_METADATA_REQUEST_TOPIC = Struct(
    "MetadataRequestTopic",
    (
        Field("topicId", UUID, since=10),
        Field("name", STRING, nullable=True),
    ),
)

_METADATA_RESPONSE_BROKER = Struct(
    "MetadataResponseBroker",
    (
        Field("nodeId", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, since=1, nullable=True, default=None),
    ),
)

_METADATA_RESPONSE_PARTITION = Struct(
    "MetadataResponsePartition",
    (
        Field("errorCode", INT16),
        Field("partitionIndex", INT32),
        Field("leaderId", INT32),
        Field("leaderEpoch", INT32, since=7, default=-1),
        Field("replicaNodes", Array(INT32)),
        Field("isrNodes", Array(INT32)),
        Field("offlineReplicas", Array(INT32), since=5),
    ),
)

_METADATA_RESPONSE_TOPIC = Struct(
    "MetadataResponseTopic",
    (
        Field("errorCode", INT16),
        Field("name", STRING, nullable=True),
        Field("topicId", UUID, since=10),
        Field("isInternal", BOOL, since=1),
        Field("partitions", Array(_METADATA_RESPONSE_PARTITION)),
        Field("topicAuthorizedOperations", INT32, since=8, default=-2_147_483_648),
    ),
)

METADATA = Api(
    3,
    Message(
        "MetadataRequest",
        (
            Field("topics", Array(_METADATA_REQUEST_TOPIC), nullable=True),
            Field("allowAutoTopicCreation", BOOL, since=4, default=True),
            Field("includeClusterAuthorizedOperations", BOOL, since=8, until=10),
            Field("includeTopicAuthorizedOperations", BOOL, since=8),
        ),
        first_version=0,
        last_version=13,
        flexible_since=9,
    ),
    Message(
        "MetadataResponse",
        (
            Field("throttleTimeMs", INT32, since=3),
            Field("brokers", Array(_METADATA_RESPONSE_BROKER)),
            Field("clusterId", STRING, since=2, nullable=True, default=None),
            Field("controllerId", INT32, since=1, default=-1),
            Field("topics", Array(_METADATA_RESPONSE_TOPIC)),
            Field("clusterAuthorizedOperations", INT32, since=8, until=10, default=-2_147_483_648),
            Field("errorCode", INT16, since=13),
        ),
        first_version=0,
        last_version=13,
        flexible_since=9,
    ),
)

_COORDINATOR = Struct(
    "Coordinator",
    (
        Field("key", STRING, since=4),
        Field("nodeId", INT32, since=4),
        Field("host", STRING, since=4),
        Field("port", INT32, since=4),
        Field("errorCode", INT16, since=4),
        Field("errorMessage", STRING, since=4, nullable=True),
    ),
)

FIND_COORDINATOR = Api(
    10,
    Message(
        "FindCoordinatorRequest",
        (
            Field("key", STRING, until=3),
            Field("keyType", INT8, since=1),
            Field("coordinatorKeys", Array(STRING), since=4),
        ),
        first_version=0,
        last_version=6,
        flexible_since=3,
    ),
    Message(
        "FindCoordinatorResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16, until=3),
            Field("errorMessage", STRING, since=1, until=3, nullable=True),
            Field("nodeId", INT32, until=3),
            Field("host", STRING, until=3),
            Field("port", INT32, until=3),
            Field("coordinators", Array(_COORDINATOR), since=4),
        ),
        first_version=0,
        last_version=6,
        flexible_since=3,
    ),
)

_API_VERSION = Struct(
    "ApiVersion",
    (
        Field("apiKey", INT16),
        Field("minVersion", INT16),
        Field("maxVersion", INT16),
    ),
)

_SUPPORTED_FEATURE_KEY = Struct(
    "SupportedFeatureKey",
    (
        Field("name", STRING, since=3),
        Field("minVersion", INT16, since=3),
        Field("maxVersion", INT16, since=3),
    ),
)

_FINALIZED_FEATURE_KEY = Struct(
    "FinalizedFeatureKey",
    (
        Field("name", STRING, since=3),
        Field("maxVersionLevel", INT16, since=3),
        Field("minVersionLevel", INT16, since=3),
    ),
)

API_VERSIONS = Api(
    18,
    Message(
        "ApiVersionsRequest",
        (
            Field("clientSoftwareName", STRING, since=3),
            Field("clientSoftwareVersion", STRING, since=3),
            Field("clusterId", STRING, since=5, nullable=True, default=None),
            Field("nodeId", INT32, since=5, default=-1),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
    Message(
        "ApiVersionsResponse",
        (
            Field("errorCode", INT16),
            Field("apiKeys", Array(_API_VERSION)),
            Field("throttleTimeMs", INT32, since=1),
            Field("supportedFeatures", Array(_SUPPORTED_FEATURE_KEY), since=3, tag=0),
            Field("finalizedFeaturesEpoch", INT64, since=3, tag=1, default=-1),
            Field("finalizedFeatures", Array(_FINALIZED_FEATURE_KEY), since=3, tag=2),
            Field("zkMigrationReady", BOOL, since=3, tag=3),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
)

_DESCRIBE_CLUSTER_BROKER = Struct(
    "DescribeClusterBroker",
    (
        Field("brokerId", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable=True, default=None),
        Field("isFenced", BOOL, since=2),
    ),
)

DESCRIBE_CLUSTER = Api(
    60,
    Message(
        "DescribeClusterRequest",
        (
            Field("includeClusterAuthorizedOperations", BOOL),
            Field("endpointType", INT8, since=1, default=1),
            Field("includeFencedBrokers", BOOL, since=2),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "DescribeClusterResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("endpointType", INT8, since=1, default=1),
            Field("clusterId", STRING),
            Field("controllerId", INT32, default=-1),
            Field("brokers", Array(_DESCRIBE_CLUSTER_BROKER)),
            Field("clusterAuthorizedOperations", INT32, default=-2_147_483_648),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
)

_TOPIC_REQUEST = Struct(
    "TopicRequest",
    (Field("name", STRING),),
)

_CURSOR = Struct(
    "Cursor",
    (
        Field("topicName", STRING),
        Field("partitionIndex", INT32),
    ),
)

_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION = Struct(
    "DescribeTopicPartitionsResponsePartition",
    (
        Field("errorCode", INT16),
        Field("partitionIndex", INT32),
        Field("leaderId", INT32),
        Field("leaderEpoch", INT32, default=-1),
        Field("replicaNodes", Array(INT32)),
        Field("isrNodes", Array(INT32)),
        Field("eligibleLeaderReplicas", Array(INT32), nullable=True, default=None),
        Field("lastKnownElr", Array(INT32), nullable=True, default=None),
        Field("offlineReplicas", Array(INT32)),
    ),
)

_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC = Struct(
    "DescribeTopicPartitionsResponseTopic",
    (
        Field("errorCode", INT16),
        Field("name", STRING, nullable=True),
        Field("topicId", UUID),
        Field("isInternal", BOOL),
        Field("partitions", Array(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION)),
        Field("topicAuthorizedOperations", INT32, default=-2_147_483_648),
    ),
)

DESCRIBE_TOPIC_PARTITIONS = Api(
    75,
    Message(
        "DescribeTopicPartitionsRequest",
        (
            Field("topics", Array(_TOPIC_REQUEST)),
            Field("responsePartitionLimit", INT32, default=2000),
            Field("cursor", _CURSOR, nullable=True, default=None),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "DescribeTopicPartitionsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("topics", Array(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC)),
            Field("nextCursor", _CURSOR, nullable=True, default=None),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
