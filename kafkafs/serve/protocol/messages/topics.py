"""Messages that create, grow and delete topics, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_CREATABLE_REPLICA_ASSIGNMENT = Struct(
    "CreatableReplicaAssignment",
    (
        Field("partitionIndex", INT32),
        Field("brokerIds", Array(INT32)),
    ),
)

_CREATABLE_TOPIC_CONFIG = Struct(
    "CreatableTopicConfig",
    (
        Field("name", STRING),
        Field("value", STRING, nullable=True),
    ),
)

_CREATABLE_TOPIC = Struct(
    "CreatableTopic",
    (
        Field("name", STRING),
        Field("numPartitions", INT32),
        Field("replicationFactor", INT16),
        Field("assignments", Array(_CREATABLE_REPLICA_ASSIGNMENT)),
        Field("configs", Array(_CREATABLE_TOPIC_CONFIG)),
    ),
)

_CREATABLE_TOPIC_CONFIGS = Struct(
    "CreatableTopicConfigs",
    (
        Field("name", STRING, since=5),
        Field("value", STRING, since=5, nullable=True),
        Field("readOnly", BOOL, since=5),
        Field("configSource", INT8, since=5, default=-1),
        Field("isSensitive", BOOL, since=5),
    ),
)

_CREATABLE_TOPIC_RESULT = Struct(
    "CreatableTopicResult",
    (
        Field("name", STRING),
        Field("topicId", UUID, since=7),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, since=1, nullable=True),
        Field("topicConfigErrorCode", INT16, since=5, tag=0),
        Field("numPartitions", INT32, since=5, default=-1),
        Field("replicationFactor", INT16, since=5, default=-1),
        Field("configs", Array(_CREATABLE_TOPIC_CONFIGS), since=5, nullable=True),
    ),
)

CREATE_TOPICS = Api(
    19,
    Message(
        "CreateTopicsRequest",
        (
            Field("topics", Array(_CREATABLE_TOPIC)),
            Field("timeoutMs", INT32, default=60000),
            Field("validateOnly", BOOL, since=1),
        ),
        first_version=2,
        last_version=7,
        flexible_since=5,
    ),
    Message(
        "CreateTopicsResponse",
        (
            Field("throttleTimeMs", INT32, since=2),
            Field("topics", Array(_CREATABLE_TOPIC_RESULT)),
        ),
        first_version=2,
        last_version=7,
        flexible_since=5,
    ),
)

_DELETE_TOPIC_STATE = Struct(
    "DeleteTopicState",
    (
        Field("name", STRING, since=6, nullable=True, default=None),
        Field("topicId", UUID, since=6),
    ),
)

_DELETABLE_TOPIC_RESULT = Struct(
    "DeletableTopicResult",
    (
        Field("name", STRING, nullable=True),
        Field("topicId", UUID, since=6),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, since=5, nullable=True, default=None),
    ),
)

DELETE_TOPICS = Api(
    20,
    Message(
        "DeleteTopicsRequest",
        (
            Field("topics", Array(_DELETE_TOPIC_STATE), since=6),
            Field("topicNames", Array(STRING), until=5),
            Field("timeoutMs", INT32),
        ),
        first_version=1,
        last_version=6,
        flexible_since=4,
    ),
    Message(
        "DeleteTopicsResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("responses", Array(_DELETABLE_TOPIC_RESULT)),
        ),
        first_version=1,
        last_version=6,
        flexible_since=4,
    ),
)

_CREATE_PARTITIONS_ASSIGNMENT = Struct(
    "CreatePartitionsAssignment",
    (Field("brokerIds", Array(INT32)),),
)

_CREATE_PARTITIONS_TOPIC = Struct(
    "CreatePartitionsTopic",
    (
        Field("name", STRING),
        Field("count", INT32),
        Field("assignments", Array(_CREATE_PARTITIONS_ASSIGNMENT), nullable=True),
    ),
)

_CREATE_PARTITIONS_TOPIC_RESULT = Struct(
    "CreatePartitionsTopicResult",
    (
        Field("name", STRING),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
    ),
)

CREATE_PARTITIONS = Api(
    37,
    Message(
        "CreatePartitionsRequest",
        (
            Field("topics", Array(_CREATE_PARTITIONS_TOPIC)),
            Field("timeoutMs", INT32),
            Field("validateOnly", BOOL),
        ),
        first_version=0,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "CreatePartitionsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_CREATE_PARTITIONS_TOPIC_RESULT)),
        ),
        first_version=0,
        last_version=3,
        flexible_since=2,
    ),
)
