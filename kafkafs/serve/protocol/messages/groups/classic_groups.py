"""Messages of classic groups, and those that list and delete all kinds of groups, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    STRING,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_JOIN_GROUP_REQUEST_PROTOCOL = Struct(
    "JoinGroupRequestProtocol",
    (
        Field("name", STRING),
        Field("metadata", BYTES),
    ),
)

_JOIN_GROUP_RESPONSE_MEMBER = Struct(
    "JoinGroupResponseMember",
    (
        Field("memberId", STRING),
        Field("groupInstanceId", STRING, since=5, nullable=True, default=None),
        Field("metadata", BYTES),
    ),
)

JOIN_GROUP = Api(
    11,
    Message(
        "JoinGroupRequest",
        (
            Field("groupId", STRING),
            Field("sessionTimeoutMs", INT32),
            Field("rebalanceTimeoutMs", INT32, since=1, default=-1),
            Field("memberId", STRING),
            Field("groupInstanceId", STRING, since=5, nullable=True, default=None),
            Field("protocolType", STRING),
            Field("protocols", Array(_JOIN_GROUP_REQUEST_PROTOCOL)),
            Field("reason", STRING, since=8, nullable=True, default=None),
        ),
        first_version=0,
        last_version=9,
        flexible_since=6,
    ),
    Message(
        "JoinGroupResponse",
        (
            Field("throttleTimeMs", INT32, since=2),
            Field("errorCode", INT16),
            Field("generationId", INT32, default=-1),
            Field("protocolType", STRING, since=7, nullable=True, default=None),
            Field("protocolName", STRING, nullable=True),
            Field("leader", STRING),
            Field("skipAssignment", BOOL, since=9),
            Field("memberId", STRING),
            Field("members", Array(_JOIN_GROUP_RESPONSE_MEMBER)),
        ),
        first_version=0,
        last_version=9,
        flexible_since=6,
    ),
)

HEARTBEAT = Api(
    12,
    Message(
        "HeartbeatRequest",
        (
            Field("groupId", STRING),
            Field("generationId", INT32),
            Field("memberId", STRING),
            Field("groupInstanceId", STRING, since=3, nullable=True, default=None),
        ),
        first_version=0,
        last_version=4,
        flexible_since=4,
    ),
    Message(
        "HeartbeatResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16),
        ),
        first_version=0,
        last_version=4,
        flexible_since=4,
    ),
)

_MEMBER_IDENTITY = Struct(
    "MemberIdentity",
    (
        Field("memberId", STRING, since=3),
        Field("groupInstanceId", STRING, since=3, nullable=True, default=None),
        Field("reason", STRING, since=5, nullable=True, default=None),
    ),
)

_MEMBER_RESPONSE = Struct(
    "MemberResponse",
    (
        Field("memberId", STRING, since=3),
        Field("groupInstanceId", STRING, since=3, nullable=True),
        Field("errorCode", INT16, since=3),
    ),
)

LEAVE_GROUP = Api(
    13,
    Message(
        "LeaveGroupRequest",
        (
            Field("groupId", STRING),
            Field("memberId", STRING, until=2),
            Field("members", Array(_MEMBER_IDENTITY), since=3),
        ),
        first_version=0,
        last_version=5,
        flexible_since=4,
    ),
    Message(
        "LeaveGroupResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16),
            Field("members", Array(_MEMBER_RESPONSE), since=3),
        ),
        first_version=0,
        last_version=5,
        flexible_since=4,
    ),
)

_SYNC_GROUP_REQUEST_ASSIGNMENT = Struct(
    "SyncGroupRequestAssignment",
    (
        Field("memberId", STRING),
        Field("assignment", BYTES),
    ),
)

SYNC_GROUP = Api(
    14,
    Message(
        "SyncGroupRequest",
        (
            Field("groupId", STRING),
            Field("generationId", INT32),
            Field("memberId", STRING),
            Field("groupInstanceId", STRING, since=3, nullable=True, default=None),
            Field("protocolType", STRING, since=5, nullable=True, default=None),
            Field("protocolName", STRING, since=5, nullable=True, default=None),
            Field("assignments", Array(_SYNC_GROUP_REQUEST_ASSIGNMENT)),
        ),
        first_version=0,
        last_version=5,
        flexible_since=4,
    ),
    Message(
        "SyncGroupResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16),
            Field("protocolType", STRING, since=5, nullable=True, default=None),
            Field("protocolName", STRING, since=5, nullable=True, default=None),
            Field("assignment", BYTES),
        ),
        first_version=0,
        last_version=5,
        flexible_since=4,
    ),
)

_DESCRIBED_GROUP_MEMBER = Struct(
    "DescribedGroupMember",
    (
        Field("memberId", STRING),
        Field("groupInstanceId", STRING, since=4, nullable=True, default=None),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("memberMetadata", BYTES),
        Field("memberAssignment", BYTES),
    ),
)

_DESCRIBED_GROUP = Struct(
    "DescribedGroup",
    (
        Field("errorCode", INT16),
        Field("errorMessage", STRING, since=6, nullable=True, default=None),
        Field("groupId", STRING),
        Field("groupState", STRING),
        Field("protocolType", STRING),
        Field("protocolData", STRING),
        Field("members", Array(_DESCRIBED_GROUP_MEMBER)),
        Field("authorizedOperations", INT32, since=3, default=-2_147_483_648),
    ),
)

DESCRIBE_GROUPS = Api(
    15,
    Message(
        "DescribeGroupsRequest",
        (
            Field("groups", Array(STRING)),
            Field("includeAuthorizedOperations", BOOL, since=3),
        ),
        first_version=0,
        last_version=6,
        flexible_since=5,
    ),
    Message(
        "DescribeGroupsResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("groups", Array(_DESCRIBED_GROUP)),
        ),
        first_version=0,
        last_version=6,
        flexible_since=5,
    ),
)

_LISTED_GROUP = Struct(
    "ListedGroup",
    (
        Field("groupId", STRING),
        Field("protocolType", STRING),
        Field("groupState", STRING, since=4),
        Field("groupType", STRING, since=5),
    ),
)

LIST_GROUPS = Api(
    16,
    Message(
        "ListGroupsRequest",
        (
            Field("statesFilter", Array(STRING), since=4),
            Field("typesFilter", Array(STRING), since=5),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
    Message(
        "ListGroupsResponse",
        (
            Field("throttleTimeMs", INT32, since=1),
            Field("errorCode", INT16),
            Field("groups", Array(_LISTED_GROUP)),
        ),
        first_version=0,
        last_version=5,
        flexible_since=3,
    ),
)

_DELETABLE_GROUP_RESULT = Struct(
    "DeletableGroupResult",
    (
        Field("groupId", STRING),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, since=3, nullable=True, default=None),
    ),
)

DELETE_GROUPS = Api(
    42,
    Message(
        "DeleteGroupsRequest",
        (Field("groupsNames", Array(STRING)),),
        first_version=0,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "DeleteGroupsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_DELETABLE_GROUP_RESULT)),
        ),
        first_version=0,
        last_version=3,
        flexible_since=2,
    ),
)
