"""Messages about replicas: their log dirs, leaders and reassignments, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_ALTER_REPLICA_LOG_DIR_TOPIC = Struct(
    "AlterReplicaLogDirTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_ALTER_REPLICA_LOG_DIR = Struct(
    "AlterReplicaLogDir",
    (
        Field("path", STRING),
        Field("topics", Array(_ALTER_REPLICA_LOG_DIR_TOPIC)),
    ),
)

_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT = Struct(
    "AlterReplicaLogDirPartitionResult",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
    ),
)

_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT = Struct(
    "AlterReplicaLogDirTopicResult",
    (
        Field("topicName", STRING),
        Field("partitions", Array(_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT)),
    ),
)

ALTER_REPLICA_LOG_DIRS = Api(
    34,
    Message(
        "AlterReplicaLogDirsRequest",
        (Field("dirs", Array(_ALTER_REPLICA_LOG_DIR)),),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "AlterReplicaLogDirsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT)),
        ),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
)

_DESCRIBABLE_LOG_DIR_TOPIC = Struct(
    "DescribableLogDirTopic",
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_DESCRIBE_LOG_DIRS_PARTITION = Struct(
    "DescribeLogDirsPartition",
    (
        Field("partitionIndex", INT32),
        Field("partitionSize", INT64),
        Field("offsetLag", INT64),
        Field("isFutureKey", BOOL),
    ),
)

_DESCRIBE_LOG_DIRS_TOPIC = Struct(
    "DescribeLogDirsTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_DESCRIBE_LOG_DIRS_PARTITION)),
    ),
)

_DESCRIBE_LOG_DIRS_RESULT = Struct(
    "DescribeLogDirsResult",
    (
        Field("errorCode", INT16),
        Field("logDir", STRING),
        Field("topics", Array(_DESCRIBE_LOG_DIRS_TOPIC)),
        Field("totalBytes", INT64, since=4, default=-1),
        Field("usableBytes", INT64, since=4, default=-1),
        Field("isCordoned", BOOL, since=5),
    ),
)

DESCRIBE_LOG_DIRS = Api(
    35,
    Message(
        "DescribeLogDirsRequest",
        (Field("topics", Array(_DESCRIBABLE_LOG_DIR_TOPIC), nullable=True),),
        first_version=1,
        last_version=5,
        flexible_since=2,
    ),
    Message(
        "DescribeLogDirsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16, since=3),
            Field("results", Array(_DESCRIBE_LOG_DIRS_RESULT)),
        ),
        first_version=1,
        last_version=5,
        flexible_since=2,
    ),
)

_TOPIC_PARTITIONS = Struct(
    "TopicPartitions",
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_PARTITION_RESULT = Struct(
    "PartitionResult",
    (
        Field("partitionId", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
    ),
)

_REPLICA_ELECTION_RESULT = Struct(
    "ReplicaElectionResult",
    (
        Field("topic", STRING),
        Field("partitionResult", Array(_PARTITION_RESULT)),
    ),
)

ELECT_LEADERS = Api(
    43,
    Message(
        "ElectLeadersRequest",
        (
            Field("electionType", INT8, since=1),
            Field("topicPartitions", Array(_TOPIC_PARTITIONS), nullable=True),
            Field("timeoutMs", INT32, default=60000),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "ElectLeadersResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16, since=1),
            Field("replicaElectionResults", Array(_REPLICA_ELECTION_RESULT)),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
)

_REASSIGNABLE_PARTITION = Struct(
    "ReassignablePartition",
    (
        Field("partitionIndex", INT32),
        Field("replicas", Array(INT32), nullable=True, default=None),
    ),
)

_REASSIGNABLE_TOPIC = Struct(
    "ReassignableTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_REASSIGNABLE_PARTITION)),
    ),
)

_REASSIGNABLE_PARTITION_RESPONSE = Struct(
    "ReassignablePartitionResponse",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
    ),
)

_REASSIGNABLE_TOPIC_RESPONSE = Struct(
    "ReassignableTopicResponse",
    (
        Field("name", STRING),
        Field("partitions", Array(_REASSIGNABLE_PARTITION_RESPONSE)),
    ),
)

ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    Message(
        "AlterPartitionReassignmentsRequest",
        (
            Field("timeoutMs", INT32, default=60000),
            Field("allowReplicationFactorChange", BOOL, since=1, default=True),
            Field("topics", Array(_REASSIGNABLE_TOPIC)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "AlterPartitionReassignmentsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("allowReplicationFactorChange", BOOL, since=1, default=True),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("responses", Array(_REASSIGNABLE_TOPIC_RESPONSE)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)

_LIST_PARTITION_REASSIGNMENTS_TOPICS = Struct(
    "ListPartitionReassignmentsTopics",
    (
        Field("name", STRING),
        Field("partitionIndexes", Array(INT32)),
    ),
)

_ONGOING_PARTITION_REASSIGNMENT = Struct(
    "OngoingPartitionReassignment",
    (
        Field("partitionIndex", INT32),
        Field("replicas", Array(INT32)),
        Field("addingReplicas", Array(INT32)),
        Field("removingReplicas", Array(INT32)),
    ),
)

_ONGOING_TOPIC_REASSIGNMENT = Struct(
    "OngoingTopicReassignment",
    (
        Field("name", STRING),
        Field("partitions", Array(_ONGOING_PARTITION_REASSIGNMENT)),
    ),
)

LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    Message(
        "ListPartitionReassignmentsRequest",
        (
            Field("timeoutMs", INT32, default=60000),
            Field(
                "topics", Array(_LIST_PARTITION_REASSIGNMENTS_TOPICS), nullable=True, default=None
            ),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "ListPartitionReassignmentsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("topics", Array(_ONGOING_TOPIC_REASSIGNMENT)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
