"""Messages about ACLs, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
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

_ACL_DESCRIPTION = Struct(
    "AclDescription",
    (
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
)

_DESCRIBE_ACLS_RESOURCE = Struct(
    "DescribeAclsResource",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("patternType", INT8, since=1, default=3),
        Field("acls", Array(_ACL_DESCRIPTION)),
    ),
)

DESCRIBE_ACLS = Api(
    29,
    Message(
        "DescribeAclsRequest",
        (
            Field("resourceTypeFilter", INT8),
            Field("resourceNameFilter", STRING, nullable=True),
            Field("patternTypeFilter", INT8, since=1, default=3),
            Field("principalFilter", STRING, nullable=True),
            Field("hostFilter", STRING, nullable=True),
            Field("operation", INT8),
            Field("permissionType", INT8),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "DescribeAclsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("resources", Array(_DESCRIBE_ACLS_RESOURCE)),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
)

_ACL_CREATION = Struct(
    "AclCreation",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("resourcePatternType", INT8, since=1, default=3),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
)

_ACL_CREATION_RESULT = Struct(
    "AclCreationResult",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
    ),
)

CREATE_ACLS = Api(
    30,
    Message(
        "CreateAclsRequest",
        (Field("creations", Array(_ACL_CREATION)),),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "CreateAclsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_ACL_CREATION_RESULT)),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
)

_DELETE_ACLS_FILTER = Struct(
    "DeleteAclsFilter",
    (
        Field("resourceTypeFilter", INT8),
        Field("resourceNameFilter", STRING, nullable=True),
        Field("patternTypeFilter", INT8, since=1, default=3),
        Field("principalFilter", STRING, nullable=True),
        Field("hostFilter", STRING, nullable=True),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
)

_DELETE_ACLS_MATCHING_ACL = Struct(
    "DeleteAclsMatchingAcl",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("patternType", INT8, since=1, default=3),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
)

_DELETE_ACLS_FILTER_RESULT = Struct(
    "DeleteAclsFilterResult",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("matchingAcls", Array(_DELETE_ACLS_MATCHING_ACL)),
    ),
)

DELETE_ACLS = Api(
    31,
    Message(
        "DeleteAclsRequest",
        (Field("filters", Array(_DELETE_ACLS_FILTER)),),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "DeleteAclsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("filterResults", Array(_DELETE_ACLS_FILTER_RESULT)),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
)
