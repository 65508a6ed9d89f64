"""Messages about committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
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

_OFFSET_COMMIT_REQUEST_PARTITION = Struct(
    "OffsetCommitRequestPartition",
    (
        Field("partitionIndex", INT32),
        Field("committedOffset", INT64),
        Field("committedLeaderEpoch", INT32, since=6, default=-1),
        Field("committedMetadata", STRING, nullable=True),
    ),
)

_OFFSET_COMMIT_REQUEST_TOPIC = Struct(
    "OffsetCommitRequestTopic",
    (
        Field("name", STRING, until=9),
        Field("topicId", UUID, since=10),
        Field("partitions", Array(_OFFSET_COMMIT_REQUEST_PARTITION)),
    ),
)

_OFFSET_COMMIT_RESPONSE_PARTITION = Struct(
    "OffsetCommitResponsePartition",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
    ),
)

_OFFSET_COMMIT_RESPONSE_TOPIC = Struct(
    "OffsetCommitResponseTopic",
    (
        Field("name", STRING, until=9),
        Field("topicId", UUID, since=10),
        Field("partitions", Array(_OFFSET_COMMIT_RESPONSE_PARTITION)),
    ),
)

OFFSET_COMMIT = Api(
    8,
    Message(
        "OffsetCommitRequest",
        (
            Field("groupId", STRING),
            Field("generationIdOrMemberEpoch", INT32, since=1, default=-1),
            Field("memberId", STRING, since=1),
            Field("groupInstanceId", STRING, since=7, nullable=True, default=None),
            Field("retentionTimeMs", INT64, since=2, until=4, default=-1),
            Field("topics", Array(_OFFSET_COMMIT_REQUEST_TOPIC)),
        ),
        first_version=2,
        last_version=10,
        flexible_since=8,
    ),
    Message(
        "OffsetCommitResponse",
        (
            Field("throttleTimeMs", INT32, since=3),
            Field("topics", Array(_OFFSET_COMMIT_RESPONSE_TOPIC)),
        ),
        first_version=2,
        last_version=10,
        flexible_since=8,
    ),
)

_OFFSET_FETCH_REQUEST_TOPIC = Struct(
    "OffsetFetchRequestTopic",
    (
        Field("name", STRING, until=7),
        Field("partitionIndexes", Array(INT32), until=7),
    ),
)

_OFFSET_FETCH_REQUEST_TOPICS = Struct(
    "OffsetFetchRequestTopics",
    (
        Field("name", STRING, since=8, until=9),
        Field("topicId", UUID, since=10),
        Field("partitionIndexes", Array(INT32), since=8),
    ),
)

_OFFSET_FETCH_REQUEST_GROUP = Struct(
    "OffsetFetchRequestGroup",
    (
        Field("groupId", STRING, since=8),
        Field("memberId", STRING, since=9, nullable=True, default=None),
        Field("memberEpoch", INT32, since=9, default=-1),
        Field("topics", Array(_OFFSET_FETCH_REQUEST_TOPICS), since=8, nullable=True),
    ),
)

_OFFSET_FETCH_RESPONSE_PARTITION = Struct(
    "OffsetFetchResponsePartition",
    (
        Field("partitionIndex", INT32, until=7),
        Field("committedOffset", INT64, until=7),
        Field("committedLeaderEpoch", INT32, since=5, until=7, default=-1),
        Field("metadata", STRING, until=7, nullable=True),
        Field("errorCode", INT16, until=7),
    ),
)

_OFFSET_FETCH_RESPONSE_TOPIC = Struct(
    "OffsetFetchResponseTopic",
    (
        Field("name", STRING, until=7),
        Field("partitions", Array(_OFFSET_FETCH_RESPONSE_PARTITION), until=7),
    ),
)

_OFFSET_FETCH_RESPONSE_PARTITIONS = Struct(
    "OffsetFetchResponsePartitions",
    (
        Field("partitionIndex", INT32, since=8),
        Field("committedOffset", INT64, since=8),
        Field("committedLeaderEpoch", INT32, since=8, default=-1),
        Field("metadata", STRING, since=8, nullable=True),
        Field("errorCode", INT16, since=8),
    ),
)

_OFFSET_FETCH_RESPONSE_TOPICS = Struct(
    "OffsetFetchResponseTopics",
    (
        Field("name", STRING, since=8, until=9),
        Field("topicId", UUID, since=10),
        Field("partitions", Array(_OFFSET_FETCH_RESPONSE_PARTITIONS), since=8),
    ),
)

_OFFSET_FETCH_RESPONSE_GROUP = Struct(
    "OffsetFetchResponseGroup",
    (
        Field("groupId", STRING, since=8),
        Field("topics", Array(_OFFSET_FETCH_RESPONSE_TOPICS), since=8),
        Field("errorCode", INT16, since=8),
    ),
)

OFFSET_FETCH = Api(
    9,
    Message(
        "OffsetFetchRequest",
        (
            Field("groupId", STRING, until=7),
            Field("topics", Array(_OFFSET_FETCH_REQUEST_TOPIC), until=7, nullable=True),
            Field("groups", Array(_OFFSET_FETCH_REQUEST_GROUP), since=8),
            Field("requireStable", BOOL, since=7),
        ),
        first_version=1,
        last_version=10,
        flexible_since=6,
    ),
    Message(
        "OffsetFetchResponse",
        (
            Field("throttleTimeMs", INT32, since=3),
            Field("topics", Array(_OFFSET_FETCH_RESPONSE_TOPIC), until=7),
            Field("errorCode", INT16, since=2, until=7),
            Field("groups", Array(_OFFSET_FETCH_RESPONSE_GROUP), since=8),
        ),
        first_version=1,
        last_version=10,
        flexible_since=6,
    ),
)

_OFFSET_DELETE_REQUEST_PARTITION = Struct(
    "OffsetDeleteRequestPartition",
    (Field("partitionIndex", INT32),),
)

_OFFSET_DELETE_REQUEST_TOPIC = Struct(
    "OffsetDeleteRequestTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_OFFSET_DELETE_REQUEST_PARTITION)),
    ),
)

_OFFSET_DELETE_RESPONSE_PARTITION = Struct(
    "OffsetDeleteResponsePartition",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
    ),
)

_OFFSET_DELETE_RESPONSE_TOPIC = Struct(
    "OffsetDeleteResponseTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(_OFFSET_DELETE_RESPONSE_PARTITION)),
    ),
)

OFFSET_DELETE = Api(
    47,
    Message(
        "OffsetDeleteRequest",
        (
            Field("groupId", STRING),
            Field("topics", Array(_OFFSET_DELETE_REQUEST_TOPIC)),
        ),
        first_version=0,
        last_version=0,
    ),
    Message(
        "OffsetDeleteResponse",
        (
            Field("errorCode", INT16),
            Field("throttleTimeMs", INT32),
            Field("topics", Array(_OFFSET_DELETE_RESPONSE_TOPIC)),
        ),
        first_version=0,
        last_version=0,
    ),
)
