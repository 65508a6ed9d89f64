"""Messages of __transaction_state."""

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

TRANSACTION_LOG_KEY = Message(
    "TransactionLogKey",
    (Field("transactionalId", STRING),),
)

PARTITIONS_SCHEMA = Struct(
    "PartitionsSchema",
    (
        Field("topic", STRING),
        Field("partitionIds", Array(INT32)),
    ),
)

TRANSACTION_LOG_VALUE = Message(
    "TransactionLogValue",
    (
        Field("producerId", INT64),
        Field("previousProducerId", INT64, since=1, tag=0, default=-1),
        Field("nextProducerId", INT64, since=1, tag=1, default=-1),
        Field("producerEpoch", INT16),
        Field("nextProducerEpoch", INT16, since=1, tag=3, default=-1),
        Field("transactionTimeoutMs", INT32),
        Field("transactionStatus", INT8),
        Field("transactionPartitions", Array(PARTITIONS_SCHEMA), nullable=True),
        Field("transactionLastUpdateTimestampMs", INT64),
        Field("transactionStartTimestampMs", INT64),
        Field("clientTransactionVersion", INT16, since=1, tag=2),
    ),
    last_version=1,
    flexible_since=1,
)
