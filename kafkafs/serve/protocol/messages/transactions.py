"""Messages about transactions, from the JSON schemas of Kafka 4.4.0."""

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

_ADD_PARTITIONS_TO_TXN_TOPIC = Struct(
    "AddPartitionsToTxnTopic",
    (
        Field("name", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_ADD_PARTITIONS_TO_TXN_TRANSACTION = Struct(
    "AddPartitionsToTxnTransaction",
    (
        Field("transactionalId", STRING, since=4),
        Field("producerId", INT64, since=4),
        Field("producerEpoch", INT16, since=4),
        Field("verifyOnly", BOOL, since=4),
        Field("topics", Array(_ADD_PARTITIONS_TO_TXN_TOPIC), since=4),
    ),
)

_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT = Struct(
    "AddPartitionsToTxnPartitionResult",
    (
        Field("partitionIndex", INT32),
        Field("partitionErrorCode", INT16),
    ),
)

_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT = Struct(
    "AddPartitionsToTxnTopicResult",
    (
        Field("name", STRING),
        Field("resultsByPartition", Array(_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT)),
    ),
)

_ADD_PARTITIONS_TO_TXN_RESULT = Struct(
    "AddPartitionsToTxnResult",
    (
        Field("transactionalId", STRING, since=4),
        Field("topicResults", Array(_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT), since=4),
    ),
)

ADD_PARTITIONS_TO_TXN = Api(
    24,
    Message(
        "AddPartitionsToTxnRequest",
        (
            Field("transactions", Array(_ADD_PARTITIONS_TO_TXN_TRANSACTION), since=4),
            Field("v3AndBelowTransactionalId", STRING, until=3),
            Field("v3AndBelowProducerId", INT64, until=3),
            Field("v3AndBelowProducerEpoch", INT16, until=3),
            Field("v3AndBelowTopics", Array(_ADD_PARTITIONS_TO_TXN_TOPIC), until=3),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
    Message(
        "AddPartitionsToTxnResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16, since=4),
            Field("resultsByTransaction", Array(_ADD_PARTITIONS_TO_TXN_RESULT), since=4),
            Field("resultsByTopicV3AndBelow", Array(_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT), until=3),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
)

ADD_OFFSETS_TO_TXN = Api(
    25,
    Message(
        "AddOffsetsToTxnRequest",
        (
            Field("transactionalId", STRING),
            Field("producerId", INT64),
            Field("producerEpoch", INT16),
            Field("groupId", STRING),
        ),
        first_version=0,
        last_version=4,
        flexible_since=3,
    ),
    Message(
        "AddOffsetsToTxnResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
        ),
        first_version=0,
        last_version=4,
        flexible_since=3,
    ),
)

END_TXN = Api(
    26,
    Message(
        "EndTxnRequest",
        (
            Field("transactionalId", STRING),
            Field("producerId", INT64),
            Field("producerEpoch", INT16),
            Field("committed", BOOL),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
    Message(
        "EndTxnResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("producerId", INT64, since=5, default=-1),
            Field("producerEpoch", INT16, since=5, default=-1),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
)

_WRITABLE_TXN_MARKER_TOPIC = Struct(
    "WritableTxnMarkerTopic",
    (
        Field("name", STRING),
        Field("partitionIndexes", Array(INT32)),
    ),
)

_WRITABLE_TXN_MARKER = Struct(
    "WritableTxnMarker",
    (
        Field("producerId", INT64),
        Field("producerEpoch", INT16),
        Field("transactionResult", BOOL),
        Field("topics", Array(_WRITABLE_TXN_MARKER_TOPIC)),
        Field("coordinatorEpoch", INT32),
        Field("transactionVersion", INT8, since=2),
    ),
)

_WRITABLE_TXN_MARKER_PARTITION_RESULT = Struct(
    "WritableTxnMarkerPartitionResult",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
    ),
)

_WRITABLE_TXN_MARKER_TOPIC_RESULT = Struct(
    "WritableTxnMarkerTopicResult",
    (
        Field("name", STRING),
        Field("partitions", Array(_WRITABLE_TXN_MARKER_PARTITION_RESULT)),
    ),
)

_WRITABLE_TXN_MARKER_RESULT = Struct(
    "WritableTxnMarkerResult",
    (
        Field("producerId", INT64),
        Field("topics", Array(_WRITABLE_TXN_MARKER_TOPIC_RESULT)),
    ),
)

WRITE_TXN_MARKERS = Api(
    27,
    Message(
        "WriteTxnMarkersRequest",
        (Field("markers", Array(_WRITABLE_TXN_MARKER)),),
        first_version=1,
        last_version=2,
        flexible_since=1,
    ),
    Message(
        "WriteTxnMarkersResponse",
        (Field("markers", Array(_WRITABLE_TXN_MARKER_RESULT)),),
        first_version=1,
        last_version=2,
        flexible_since=1,
    ),
)

_TXN_OFFSET_COMMIT_REQUEST_PARTITION = Struct(
    "TxnOffsetCommitRequestPartition",
    (
        Field("partitionIndex", INT32),
        Field("committedOffset", INT64),
        Field("committedLeaderEpoch", INT32, since=2, default=-1),
        Field("committedMetadata", STRING, nullable=True),
    ),
)

_TXN_OFFSET_COMMIT_REQUEST_TOPIC = Struct(
    "TxnOffsetCommitRequestTopic",
    (
        Field("name", STRING, until=5),
        Field("topicId", UUID, since=6),
        Field("partitions", Array(_TXN_OFFSET_COMMIT_REQUEST_PARTITION)),
    ),
)

_TXN_OFFSET_COMMIT_RESPONSE_PARTITION = Struct(
    "TxnOffsetCommitResponsePartition",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
    ),
)

_TXN_OFFSET_COMMIT_RESPONSE_TOPIC = Struct(
    "TxnOffsetCommitResponseTopic",
    (
        Field("name", STRING, until=5),
        Field("topicId", UUID, since=6),
        Field("partitions", Array(_TXN_OFFSET_COMMIT_RESPONSE_PARTITION)),
    ),
)

TXN_OFFSET_COMMIT = Api(
    28,
    Message(
        "TxnOffsetCommitRequest",
        (
            Field("transactionalId", STRING),
            Field("groupId", STRING),
            Field("producerId", INT64),
            Field("producerEpoch", INT16),
            Field("generationIdOrMemberEpoch", INT32, since=3, default=-1),
            Field("memberId", STRING, since=3),
            Field("groupInstanceId", STRING, since=3, nullable=True, default=None),
            Field("topics", Array(_TXN_OFFSET_COMMIT_REQUEST_TOPIC)),
        ),
        first_version=0,
        last_version=6,
        flexible_since=3,
    ),
    Message(
        "TxnOffsetCommitResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("topics", Array(_TXN_OFFSET_COMMIT_RESPONSE_TOPIC)),
        ),
        first_version=0,
        last_version=6,
        flexible_since=3,
    ),
)

_TOPIC_DATA = Struct(
    "TopicData",
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)

_TRANSACTION_STATE = Struct(
    "TransactionState",
    (
        Field("errorCode", INT16),
        Field("transactionalId", STRING),
        Field("transactionState", STRING),
        Field("transactionTimeoutMs", INT32),
        Field("transactionStartTimeMs", INT64),
        Field("producerId", INT64),
        Field("producerEpoch", INT16),
        Field("topics", Array(_TOPIC_DATA)),
    ),
)

DESCRIBE_TRANSACTIONS = Api(
    65,
    Message(
        "DescribeTransactionsRequest",
        (Field("transactionalIds", Array(STRING)),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "DescribeTransactionsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("transactionStates", Array(_TRANSACTION_STATE)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

_LIST_TRANSACTIONS_RESPONSE_TRANSACTION_STATE = Struct(
    "TransactionState",
    (
        Field("transactionalId", STRING),
        Field("producerId", INT64),
        Field("transactionState", STRING),
    ),
)

LIST_TRANSACTIONS = Api(
    66,
    Message(
        "ListTransactionsRequest",
        (
            Field("stateFilters", Array(STRING)),
            Field("producerIdFilters", Array(INT64)),
            Field("durationFilter", INT64, since=1, default=-1),
            Field("transactionalIdPattern", STRING, since=2, nullable=True, default=None),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
    Message(
        "ListTransactionsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("unknownStateFilters", Array(STRING)),
            Field("transactionStates", Array(_LIST_TRANSACTIONS_RESPONSE_TRANSACTION_STATE)),
        ),
        first_version=0,
        last_version=2,
        flexible_since=0,
    ),
)
