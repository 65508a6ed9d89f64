"""Messages about configurations, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_DESCRIBE_CONFIGS_RESOURCE = Struct(
    "DescribeConfigsResource",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("configurationKeys", Array(STRING), nullable=True),
    ),
)

_DESCRIBE_CONFIGS_SYNONYM = Struct(
    "DescribeConfigsSynonym",
    (
        Field("name", STRING, since=1),
        Field("value", STRING, since=1, nullable=True),
        Field("source", INT8, since=1),
    ),
)

_DESCRIBE_CONFIGS_RESOURCE_RESULT = Struct(
    "DescribeConfigsResourceResult",
    (
        Field("name", STRING),
        Field("value", STRING, nullable=True),
        Field("readOnly", BOOL),
        Field("configSource", INT8, since=1, default=-1),
        Field("isSensitive", BOOL),
        Field("synonyms", Array(_DESCRIBE_CONFIGS_SYNONYM), since=1),
        Field("configType", INT8, since=3),
        Field("documentation", STRING, since=3, nullable=True),
    ),
)

_DESCRIBE_CONFIGS_RESULT = Struct(
    "DescribeConfigsResult",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("configs", Array(_DESCRIBE_CONFIGS_RESOURCE_RESULT)),
    ),
)

DESCRIBE_CONFIGS = Api(
    32,
    Message(
        "DescribeConfigsRequest",
        (
            Field("resources", Array(_DESCRIBE_CONFIGS_RESOURCE)),
            Field("includeSynonyms", BOOL, since=1),
            Field("includeDocumentation", BOOL, since=3),
        ),
        first_version=1,
        last_version=4,
        flexible_since=4,
    ),
    Message(
        "DescribeConfigsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_DESCRIBE_CONFIGS_RESULT)),
        ),
        first_version=1,
        last_version=4,
        flexible_since=4,
    ),
)

_ALTERABLE_CONFIG = Struct(
    "AlterableConfig",
    (
        Field("name", STRING),
        Field("value", STRING, nullable=True),
    ),
)

_ALTER_CONFIGS_RESOURCE = Struct(
    "AlterConfigsResource",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("configs", Array(_ALTERABLE_CONFIG)),
    ),
)

_ALTER_CONFIGS_RESOURCE_RESPONSE = Struct(
    "AlterConfigsResourceResponse",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("resourceType", INT8),
        Field("resourceName", STRING),
    ),
)

ALTER_CONFIGS = Api(
    33,
    Message(
        "AlterConfigsRequest",
        (
            Field("resources", Array(_ALTER_CONFIGS_RESOURCE)),
            Field("validateOnly", BOOL),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "AlterConfigsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("responses", Array(_ALTER_CONFIGS_RESOURCE_RESPONSE)),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
)

_INCREMENTAL_ALTER_CONFIGS_REQUEST_ALTERABLE_CONFIG = Struct(
    "AlterableConfig",
    (
        Field("name", STRING),
        Field("configOperation", INT8),
        Field("value", STRING, nullable=True),
    ),
)

_INCREMENTAL_ALTER_CONFIGS_REQUEST_ALTER_CONFIGS_RESOURCE = Struct(
    "AlterConfigsResource",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("configs", Array(_INCREMENTAL_ALTER_CONFIGS_REQUEST_ALTERABLE_CONFIG)),
    ),
)

INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    Message(
        "IncrementalAlterConfigsRequest",
        (
            Field("resources", Array(_INCREMENTAL_ALTER_CONFIGS_REQUEST_ALTER_CONFIGS_RESOURCE)),
            Field("validateOnly", BOOL),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
    Message(
        "IncrementalAlterConfigsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("responses", Array(_ALTER_CONFIGS_RESOURCE_RESPONSE)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=1,
    ),
)

_CONFIG_RESOURCE = Struct(
    "ConfigResource",
    (
        Field("resourceName", STRING),
        Field("resourceType", INT8, since=1, default=16),
    ),
)

LIST_CONFIG_RESOURCES = Api(
    74,
    Message(
        "ListConfigResourcesRequest",
        (Field("resourceTypes", Array(INT8), since=1),),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
    Message(
        "ListConfigResourcesResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("configResources", Array(_CONFIG_RESOURCE)),
        ),
        first_version=0,
        last_version=1,
        flexible_since=0,
    ),
)
