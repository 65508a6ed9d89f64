"""The responses of the APIs for records and their places, from the JSON schemas of Kafka 4.3.1."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
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

PRODUCE_RESPONSE = Message(
    "ProduceResponse",
    (
        Field(
            "responses",
            Array(
                Struct(
                    "TopicProduceResponse",
                    (
                        Field("name", STRING, until=12),
                        Field("topicId", UUID, since=13),
                        Field(
                            "partitionResponses",
                            Array(
                                Struct(
                                    "PartitionProduceResponse",
                                    (
                                        Field("index", INT32),
                                        Field("errorCode", INT16),
                                        Field("baseOffset", INT64),
                                        Field("logAppendTimeMs", INT64, since=2, default=-1),
                                        Field("logStartOffset", INT64, since=5, default=-1),
                                        Field(
                                            "recordErrors",
                                            Array(
                                                Struct(
                                                    "BatchIndexAndErrorMessage",
                                                    (
                                                        Field("batchIndex", INT32, since=8),
                                                        Field(
                                                            "batchIndexErrorMessage",
                                                            STRING,
                                                            since=8,
                                                            nullable=True,
                                                            default=None,
                                                        ),
                                                    ),
                                                )
                                            ),
                                            since=8,
                                        ),
                                        Field(
                                            "errorMessage",
                                            STRING,
                                            since=8,
                                            nullable=True,
                                            default=None,
                                        ),
                                        Field(
                                            "currentLeader",
                                            Struct(
                                                "LeaderIdAndEpoch",
                                                (
                                                    Field("leaderId", INT32, since=10, default=-1),
                                                    Field(
                                                        "leaderEpoch", INT32, since=10, default=-1
                                                    ),
                                                ),
                                            ),
                                            since=10,
                                            tag=0,
                                        ),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
        Field("throttleTimeMs", INT32, since=1),
        Field(
            "nodeEndpoints",
            Array(
                Struct(
                    "NodeEndpoint",
                    (
                        Field("nodeId", INT32, since=10),
                        Field("host", STRING, since=10),
                        Field("port", INT32, since=10),
                        Field("rack", STRING, since=10, nullable=True, default=None),
                    ),
                )
            ),
            since=10,
            tag=0,
        ),
    ),
    first_version=3,
    last_version=13,
    flexible_since=9,
)

FETCH_RESPONSE = Message(
    "FetchResponse",
    (
        Field("throttleTimeMs", INT32, since=1),
        Field("errorCode", INT16, since=7),
        Field("sessionId", INT32, since=7),
        Field(
            "responses",
            Array(
                Struct(
                    "FetchableTopicResponse",
                    (
                        Field("topic", STRING, until=12),
                        Field("topicId", UUID, since=13),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "PartitionData",
                                    (
                                        Field("partitionIndex", INT32),
                                        Field("errorCode", INT16),
                                        Field("highWatermark", INT64),
                                        Field("lastStableOffset", INT64, since=4, default=-1),
                                        Field("logStartOffset", INT64, since=5, default=-1),
                                        Field(
                                            "divergingEpoch",
                                            Struct(
                                                "EpochEndOffset",
                                                (
                                                    Field("epoch", INT32, since=12, default=-1),
                                                    Field("endOffset", INT64, since=12, default=-1),
                                                ),
                                            ),
                                            since=12,
                                            tag=0,
                                        ),
                                        Field(
                                            "currentLeader",
                                            Struct(
                                                "LeaderIdAndEpoch",
                                                (
                                                    Field("leaderId", INT32, since=12, default=-1),
                                                    Field(
                                                        "leaderEpoch", INT32, since=12, default=-1
                                                    ),
                                                ),
                                            ),
                                            since=12,
                                            tag=1,
                                        ),
                                        Field(
                                            "snapshotId",
                                            Struct(
                                                "SnapshotId",
                                                (
                                                    Field("endOffset", INT64, default=-1),
                                                    Field("epoch", INT32, default=-1),
                                                ),
                                            ),
                                            since=12,
                                            tag=2,
                                        ),
                                        Field(
                                            "abortedTransactions",
                                            Array(
                                                Struct(
                                                    "AbortedTransaction",
                                                    (
                                                        Field("producerId", INT64, since=4),
                                                        Field("firstOffset", INT64, since=4),
                                                    ),
                                                )
                                            ),
                                            since=4,
                                            nullable=True,
                                        ),
                                        Field("preferredReadReplica", INT32, since=11, default=-1),
                                        Field("records", BYTES, nullable=True),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
        Field(
            "nodeEndpoints",
            Array(
                Struct(
                    "NodeEndpoint",
                    (
                        Field("nodeId", INT32, since=16),
                        Field("host", STRING, since=16),
                        Field("port", INT32, since=16),
                        Field("rack", STRING, since=16, nullable=True, default=None),
                    ),
                )
            ),
            since=16,
            tag=0,
        ),
    ),
    first_version=4,
    last_version=18,
    flexible_since=12,
)

LIST_OFFSETS_RESPONSE = Message(
    "ListOffsetsResponse",
    (
        Field("throttleTimeMs", INT32, since=2),
        Field(
            "topics",
            Array(
                Struct(
                    "ListOffsetsTopicResponse",
                    (
                        Field("name", STRING),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "ListOffsetsPartitionResponse",
                                    (
                                        Field("partitionIndex", INT32),
                                        Field("errorCode", INT16),
                                        Field("timestamp", INT64, since=1, default=-1),
                                        Field("offset", INT64, since=1, default=-1),
                                        Field("leaderEpoch", INT32, since=4, default=-1),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
    ),
    first_version=1,
    last_version=11,
    flexible_since=6,
)

METADATA_RESPONSE = Message(
    "MetadataResponse",
    (
        Field("throttleTimeMs", INT32, since=3),
        Field(
            "brokers",
            Array(
                Struct(
                    "MetadataResponseBroker",
                    (
                        Field("nodeId", INT32),
                        Field("host", STRING),
                        Field("port", INT32),
                        Field("rack", STRING, since=1, nullable=True, default=None),
                    ),
                )
            ),
        ),
        Field("clusterId", STRING, since=2, nullable=True, default=None),
        Field("controllerId", INT32, since=1, default=-1),
        Field(
            "topics",
            Array(
                Struct(
                    "MetadataResponseTopic",
                    (
                        Field("errorCode", INT16),
                        Field("name", STRING, nullable=True),
                        Field("topicId", UUID, since=10),
                        Field("isInternal", BOOL, since=1),
                        Field(
                            "partitions",
                            Array(
                                Struct(
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
                            ),
                        ),
                        Field("topicAuthorizedOperations", INT32, since=8, default=-2147483648),
                    ),
                )
            ),
        ),
        Field("clusterAuthorizedOperations", INT32, since=8, until=10, default=-2147483648),
        Field("errorCode", INT16, since=13),
    ),
    first_version=0,
    last_version=13,
    flexible_since=9,
)

FIND_COORDINATOR_RESPONSE = Message(
    "FindCoordinatorResponse",
    (
        Field("throttleTimeMs", INT32, since=1),
        Field("errorCode", INT16, until=3),
        Field("errorMessage", STRING, since=1, until=3, nullable=True),
        Field("nodeId", INT32, until=3),
        Field("host", STRING, until=3),
        Field("port", INT32, until=3),
        Field(
            "coordinators",
            Array(
                Struct(
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
            ),
            since=4,
        ),
    ),
    first_version=0,
    last_version=6,
    flexible_since=3,
)

API_VERSIONS_RESPONSE = Message(
    "ApiVersionsResponse",
    (
        Field("errorCode", INT16),
        Field(
            "apiKeys",
            Array(
                Struct(
                    "ApiVersion",
                    (
                        Field("apiKey", INT16),
                        Field("minVersion", INT16),
                        Field("maxVersion", INT16),
                    ),
                )
            ),
        ),
        Field("throttleTimeMs", INT32, since=1),
        Field(
            "supportedFeatures",
            Array(
                Struct(
                    "SupportedFeatureKey",
                    (
                        Field("name", STRING, since=3),
                        Field("minVersion", INT16, since=3),
                        Field("maxVersion", INT16, since=3),
                    ),
                )
            ),
            since=3,
            tag=0,
        ),
        Field("finalizedFeaturesEpoch", INT64, since=3, tag=1, default=-1),
        Field(
            "finalizedFeatures",
            Array(
                Struct(
                    "FinalizedFeatureKey",
                    (
                        Field("name", STRING, since=3),
                        Field("maxVersionLevel", INT16, since=3),
                        Field("minVersionLevel", INT16, since=3),
                    ),
                )
            ),
            since=3,
            tag=2,
        ),
        Field("zkMigrationReady", BOOL, since=3, tag=3),
    ),
    first_version=0,
    last_version=4,
    flexible_since=3,
)

INIT_PRODUCER_ID_RESPONSE = Message(
    "InitProducerIdResponse",
    (
        Field("throttleTimeMs", INT32),
        Field("errorCode", INT16),
        Field("producerId", INT64, default=-1),
        Field("producerEpoch", INT16),
        Field("ongoingTxnProducerId", INT64, since=6, default=-1),
        Field("ongoingTxnProducerEpoch", INT16, since=6, default=-1),
    ),
    first_version=0,
    last_version=6,
    flexible_since=2,
)

OFFSET_FOR_LEADER_EPOCH_RESPONSE = Message(
    "OffsetForLeaderEpochResponse",
    (
        Field("throttleTimeMs", INT32, since=2),
        Field(
            "topics",
            Array(
                Struct(
                    "OffsetForLeaderTopicResult",
                    (
                        Field("topic", STRING),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "EpochEndOffset",
                                    (
                                        Field("errorCode", INT16),
                                        Field("partition", INT32),
                                        Field("leaderEpoch", INT32, since=1, default=-1),
                                        Field("endOffset", INT64, default=-1),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
    ),
    first_version=2,
    last_version=4,
    flexible_since=4,
)
