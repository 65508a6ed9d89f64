"""Messages of __remote_log_metadata."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

TOPIC_ID_PARTITION_ENTRY = Struct(
    "TopicIdPartitionEntry",
    (
        Field("name", STRING),
        Field("id", UUID),
        Field("partition", INT32),
    ),
)

REMOTE_LOG_SEGMENT_ID_ENTRY = Struct(
    "RemoteLogSegmentIdEntry",
    (
        Field("topicIdPartition", TOPIC_ID_PARTITION_ENTRY),
        Field("id", UUID),
    ),
)

SEGMENT_LEADER_EPOCH_ENTRY = Struct(
    "SegmentLeaderEpochEntry",
    (
        Field("leaderEpoch", INT32),
        Field("offset", INT64),
    ),
)

REMOTE_LOG_SEGMENT_METADATA_RECORD = Message(
    "RemoteLogSegmentMetadataRecord",
    (
        Field("remoteLogSegmentId", REMOTE_LOG_SEGMENT_ID_ENTRY),
        Field("startOffset", INT64),
        Field("endOffset", INT64),
        Field("brokerId", INT32),
        Field("maxTimestampMs", INT64),
        Field("eventTimestampMs", INT64),
        Field("segmentLeaderEpochs", Array(SEGMENT_LEADER_EPOCH_ENTRY)),
        Field("segmentSizeInBytes", INT32),
        Field("customMetadata", BYTES, nullable=True, default=None),
        Field("remoteLogSegmentState", INT8),
        Field("txnIndexEmpty", BOOL, tag=0),
    ),
    flexible_since=0,
)

REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD = Message(
    "RemoteLogSegmentMetadataUpdateRecord",
    (
        Field("remoteLogSegmentId", REMOTE_LOG_SEGMENT_ID_ENTRY),
        Field("brokerId", INT32),
        Field("eventTimestampMs", INT64),
        Field("customMetadata", BYTES, nullable=True, default=None),
        Field("remoteLogSegmentState", INT8),
    ),
    flexible_since=0,
)

REMOTE_PARTITION_DELETE_METADATA_RECORD = Message(
    "RemotePartitionDeleteMetadataRecord",
    (
        Field("topicIdPartition", TOPIC_ID_PARTITION_ENTRY),
        Field("brokerId", INT32),
        Field("eventTimestampMs", INT64),
        Field("remotePartitionDeleteState", INT8),
    ),
    flexible_since=0,
)

REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD = Message(
    "RemoteLogSegmentMetadataSnapshotRecord",
    (
        Field("segmentId", UUID),
        Field("startOffset", INT64),
        Field("endOffset", INT64),
        Field("brokerId", INT32),
        Field("maxTimestampMs", INT64),
        Field("eventTimestampMs", INT64),
        Field("segmentLeaderEpochs", Array(SEGMENT_LEADER_EPOCH_ENTRY)),
        Field("segmentSizeInBytes", INT32),
        Field("customMetadata", BYTES, nullable=True, default=None),
        Field("remoteLogSegmentState", INT8),
        Field("txnIndexEmpty", BOOL, tag=0),
    ),
    flexible_since=0,
)
