"""Messages about idempotent producers: InitProducerId, DescribeProducers, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
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

INIT_PRODUCER_ID = Api(
    22,
    Message(
        "InitProducerIdRequest",
        (
            Field("transactionalId", STRING, nullable=True),
            Field("transactionTimeoutMs", INT32),
            Field("producerId", INT64, since=3, default=-1),
            Field("producerEpoch", INT16, since=3, default=-1),
        ),
        first_version=0,
        last_version=5,
        flexible_since=2,
    ),
    Message(
        "InitProducerIdResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("producerId", INT64, default=-1),
            Field("producerEpoch", INT16),
        ),
        first_version=0,
        last_version=5,
        flexible_since=2,
    ),
)

_TOPIC_REQUEST = Struct(
    "TopicRequest",
    (
        Field("name", STRING),
        Field("partitionIndexes", Array(INT32)),
    ),
)

_PRODUCER_STATE = Struct(
    "ProducerState",
    (
        Field("producerId", INT64),
        Field("producerEpoch", INT32),
        Field("lastSequence", INT32, default=-1),
        Field("lastTimestamp", INT64, default=-1),
        Field("coordinatorEpoch", INT32),
        Field("currentTxnStartOffset", INT64, default=-1),
    ),
)

_PARTITION_RESPONSE = Struct(
    "PartitionResponse",
    (
        Field("partitionIndex", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
        Field("activeProducers", Array(_PRODUCER_STATE)),
    ),
)

_TOPIC_RESPONSE = Struct(
    "TopicResponse",
    (
        Field("name", STRING),
        Field("partitions", Array(_PARTITION_RESPONSE)),
    ),
)

DESCRIBE_PRODUCERS = Api(
    61,
    Message(
        "DescribeProducersRequest",
        (Field("topics", Array(_TOPIC_REQUEST)),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "DescribeProducersResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("topics", Array(_TOPIC_RESPONSE)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
