"""Messages by which share groups take records: ShareFetch, ShareAcknowledge, from the JSON schemas of Kafka 4.4.0."""

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
from kafkafs.serve.protocol.api import Api

_ACKNOWLEDGEMENT_BATCH = Struct(
    "AcknowledgementBatch",
    (
        Field("firstOffset", INT64),
        Field("lastOffset", INT64),
        Field("acknowledgeTypes", Array(INT8)),
    ),
)

_FETCH_PARTITION = Struct(
    "FetchPartition",
    (
        Field("partitionIndex", INT32),
        Field("partitionMaxBytes", INT32, until=0),
        Field("acknowledgementBatches", Array(_ACKNOWLEDGEMENT_BATCH)),
    ),
)

_FETCH_TOPIC = Struct(
    "FetchTopic",
    (
        Field("topicId", UUID),
        Field("partitions", Array(_FETCH_PARTITION)),
    ),
)

_FORGOTTEN_TOPIC = Struct(
    "ForgottenTopic",
    (
        Field("topicId", UUID),
        Field("partitions", Array(INT32)),
    ),
)

_LEADER_ID_AND_EPOCH = Struct(
    "LeaderIdAndEpoch",
    (
        Field("leaderId", INT32),
        Field("leaderEpoch", INT32),
    ),
)

_ACQUIRED_RECORDS = Struct(
    "AcquiredRecords",
    (
        Field("firstOffset", INT64),
        Field("lastOffset", INT64),
        Field("deliveryCount", INT16),
    ),
)

_PARTITION_DATA = Struct(
    "PartitionData",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
        Field("acknowledgeErrorCode", INT16),
        Field("acknowledgeErrorMessage", STRING, nullable=True, default=None),
        Field("currentLeader", _LEADER_ID_AND_EPOCH),
        Field("records", BYTES, nullable=True),
        Field("acquiredRecords", Array(_ACQUIRED_RECORDS)),
    ),
)

_SHARE_FETCHABLE_TOPIC_RESPONSE = Struct(
    "ShareFetchableTopicResponse",
    (
        Field("topicId", UUID),
        Field("partitions", Array(_PARTITION_DATA)),
    ),
)

_NODE_ENDPOINT = Struct(
    "NodeEndpoint",
    (
        Field("nodeId", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable=True, default=None),
    ),
)

SHARE_FETCH = Api(
    78,
    Message(
        "ShareFetchRequest",
        (
            Field("groupId", STRING, nullable=True, default=None),
            Field("memberId", STRING, nullable=True),
            Field("shareSessionEpoch", INT32),
            Field("maxWaitMs", INT32),
            Field("minBytes", INT32),
            Field("maxBytes", INT32, default=2_147_483_647),
            Field("maxRecords", INT32, since=1),
            Field("batchSize", INT32, since=1),
            Field("shareAcquireMode", INT8, since=2),
            Field("isRenewAck", BOOL, since=2),
            Field("topics", Array(_FETCH_TOPIC)),
            Field("forgottenTopicsData", Array(_FORGOTTEN_TOPIC)),
        ),
        first_version=1,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "ShareFetchResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("acquisitionLockTimeoutMs", INT32, since=1),
            Field("responses", Array(_SHARE_FETCHABLE_TOPIC_RESPONSE)),
            Field("nodeEndpoints", Array(_NODE_ENDPOINT)),
        ),
        first_version=1,
        last_version=2,
        flexible_since=0,
    ),
)

_ACKNOWLEDGE_PARTITION = Struct(
    "AcknowledgePartition",
    (
        Field("partitionIndex", INT32),
        Field("acknowledgementBatches", Array(_ACKNOWLEDGEMENT_BATCH)),
    ),
)

_ACKNOWLEDGE_TOPIC = Struct(
    "AcknowledgeTopic",
    (
        Field("topicId", UUID),
        Field("partitions", Array(_ACKNOWLEDGE_PARTITION)),
    ),
)

_SHARE_ACKNOWLEDGE_RESPONSE_PARTITION_DATA = Struct(
    "PartitionData",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
        Field("currentLeader", _LEADER_ID_AND_EPOCH),
    ),
)

_SHARE_ACKNOWLEDGE_TOPIC_RESPONSE = Struct(
    "ShareAcknowledgeTopicResponse",
    (
        Field("topicId", UUID),
        Field("partitions", Array(_SHARE_ACKNOWLEDGE_RESPONSE_PARTITION_DATA)),
    ),
)

SHARE_ACKNOWLEDGE = Api(
    79,
    Message(
        "ShareAcknowledgeRequest",
        (
            Field("groupId", STRING, nullable=True, default=None),
            Field("memberId", STRING, nullable=True),
            Field("shareSessionEpoch", INT32),
            Field("isRenewAck", BOOL, since=2),
            Field("topics", Array(_ACKNOWLEDGE_TOPIC)),
        ),
        first_version=1,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "ShareAcknowledgeResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True, default=None),
            Field("acquisitionLockTimeoutMs", INT32, since=2),
            Field("responses", Array(_SHARE_ACKNOWLEDGE_TOPIC_RESPONSE)),
            Field("nodeEndpoints", Array(_NODE_ENDPOINT)),
        ),
        first_version=1,
        last_version=2,
        flexible_since=0,
    ),
)
