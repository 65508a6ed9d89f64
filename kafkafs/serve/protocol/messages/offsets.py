"""Messages about offsets of logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
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

_LIST_OFFSETS_PARTITION = Struct(
    "ListOffsetsPartition",
    (
        Field("partitionIndex", INT32),
        Field("currentLeaderEpoch", INT32, since=4, default=-1),
        Field("timestamp", INT64),
    ),
)

_LIST_OFFSETS_TOPIC = Struct(
    "ListOffsetsTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_LIST_OFFSETS_PARTITION)),
    ),
)

_LIST_OFFSETS_PARTITION_RESPONSE = Struct(
    "ListOffsetsPartitionResponse",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("timestamp", INT64, since=1, default=-1),
        Field("offset", INT64, since=1, default=-1),
        Field("leaderEpoch", INT32, since=4, default=-1),
    ),
)

_LIST_OFFSETS_TOPIC_RESPONSE = Struct(
    "ListOffsetsTopicResponse",
    (
        Field("name", STRING),
        Field("partitions", Array(_LIST_OFFSETS_PARTITION_RESPONSE)),
    ),
)

LIST_OFFSETS = Api(
    2,
    Message(
        "ListOffsetsRequest",
        (
            Field("replicaId", INT32),
            Field("isolationLevel", INT8, since=2),
            Field("topics", Array(_LIST_OFFSETS_TOPIC)),
            Field("timeoutMs", INT32, since=10),
        ),
        first_version=1,
        last_version=11,
        flexible_since=6,
    ),
    Message(
        "ListOffsetsResponse",
        (
            Field("throttleTimeMs", INT32, since=2),
            Field("topics", Array(_LIST_OFFSETS_TOPIC_RESPONSE)),
        ),
        first_version=1,
        last_version=11,
        flexible_since=6,
    ),
)

_OFFSET_FOR_LEADER_PARTITION = Struct(
    "OffsetForLeaderPartition",
    (
        Field("partition", INT32),
        Field("currentLeaderEpoch", INT32, since=2, default=-1),
        Field("leaderEpoch", INT32),
    ),
)

_OFFSET_FOR_LEADER_TOPIC = Struct(
    "OffsetForLeaderTopic",
    (
        Field("topic", STRING),
        Field("partitions", Array(_OFFSET_FOR_LEADER_PARTITION)),
    ),
)

_EPOCH_END_OFFSET = Struct(
    "EpochEndOffset",
    (
        Field("errorCode", INT16),
        Field("partition", INT32),
        Field("leaderEpoch", INT32, since=1, default=-1),
        Field("endOffset", INT64, default=-1),
    ),
)

_OFFSET_FOR_LEADER_TOPIC_RESULT = Struct(
    "OffsetForLeaderTopicResult",
    (
        Field("topic", STRING),
        Field("partitions", Array(_EPOCH_END_OFFSET)),
    ),
)

OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    Message(
        "OffsetForLeaderEpochRequest",
        (
            Field("replicaId", INT32, since=3, default=-2),
            Field("topics", Array(_OFFSET_FOR_LEADER_TOPIC)),
        ),
        first_version=2,
        last_version=4,
        flexible_since=4,
    ),
    Message(
        "OffsetForLeaderEpochResponse",
        (
            Field("throttleTimeMs", INT32, since=2),
            Field("topics", Array(_OFFSET_FOR_LEADER_TOPIC_RESULT)),
        ),
        first_version=2,
        last_version=4,
        flexible_since=4,
    ),
)

_DELETE_RECORDS_PARTITION = Struct(
    "DeleteRecordsPartition",
    (
        Field("partitionIndex", INT32),
        Field("offset", INT64),
    ),
)

_DELETE_RECORDS_TOPIC = Struct(
    "DeleteRecordsTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_DELETE_RECORDS_PARTITION)),
    ),
)

_DELETE_RECORDS_PARTITION_RESULT = Struct(
    "DeleteRecordsPartitionResult",
    (
        Field("partitionIndex", INT32),
        Field("lowWatermark", INT64),
        Field("errorCode", INT16),
    ),
)

_DELETE_RECORDS_TOPIC_RESULT = Struct(
    "DeleteRecordsTopicResult",
    (
        Field("name", STRING),
        Field("partitions", Array(_DELETE_RECORDS_PARTITION_RESULT)),
    ),
)

DELETE_RECORDS = Api(
    21,
    Message(
        "DeleteRecordsRequest",
        (
            Field("topics", Array(_DELETE_RECORDS_TOPIC)),
            Field("timeoutMs", INT32),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "DeleteRecordsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("topics", Array(_DELETE_RECORDS_TOPIC_RESULT)),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
)
