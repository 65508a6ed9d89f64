"""The requests of the APIs for records and their places, from the JSON schemas of Kafka 4.3.1."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
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

PRODUCE_REQUEST = Message(
    "ProduceRequest",
    (
        Field("transactionalId", STRING, since=3, nullable=True, default=None),
        Field("acks", INT16),
        Field("timeoutMs", INT32),
        Field(
            "topicData",
            Array(
                Struct(
                    "TopicProduceData",
                    (
                        Field("name", STRING, until=12),
                        Field("topicId", UUID, since=13),
                        Field(
                            "partitionData",
                            Array(
                                Struct(
                                    "PartitionProduceData",
                                    (
                                        Field("index", INT32),
                                        Field("records", BYTES, nullable=True),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
    ),
    first_version=3,
    last_version=13,
    flexible_since=9,
)

FETCH_REQUEST = Message(
    "FetchRequest",
    (
        Field("clusterId", STRING, since=12, nullable=True, tag=0, default=None),
        Field("replicaId", INT32, until=14, default=-1),
        Field(
            "replicaState",
            Struct(
                "ReplicaState",
                (
                    Field("replicaId", INT32, since=15, default=-1),
                    Field("replicaEpoch", INT64, since=15, default=-1),
                ),
            ),
            since=15,
            tag=1,
        ),
        Field("maxWaitMs", INT32),
        Field("minBytes", INT32),
        Field("maxBytes", INT32, since=3, default=2147483647),
        Field("isolationLevel", INT8, since=4),
        Field("sessionId", INT32, since=7),
        Field("sessionEpoch", INT32, since=7, default=-1),
        Field(
            "topics",
            Array(
                Struct(
                    "FetchTopic",
                    (
                        Field("topic", STRING, until=12),
                        Field("topicId", UUID, since=13),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "FetchPartition",
                                    (
                                        Field("partition", INT32),
                                        Field("currentLeaderEpoch", INT32, since=9, default=-1),
                                        Field("fetchOffset", INT64),
                                        Field("lastFetchedEpoch", INT32, since=12, default=-1),
                                        Field("logStartOffset", INT64, since=5, default=-1),
                                        Field("partitionMaxBytes", INT32),
                                        Field("replicaDirectoryId", UUID, since=17, tag=0),
                                        Field(
                                            "highWatermark",
                                            INT64,
                                            since=18,
                                            tag=1,
                                            default=9223372036854775807,
                                        ),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
        Field(
            "forgottenTopicsData",
            Array(
                Struct(
                    "ForgottenTopic",
                    (
                        Field("topic", STRING, since=7, until=12),
                        Field("topicId", UUID, since=13),
                        Field("partitions", Array(INT32), since=7),
                    ),
                )
            ),
            since=7,
        ),
        Field("rackId", STRING, since=11),
    ),
    first_version=4,
    last_version=18,
    flexible_since=12,
)

LIST_OFFSETS_REQUEST = Message(
    "ListOffsetsRequest",
    (
        Field("replicaId", INT32),
        Field("isolationLevel", INT8, since=2),
        Field(
            "topics",
            Array(
                Struct(
                    "ListOffsetsTopic",
                    (
                        Field("name", STRING),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "ListOffsetsPartition",
                                    (
                                        Field("partitionIndex", INT32),
                                        Field("currentLeaderEpoch", INT32, since=4, default=-1),
                                        Field("timestamp", INT64),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
        Field("timeoutMs", INT32, since=10),
    ),
    first_version=1,
    last_version=11,
    flexible_since=6,
)

METADATA_REQUEST = Message(
    "MetadataRequest",
    (
        Field(
            "topics",
            Array(
                Struct(
                    "MetadataRequestTopic",
                    (
                        Field("topicId", UUID, since=10),
                        Field("name", STRING, nullable=True),
                    ),
                )
            ),
            nullable=True,
        ),
        Field("allowAutoTopicCreation", BOOL, since=4, default=True),
        Field("includeClusterAuthorizedOperations", BOOL, since=8, until=10),
        Field("includeTopicAuthorizedOperations", BOOL, since=8),
    ),
    first_version=0,
    last_version=13,
    flexible_since=9,
)

FIND_COORDINATOR_REQUEST = Message(
    "FindCoordinatorRequest",
    (
        Field("key", STRING, until=3),
        Field("keyType", INT8, since=1),
        Field("coordinatorKeys", Array(STRING), since=4),
    ),
    first_version=0,
    last_version=6,
    flexible_since=3,
)

API_VERSIONS_REQUEST = Message(
    "ApiVersionsRequest",
    (
        Field("clientSoftwareName", STRING, since=3),
        Field("clientSoftwareVersion", STRING, since=3),
    ),
    first_version=0,
    last_version=4,
    flexible_since=3,
)

INIT_PRODUCER_ID_REQUEST = Message(
    "InitProducerIdRequest",
    (
        Field("transactionalId", STRING, nullable=True),
        Field("transactionTimeoutMs", INT32),
        Field("producerId", INT64, since=3, default=-1),
        Field("producerEpoch", INT16, since=3, default=-1),
        Field("enable2Pc", BOOL, since=6),
        Field("keepPreparedTxn", BOOL, since=6),
    ),
    first_version=0,
    last_version=6,
    flexible_since=2,
)

OFFSET_FOR_LEADER_EPOCH_REQUEST = Message(
    "OffsetForLeaderEpochRequest",
    (
        Field("replicaId", INT32, since=3, default=-2),
        Field(
            "topics",
            Array(
                Struct(
                    "OffsetForLeaderTopic",
                    (
                        Field("topic", STRING),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "OffsetForLeaderPartition",
                                    (
                                        Field("partition", INT32),
                                        Field("currentLeaderEpoch", INT32, since=2, default=-1),
                                        Field("leaderEpoch", INT32),
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
