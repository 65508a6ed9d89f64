"""Messages that are the values of control records."""

from __future__ import annotations

from engine.topics.message.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

END_TXN_MARKER = Message(
    "EndTxnMarker",
    (Field("coordinatorEpoch", INT32),),
)

VOTER = Struct(
    "Voter",
    (
        Field("voterId", INT32),
        Field("voterDirectoryId", UUID, since=1),
    ),
)

LEADER_CHANGE_MESSAGE = Message(
    "LeaderChangeMessage",
    (
        Field("version", INT16),
        Field("leaderId", INT32),
        Field("voters", Array(VOTER)),
        Field("grantingVoters", Array(VOTER)),
    ),
    last_version=1,
    flexible_since=0,
)

SNAPSHOT_HEADER_RECORD = Message(
    "SnapshotHeaderRecord",
    (
        Field("version", INT16),
        Field("lastContainedLogTimestamp", INT64),
    ),
    flexible_since=0,
)

SNAPSHOT_FOOTER_RECORD = Message(
    "SnapshotFooterRecord",
    (Field("version", INT16),),
    flexible_since=0,
)

KRAFT_VERSION_RECORD = Message(
    "KRaftVersionRecord",
    (
        Field("version", INT16),
        Field("kRaftVersion", INT16),
    ),
    flexible_since=0,
)

ENDPOINT = Struct(
    "Endpoint",
    (
        Field("name", STRING),
        Field("host", STRING),
        Field("port", UINT16),
    ),
)

KRAFT_VERSION_FEATURE = Struct(
    "KRaftVersionFeature",
    (
        Field("minSupportedVersion", INT16),
        Field("maxSupportedVersion", INT16),
    ),
)

VOTERS_VOTER = Struct(
    "Voter",
    (
        Field("voterId", INT32),
        Field("voterDirectoryId", UUID),
        Field("endpoints", Array(ENDPOINT)),
        Field("kRaftVersionFeature", KRAFT_VERSION_FEATURE),
    ),
)

VOTERS_RECORD = Message(
    "VotersRecord",
    (
        Field("version", INT16),
        Field("voters", Array(VOTERS_VOTER)),
    ),
    flexible_since=0,
)
