"""Internal topics by name, with their record types."""

from __future__ import annotations

from engine.topics.coordinator_records import CoordinatorDecoder, RecordType
from engine.topics.decoded_record import TopicDecoder
from engine.topics.framed_records import FramedDecoder, FramedType
from engine.topics.group_metadata import expand_members
from engine.topics.message import (
    cluster_metadata as cluster,
    consumer_groups as consumer,
    consumer_offsets as classic,
    remote_log_metadata as remote,
    share_group_state as share_state,
    share_groups as share,
    streams_groups as streams,
    transaction_log as transactions,
)
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from engine.topics.transaction_states import name_state

# fmt: off
GROUP_RECORDS = {
    0: RecordType("LEGACY_OFFSET_COMMIT", classic.LEGACY_OFFSET_COMMIT_KEY,
                  classic.LEGACY_OFFSET_COMMIT_VALUE, wider=classic.OFFSET_COMMIT_VALUE),
    1: RecordType("OFFSET_COMMIT", classic.OFFSET_COMMIT_KEY, classic.OFFSET_COMMIT_VALUE),
    2: RecordType("GROUP_METADATA", classic.GROUP_METADATA_KEY, classic.GROUP_METADATA_VALUE,
                  expand_members),
    3: RecordType("CONSUMER_GROUP_METADATA", consumer.CONSUMER_GROUP_METADATA_KEY,
                  consumer.CONSUMER_GROUP_METADATA_VALUE),
    4: RecordType("CONSUMER_GROUP_PARTITION_METADATA",
                  consumer.CONSUMER_GROUP_PARTITION_METADATA_KEY,
                  consumer.CONSUMER_GROUP_PARTITION_METADATA_VALUE),
    5: RecordType("CONSUMER_GROUP_MEMBER_METADATA", consumer.CONSUMER_GROUP_MEMBER_METADATA_KEY,
                  consumer.CONSUMER_GROUP_MEMBER_METADATA_VALUE),
    6: RecordType("CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA",
                  consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
                  consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE),
    7: RecordType("CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER",
                  consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
                  consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE),
    8: RecordType("CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
                  consumer.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
                  consumer.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE),
    # Kafka 4.0's early access to share groups wrote type 9.
    9: RecordType("SHARE_GROUP_PARTITION_METADATA", share.SHARE_GROUP_PARTITION_METADATA_KEY,
                  share.SHARE_GROUP_PARTITION_METADATA_VALUE, is_retired=True),
    10: RecordType("SHARE_GROUP_MEMBER_METADATA", share.SHARE_GROUP_MEMBER_METADATA_KEY,
                   share.SHARE_GROUP_MEMBER_METADATA_VALUE),
    11: RecordType("SHARE_GROUP_METADATA", share.SHARE_GROUP_METADATA_KEY,
                   share.SHARE_GROUP_METADATA_VALUE),
    12: RecordType("SHARE_GROUP_TARGET_ASSIGNMENT_METADATA",
                   share.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
                   share.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE),
    13: RecordType("SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER",
                   share.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
                   share.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE),
    14: RecordType("SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
                   share.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
                   share.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE),
    15: RecordType("SHARE_GROUP_STATE_PARTITION_METADATA",
                   share.SHARE_GROUP_STATE_PARTITION_METADATA_KEY,
                   share.SHARE_GROUP_STATE_PARTITION_METADATA_VALUE),
    16: RecordType("CONSUMER_GROUP_REGULAR_EXPRESSION",
                   consumer.CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
                   consumer.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE),
    17: RecordType("STREAMS_GROUP_METADATA", streams.STREAMS_GROUP_METADATA_KEY,
                   streams.STREAMS_GROUP_METADATA_VALUE),
    19: RecordType("STREAMS_GROUP_MEMBER_METADATA", streams.STREAMS_GROUP_MEMBER_METADATA_KEY,
                   streams.STREAMS_GROUP_MEMBER_METADATA_VALUE),
    20: RecordType("STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA",
                   streams.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
                   streams.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE),
    21: RecordType("STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
                   streams.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
                   streams.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE),
    22: RecordType("STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
                   streams.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
                   streams.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE),
    23: RecordType("STREAMS_GROUP_TOPOLOGY", streams.STREAMS_GROUP_TOPOLOGY_KEY,
                   streams.STREAMS_GROUP_TOPOLOGY_VALUE),
}
"""Record types of __consumer_offsets by number."""

TRANSACTION_RECORDS = {
    0: RecordType("TRANSACTION_LOG", transactions.TRANSACTION_LOG_KEY,
                  transactions.TRANSACTION_LOG_VALUE, name_state),
}
"""Record types of __transaction_state by number."""

SHARE_STATE_RECORDS = {
    0: RecordType("SHARE_SNAPSHOT", share_state.SHARE_SNAPSHOT_KEY,
                  share_state.SHARE_SNAPSHOT_VALUE),
    1: RecordType("SHARE_UPDATE", share_state.SHARE_UPDATE_KEY, share_state.SHARE_UPDATE_VALUE),
}
"""Record types of __share_group_state by number."""

METADATA_RECORDS = {
    0: FramedType("REGISTER_BROKER_RECORD", cluster.REGISTER_BROKER_RECORD),
    1: FramedType("UNREGISTER_BROKER_RECORD", cluster.UNREGISTER_BROKER_RECORD),
    2: FramedType("TOPIC_RECORD", cluster.TOPIC_RECORD),
    3: FramedType("PARTITION_RECORD", cluster.PARTITION_RECORD),
    4: FramedType("CONFIG_RECORD", cluster.CONFIG_RECORD),
    5: FramedType("PARTITION_CHANGE_RECORD", cluster.PARTITION_CHANGE_RECORD),
    6: FramedType("ACCESS_CONTROL_RECORD", cluster.ACCESS_CONTROL_RECORD, is_retired=True),
    7: FramedType("FENCE_BROKER_RECORD", cluster.FENCE_BROKER_RECORD),
    8: FramedType("UNFENCE_BROKER_RECORD", cluster.UNFENCE_BROKER_RECORD),
    9: FramedType("REMOVE_TOPIC_RECORD", cluster.REMOVE_TOPIC_RECORD),
    10: FramedType("DELEGATION_TOKEN_RECORD", cluster.DELEGATION_TOKEN_RECORD),
    11: FramedType("USER_SCRAM_CREDENTIAL_RECORD", cluster.USER_SCRAM_CREDENTIAL_RECORD),
    12: FramedType("FEATURE_LEVEL_RECORD", cluster.FEATURE_LEVEL_RECORD),
    14: FramedType("CLIENT_QUOTA_RECORD", cluster.CLIENT_QUOTA_RECORD),
    15: FramedType("PRODUCER_IDS_RECORD", cluster.PRODUCER_IDS_RECORD),
    16: FramedType("REMOVE_FEATURE_LEVEL_RECORD", cluster.REMOVE_FEATURE_LEVEL_RECORD,
                   is_retired=True),
    17: FramedType("BROKER_REGISTRATION_CHANGE_RECORD", cluster.BROKER_REGISTRATION_CHANGE_RECORD),
    18: FramedType("ACCESS_CONTROL_ENTRY_RECORD", cluster.ACCESS_CONTROL_ENTRY_RECORD),
    19: FramedType("REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
                   cluster.REMOVE_ACCESS_CONTROL_ENTRY_RECORD),
    20: FramedType("NO_OP_RECORD", cluster.NO_OP_RECORD),
    21: FramedType("ZK_MIGRATION_STATE_RECORD", cluster.ZK_MIGRATION_STATE_RECORD),
    22: FramedType("REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
                   cluster.REMOVE_USER_SCRAM_CREDENTIAL_RECORD),
    23: FramedType("BEGIN_TRANSACTION_RECORD", cluster.BEGIN_TRANSACTION_RECORD),
    24: FramedType("END_TRANSACTION_RECORD", cluster.END_TRANSACTION_RECORD),
    25: FramedType("ABORT_TRANSACTION_RECORD", cluster.ABORT_TRANSACTION_RECORD),
    26: FramedType("REMOVE_DELEGATION_TOKEN_RECORD", cluster.REMOVE_DELEGATION_TOKEN_RECORD),
    27: FramedType("REGISTER_CONTROLLER_RECORD", cluster.REGISTER_CONTROLLER_RECORD),
    28: FramedType("CLEAR_ELR_RECORD", cluster.CLEAR_ELR_RECORD),
    29: FramedType("UNREGISTER_CONTROLLER_RECORD", cluster.UNREGISTER_CONTROLLER_RECORD),
}
"""Record types of __cluster_metadata and its snapshots by number."""

REMOTE_RECORDS = {
    0: FramedType("REMOTE_LOG_SEGMENT_METADATA_RECORD", remote.REMOTE_LOG_SEGMENT_METADATA_RECORD),
    1: FramedType("REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD",
                  remote.REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD),
    2: FramedType("REMOTE_PARTITION_DELETE_METADATA_RECORD",
                  remote.REMOTE_PARTITION_DELETE_METADATA_RECORD),
    3: FramedType("REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD",
                  remote.REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD),
}
"""Record types of __remote_log_metadata by number."""
# fmt: on

_DECODERS: dict[str, TopicDecoder] = {
    CONSUMER_OFFSETS: CoordinatorDecoder(GROUP_RECORDS),
    TRANSACTION_STATE: CoordinatorDecoder(TRANSACTION_RECORDS),
    SHARE_GROUP_STATE: CoordinatorDecoder(SHARE_STATE_RECORDS),
    CLUSTER_METADATA: FramedDecoder(METADATA_RECORDS, "Error while reading frame version"),
    REMOTE_LOG_METADATA: FramedDecoder(
        REMOTE_RECORDS,
        'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
        '"org.apache.kafka.common.record.internal.Record.value()" is null',
    ),
}


def decoder_for(topic: str) -> TopicDecoder | None:
    """Return the decoder for a topic; None for a topic that is not internal, by its exact name."""
    return _DECODERS.get(topic)
