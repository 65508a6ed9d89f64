"""Records of __remote_log_metadata as Kafka's objects print themselves."""

from __future__ import annotations

import pytest

from kafkafs.dump.records.decoded import decoded_text
from tests.message_bytes import framed
from tests.messages import NAMED

TOPIC_ID, SEGMENT_ID = "Uj5wn_FqTXirEASvVZRY1w", "sgf5MsZgRTuEMv68ZXKJbQ"
PARTITION = {"name": "foo", "id": TOPIC_ID, "partition": 0}
SEGMENT = {"topicIdPartition": PARTITION, "id": SEGMENT_ID}
SHOWN = f"RemoteLogSegmentId{{topicIdPartition={TOPIC_ID}:foo-0, id={SEGMENT_ID}}}"


def shown(value: bytes | None, offset: int = 5) -> str:
    found = decoded_text("__remote_log_metadata", offset, None, value)
    assert found.key is None
    assert found.payload is not None
    return found.payload.decode()


def segment(**fields: object) -> bytes:
    values: dict[str, object] = {
        "remoteLogSegmentId": SEGMENT,
        "startOffset": 1,
        "endOffset": 9,
        "brokerId": 2,
        "maxTimestampMs": 77,
        "eventTimestampMs": 88,
        "segmentLeaderEpochs": [{"leaderEpoch": 3, "offset": 4}, {"leaderEpoch": 0, "offset": 1}],
        "segmentSizeInBytes": 1024,
        "remoteLogSegmentState": 1,
    }
    return framed(0, 0, NAMED["RemoteLogSegmentMetadataRecord"], **(values | fields))


def test_a_segment_is_shown_as_kafkas_object() -> None:
    assert shown(segment(txnIndexEmpty=True)) == (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={SHOWN}, startOffset=1, endOffset=9,"
        " brokerId=2, maxTimestampMs=77, eventTimestampMs=88, segmentLeaderEpochs={0=1, 3=4},"
        " segmentSizeInBytes=1024, customMetadata=Optional.empty, state=COPY_SEGMENT_FINISHED,"
        " txnIdxEmpty=true}"
    )


def test_an_update_is_shown_as_kafkas_object() -> None:
    value = framed(
        *(1, 0, NAMED["RemoteLogSegmentMetadataUpdateRecord"]),
        remoteLogSegmentId=SEGMENT,
        customMetadata=bytes(4),
        remoteLogSegmentState=1,
    )
    assert shown(value) == (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={SHOWN},"
        " customMetadata=Optional[CustomMetadata{4 bytes}], state=COPY_SEGMENT_FINISHED,"
        " eventTimestampMs=0, brokerId=0}"
    )


def test_a_deletion_is_shown_as_kafkas_object() -> None:
    value = framed(2, 0, NAMED["RemotePartitionDeleteMetadataRecord"], topicIdPartition=PARTITION)
    assert shown(value) == (
        f"RemotePartitionDeleteMetadata{{topicPartition={TOPIC_ID}:foo-0,"
        " state=DELETE_PARTITION_MARKED, eventTimestampMs=0, brokerId=0}"
    )


def test_a_segment_in_a_snapshot_is_shown_as_kafkas_object() -> None:
    value = framed(
        *(3, 0, NAMED["RemoteLogSegmentMetadataSnapshotRecord"]),
        segmentId=SEGMENT_ID,
        segmentLeaderEpochs=[{"leaderEpoch": 0, "offset": 0}],
    )
    assert shown(value) == (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={SEGMENT_ID}, startOffset=0, endOffset=0,"
        " maxTimestampMs=0, segmentLeaderEpochs={0=0}, segmentSizeInBytes=0,"
        " customMetadata=Optional.empty, state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (segment(startOffset=-1), "Unexpected start offset = -1."),
        (segment(endOffset=0), "Unexpected end offset = 0."),
        (segment(segmentLeaderEpochs=[]), "segmentLeaderEpochs can not be null or empty"),
        (segment(remoteLogSegmentState=9), "state can not be null"),
        (b"corrupted", "Could not deserialize metadata record"),
        (None, "is null"),
    ],
    ids=["start", "end", "epochs", "state", "bytes", "null"],
)
def test_what_kafka_makes_no_object_of_is_skipped(value: bytes | None, said: str) -> None:
    text = shown(value)
    assert text.startswith("Error at offset 5, skipping. ")
    assert said in text
