"""Messages that carry records: Produce, Fetch, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
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
from kafkafs.serve.protocol.api import Api

_PARTITION_PRODUCE_DATA = Struct(
    "PartitionProduceData",
    (
        Field("index", INT32),
        Field("records", BYTES, nullable=True),
    ),
)

_TOPIC_PRODUCE_DATA = Struct(
    "TopicProduceData",
    (
        Field("name", STRING, until=12),
        Field("topicId", UUID, since=13),
        Field("partitionData", Array(_PARTITION_PRODUCE_DATA)),
    ),
)

_BATCH_INDEX_AND_ERROR_MESSAGE = Struct(
    "BatchIndexAndErrorMessage",
    (
        Field("batchIndex", INT32, since=8),
        Field("batchIndexErrorMessage", STRING, since=8, nullable=True, default=None),
    ),
)

_LEADER_ID_AND_EPOCH = Struct(
    "LeaderIdAndEpoch",
    (
        Field("leaderId", INT32, since=10, default=-1),
        Field("leaderEpoch", INT32, since=10, default=-1),
    ),
)

_PARTITION_PRODUCE_RESPONSE = Struct(
    "PartitionProduceResponse",
    (
        Field("index", INT32),
        Field("errorCode", INT16),
        Field("baseOffset", INT64),
        Field("logAppendTimeMs", INT64, since=2, default=-1),
        Field("logStartOffset", INT64, since=5, default=-1),
        Field("recordErrors", Array(_BATCH_INDEX_AND_ERROR_MESSAGE), since=8),
        Field("errorMessage", STRING, since=8, nullable=True, default=None),
        Field("currentLeader", _LEADER_ID_AND_EPOCH, since=10, tag=0),
    ),
)

_TOPIC_PRODUCE_RESPONSE = Struct(
    "TopicProduceResponse",
    (
        Field("name", STRING, until=12),
        Field("topicId", UUID, since=13),
        Field("partitionResponses", Array(_PARTITION_PRODUCE_RESPONSE)),
    ),
)

_NODE_ENDPOINT = Struct(
    "NodeEndpoint",
    (
        Field("nodeId", INT32, since=10),
        Field("host", STRING, since=10),
        Field("port", INT32, since=10),
        Field("rack", STRING, since=10, nullable=True, default=None),
    ),
)

PRODUCE = Api(
    0,
    Message(
        "ProduceRequest",
        (
            Field("transactionalId", STRING, since=3, nullable=True, default=None),
            Field("acks", INT16),
            Field("timeoutMs", INT32),
            Field("topicData", Array(_TOPIC_PRODUCE_DATA)),
        ),
        first_version=3,
        last_version=13,
        flexible_since=9,
    ),
    Message(
        "ProduceResponse",
        (
            Field("responses", Array(_TOPIC_PRODUCE_RESPONSE)),
            Field("throttleTimeMs", INT32, since=1),
            Field("nodeEndpoints", Array(_NODE_ENDPOINT), since=10, tag=0),
        ),
        first_version=3,
        last_version=13,
        flexible_since=9,
    ),
)

_REPLICA_STATE = Struct(
    "ReplicaState",
    (
        Field("replicaId", INT32, since=15, default=-1),
        Field("replicaEpoch", INT64, since=15, default=-1),
    ),
)

_FETCH_PARTITION = Struct(
    "FetchPartition",
    (
        Field("partition", INT32),
        Field("currentLeaderEpoch", INT32, since=9, default=-1),
        Field("fetchOffset", INT64),
        Field("lastFetchedEpoch", INT32, since=12, default=-1),
        Field("logStartOffset", INT64, since=5, default=-1),
        Field("partitionMaxBytes", INT32),
        Field("replicaDirectoryId", UUID, since=17, tag=0),
        Field("highWatermark", INT64, since=18, tag=1, default=9_223_372_036_854_775_807),
    ),
)

_FETCH_TOPIC = Struct(
    "FetchTopic",
    (
        Field("topic", STRING, until=12),
        Field("topicId", UUID, since=13),
        Field("partitions", Array(_FETCH_PARTITION)),
    ),
)

_FORGOTTEN_TOPIC = Struct(
    "ForgottenTopic",
    (
        Field("topic", STRING, since=7, until=12),
        Field("topicId", UUID, since=13),
        Field("partitions", Array(INT32), since=7),
    ),
)

_EPOCH_END_OFFSET = Struct(
    "EpochEndOffset",
    (
        Field("epoch", INT32, since=12, default=-1),
        Field("endOffset", INT64, since=12, default=-1),
    ),
)

_FETCH_RESPONSE_LEADER_ID_AND_EPOCH = Struct(
    "LeaderIdAndEpoch",
    (
        Field("leaderId", INT32, since=12, default=-1),
        Field("leaderEpoch", INT32, since=12, default=-1),
    ),
)

_SNAPSHOT_ID = Struct(
    "SnapshotId",
    (
        Field("endOffset", INT64, default=-1),
        Field("epoch", INT32, default=-1),
    ),
)

_ABORTED_TRANSACTION = Struct(
    "AbortedTransaction",
    (
        Field("producerId", INT64, since=4),
        Field("firstOffset", INT64, since=4),
    ),
)

_PARTITION_DATA = Struct(
    "PartitionData",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("highWatermark", INT64),
        Field("lastStableOffset", INT64, since=4, default=-1),
        Field("logStartOffset", INT64, since=5, default=-1),
        Field("divergingEpoch", _EPOCH_END_OFFSET, since=12, tag=0),
        Field("currentLeader", _FETCH_RESPONSE_LEADER_ID_AND_EPOCH, since=12, tag=1),
        Field("snapshotId", _SNAPSHOT_ID, since=12, tag=2),
        Field("abortedTransactions", Array(_ABORTED_TRANSACTION), since=4, nullable=True),
        Field("preferredReadReplica", INT32, since=11, default=-1),
        Field("records", BYTES, nullable=True),
    ),
)

_FETCHABLE_TOPIC_RESPONSE = Struct(
    "FetchableTopicResponse",
    (
        Field("topic", STRING, until=12),
        Field("topicId", UUID, since=13),
        Field("partitions", Array(_PARTITION_DATA)),
    ),
)

_FETCH_RESPONSE_NODE_ENDPOINT = Struct(
    "NodeEndpoint",
    (
        Field("nodeId", INT32, since=16),
        Field("host", STRING, since=16),
        Field("port", INT32, since=16),
        Field("rack", STRING, since=16, nullable=True, default=None),
    ),
)

FETCH = Api(
    1,
    Message(
        "FetchRequest",
        (
            Field("clusterId", STRING, since=12, nullable=True, tag=0, default=None),
            Field("replicaId", INT32, until=14, default=-1),
            Field("replicaState", _REPLICA_STATE, since=15, tag=1),
            Field("maxWaitMs", INT32),
            Field("minBytes", INT32),
            Field("maxBytes", INT32, since=3, default=2_147_483_647),
            Field("isolationLevel", INT8, since=4),
            Field("sessionId", INT32, since=7),
            Field("sessionEpoch", INT32, since=7, default=-1),
            Field("topics", Array(_FETCH_TOPIC)),
            Field("forgottenTopicsData", Array(_FORGOTTEN_TOPIC), since=7),
            Field("rackId", STRING, since=11),
        ),
        first_version=4,
        last_version=18,
        flexible_since=12,
    ),
    Message(
        "FetchResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16, since=7),
            Field("sessionId", INT32, since=7),
            Field("responses", Array(_FETCHABLE_TOPIC_RESPONSE)),
            Field("nodeEndpoints", Array(_FETCH_RESPONSE_NODE_ENDPOINT), since=16, tag=0),
        ),
        first_version=4,
        last_version=18,
        flexible_since=12,
    ),
)
