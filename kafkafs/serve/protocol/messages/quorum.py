"""Messages about the controllers and the features of the cluster, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_PARTITION_DATA = Struct(
    "PartitionData",
    (Field("partitionIndex", INT32),),
)

_TOPIC_DATA = Struct(
    "TopicData",
    (
        Field("topicName", STRING),
        Field("partitions", Array(_PARTITION_DATA)),
    ),
)

_REPLICA_STATE = Struct(
    "ReplicaState",
    (
        Field("replicaId", INT32),
        Field("replicaDirectoryId", UUID, since=2),
        Field("logEndOffset", INT64),
        Field("lastFetchTimestamp", INT64, since=1, default=-1),
        Field("lastCaughtUpTimestamp", INT64, since=1, default=-1),
    ),
)

_DESCRIBE_QUORUM_RESPONSE_PARTITION_DATA = Struct(
    "PartitionData",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, since=2, nullable=True),
        Field("leaderId", INT32),
        Field("leaderEpoch", INT32),
        Field("highWatermark", INT64),
        Field("currentVoters", Array(_REPLICA_STATE)),
        Field("observers", Array(_REPLICA_STATE)),
    ),
)

_DESCRIBE_QUORUM_RESPONSE_TOPIC_DATA = Struct(
    "TopicData",
    (
        Field("topicName", STRING),
        Field("partitions", Array(_DESCRIBE_QUORUM_RESPONSE_PARTITION_DATA)),
    ),
)

_LISTENER = Struct(
    "Listener",
    (
        Field("name", STRING, since=2),
        Field("host", STRING, since=2),
        Field("port", UINT16, since=2),
    ),
)

_NODE = Struct(
    "Node",
    (
        Field("nodeId", INT32, since=2),
        Field("listeners", Array(_LISTENER), since=2),
    ),
)

DESCRIBE_QUORUM = Api(
    55,
    Message(
        "DescribeQuorumRequest",
        (Field("topics", Array(_TOPIC_DATA)),),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "DescribeQuorumResponse",
        (
            Field("errorCode", INT16),
            Field("errorMessage", STRING, since=2, nullable=True),
            Field("topics", Array(_DESCRIBE_QUORUM_RESPONSE_TOPIC_DATA)),
            Field("nodes", Array(_NODE), since=2),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
)

_FEATURE_UPDATE_KEY = Struct(
    "FeatureUpdateKey",
    (
        Field("feature", STRING),
        Field("maxVersionLevel", INT16),
        Field("allowDowngrade", BOOL, until=0),
        Field("upgradeType", INT8, since=1, default=1),
    ),
)

_UPDATABLE_FEATURE_RESULT = Struct(
    "UpdatableFeatureResult",
    (
        Field("feature", STRING),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
    ),
)

UPDATE_FEATURES = Api(
    57,
    Message(
        "UpdateFeaturesRequest",
        (
            Field("timeoutMs", INT32, default=60000),
            Field("featureUpdates", Array(_FEATURE_UPDATE_KEY)),
            Field("validateOnly", BOOL, since=1),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "UpdateFeaturesResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("results", Array(_UPDATABLE_FEATURE_RESULT), until=1),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
)

UNREGISTER_BROKER = Api(
    64,
    Message(
        "UnregisterBrokerRequest",
        (Field("brokerId", INT32),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "UnregisterBrokerResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

UNREGISTER_CONTROLLER = Api(
    94,
    Message(
        "UnregisterControllerRequest",
        (Field("controllerId", INT32),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "UnregisterControllerResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

_ADD_RAFT_VOTER_REQUEST_LISTENER = Struct(
    "Listener",
    (
        Field("name", STRING),
        Field("host", STRING),
        Field("port", UINT16),
    ),
)

ADD_RAFT_VOTER = Api(
    80,
    Message(
        "AddRaftVoterRequest",
        (
            Field("clusterId", STRING, nullable=True),
            Field("timeoutMs", INT32),
            Field("voterId", INT32),
            Field("voterDirectoryId", UUID),
            Field("listeners", Array(_ADD_RAFT_VOTER_REQUEST_LISTENER)),
            Field("ackWhenCommitted", BOOL, since=1, default=True),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "AddRaftVoterResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)

REMOVE_RAFT_VOTER = Api(
    81,
    Message(
        "RemoveRaftVoterRequest",
        (
            Field("clusterId", STRING, nullable=True),
            Field("voterId", INT32),
            Field("voterDirectoryId", UUID),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "RemoveRaftVoterResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
