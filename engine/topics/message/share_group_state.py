"""Messages of __share_group_state."""

from __future__ import annotations

from engine.topics.message.schema import (
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

SHARE_SNAPSHOT_KEY = Message(
    "ShareSnapshotKey",
    (
        Field("groupId", STRING),
        Field("topicId", UUID),
        Field("partition", INT32),
    ),
)

STATE_BATCH = Struct(
    "StateBatch",
    (
        Field("firstOffset", INT64),
        Field("lastOffset", INT64),
        Field("deliveryState", INT8),
        Field("deliveryCount", INT16),
    ),
)

SHARE_SNAPSHOT_VALUE = Message(
    "ShareSnapshotValue",
    (
        Field("snapshotEpoch", INT32),
        Field("stateEpoch", INT32),
        Field("leaderEpoch", INT32),
        Field("startOffset", INT64),
        Field("deliveryCompleteCount", INT32, tag=0, default=-1),
        Field("createTimestamp", INT64),
        Field("writeTimestamp", INT64),
        Field("stateBatches", Array(STATE_BATCH)),
    ),
    flexible_since=0,
)

SHARE_UPDATE_KEY = Message(
    "ShareUpdateKey",
    (
        Field("groupId", STRING),
        Field("topicId", UUID),
        Field("partition", INT32),
    ),
)

SHARE_UPDATE_VALUE = Message(
    "ShareUpdateValue",
    (
        Field("snapshotEpoch", INT32),
        Field("leaderEpoch", INT32),
        Field("startOffset", INT64),
        Field("deliveryCompleteCount", INT32, tag=0, default=-1),
        Field("stateBatches", Array(STATE_BATCH)),
    ),
    flexible_since=0,
)
