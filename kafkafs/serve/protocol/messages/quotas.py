"""Messages about client quotas and metrics of clients, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
    FLOAT64,
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

_COMPONENT_DATA = Struct(
    "ComponentData",
    (
        Field("entityType", STRING),
        Field("matchType", INT8),
        Field("match", STRING, nullable=True),
    ),
)

_ENTITY_DATA = Struct(
    "EntityData",
    (
        Field("entityType", STRING),
        Field("entityName", STRING, nullable=True),
    ),
)

_VALUE_DATA = Struct(
    "ValueData",
    (
        Field("key", STRING),
        Field("value", FLOAT64),
    ),
)

_ENTRY_DATA = Struct(
    "EntryData",
    (
        Field("entity", Array(_ENTITY_DATA)),
        Field("values", Array(_VALUE_DATA)),
    ),
)

DESCRIBE_CLIENT_QUOTAS = Api(
    48,
    Message(
        "DescribeClientQuotasRequest",
        (
            Field("components", Array(_COMPONENT_DATA)),
            Field("strict", BOOL),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
    Message(
        "DescribeClientQuotasResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("entries", Array(_ENTRY_DATA), nullable=True),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
)

_OP_DATA = Struct(
    "OpData",
    (
        Field("key", STRING),
        Field("value", FLOAT64),
        Field("remove", BOOL),
    ),
)

_ALTER_CLIENT_QUOTAS_REQUEST_ENTRY_DATA = Struct(
    "EntryData",
    (
        Field("entity", Array(_ENTITY_DATA)),
        Field("ops", Array(_OP_DATA)),
    ),
)

_ALTER_CLIENT_QUOTAS_RESPONSE_ENTRY_DATA = Struct(
    "EntryData",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("entity", Array(_ENTITY_DATA)),
    ),
)

ALTER_CLIENT_QUOTAS = Api(
    49,
    Message(
        "AlterClientQuotasRequest",
        (
            Field("entries", Array(_ALTER_CLIENT_QUOTAS_REQUEST_ENTRY_DATA)),
            Field("validateOnly", BOOL),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
    Message(
        "AlterClientQuotasResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("entries", Array(_ALTER_CLIENT_QUOTAS_RESPONSE_ENTRY_DATA)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
)

GET_TELEMETRY_SUBSCRIPTIONS = Api(
    71,
    Message(
        "GetTelemetrySubscriptionsRequest",
        (Field("clientInstanceId", UUID),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "GetTelemetrySubscriptionsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("clientInstanceId", UUID),
            Field("subscriptionId", INT32),
            Field("acceptedCompressionTypes", Array(INT8)),
            Field("pushIntervalMs", INT32),
            Field("telemetryMaxBytes", INT32),
            Field("deltaTemporality", BOOL),
            Field("requestedMetrics", Array(STRING)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

PUSH_TELEMETRY = Api(
    72,
    Message(
        "PushTelemetryRequest",
        (
            Field("clientInstanceId", UUID),
            Field("subscriptionId", INT32),
            Field("terminating", BOOL),
            Field("compressionType", INT8),
            Field("metrics", BYTES),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "PushTelemetryResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
