"""Messages of __consumer_offsets for classic groups: committed offsets and group metadata."""

from __future__ import annotations

from engine.topics.message.schema import (
    BYTES,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

LEGACY_OFFSET_COMMIT_KEY = Message(
    "LegacyOffsetCommitKey",
    (
        Field("group", STRING),
        Field("topic", STRING),
        Field("partition", INT32),
    ),
)

LEGACY_OFFSET_COMMIT_VALUE = Message(
    "LegacyOffsetCommitValue",
    (
        Field("offset", INT64),
        Field("metadata", STRING),
        Field("commitTimestamp", INT64),
    ),
)

OFFSET_COMMIT_KEY = Message(
    "OffsetCommitKey",
    (
        Field("group", STRING),
        Field("topic", STRING),
        Field("partition", INT32),
    ),
)

OFFSET_COMMIT_VALUE = Message(
    "OffsetCommitValue",
    (
        Field("offset", INT64),
        Field("leaderEpoch", INT32, since=3, default=-1),
        Field("metadata", STRING),
        Field("commitTimestamp", INT64),
        Field("expireTimestamp", INT64, since=1, until=1, default=-1),
        Field("topicId", UUID, since=4, tag=0),
    ),
    last_version=4,
    flexible_since=4,
)

GROUP_METADATA_KEY = Message(
    "GroupMetadataKey",
    (Field("group", STRING),),
)

MEMBER_METADATA = Struct(
    "MemberMetadata",
    (
        Field("memberId", STRING),
        Field("groupInstanceId", STRING, since=3, nullable=True, default=None),
        Field("clientId", STRING),
        Field("clientHost", STRING),
        Field("rebalanceTimeout", INT32, since=1, default=-1),
        Field("sessionTimeout", INT32),
        Field("subscription", BYTES),
        Field("assignment", BYTES),
    ),
)

GROUP_METADATA_VALUE = Message(
    "GroupMetadataValue",
    (
        Field("protocolType", STRING),
        Field("generation", INT32),
        Field("protocol", STRING, nullable=True),
        Field("leader", STRING, nullable=True),
        Field("currentStateTimestamp", INT64, since=2, default=-1),
        Field("members", Array(MEMBER_METADATA)),
    ),
    last_version=4,
    flexible_since=4,
)
