"""Text of records of internal topics, as DumpLogSegments' decoders print it."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from engine.topics.decoded_record import DecodedRecord, Failure
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA, REMOTE_LOG_METADATA
from engine.units import Offset
from kafkafs.dump.records.java_json import java_json

SEGMENT_STATES = (
    *("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"),
    *("DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"),
)
DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_text(kind: str, data: dict[str, Any]) -> str:
    """Return the text that Kafka prints for a record.

    Args:
        kind: name of the record type.
        data: fields of the record as JSON.

    Raises:
        ValueError: Kafka's object rejects the fields.
    """
    return _TEXTS[kind](data)


def _segment(data: dict[str, Any]) -> str:
    epochs, state = _checked(data)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(data)}"
        f", startOffset={data['startOffset']}, endOffset={data['endOffset']}"
        f", brokerId={data['brokerId']}, maxTimestampMs={data['maxTimestampMs']}"
        f", eventTimestampMs={data['eventTimestampMs']}, segmentLeaderEpochs={epochs}"
        f", segmentSizeInBytes={data['segmentSizeInBytes']}, customMetadata={_custom(data)}"
        f", state={state}, txnIdxEmpty={_is_empty(data)}}}"
    )


def _update(data: dict[str, Any]) -> str:
    state = _state(data["remoteLogSegmentState"], SEGMENT_STATES)
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(data)}"
        f", customMetadata={_custom(data)}, state={state}"
        f", eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
    )


def _delete(data: dict[str, Any]) -> str:
    state = _state(data["remotePartitionDeleteState"], DELETE_STATES)
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(data['topicIdPartition'])}"
        f", state={state}, eventTimestampMs={data['eventTimestampMs']}"
        f", brokerId={data['brokerId']}}}"
    )


def _snapshot(data: dict[str, Any]) -> str:
    epochs, state = _checked(data)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={data['segmentId']}"
        f", startOffset={data['startOffset']}, endOffset={data['endOffset']}"
        f", maxTimestampMs={data['maxTimestampMs']}, segmentLeaderEpochs={epochs}"
        f", segmentSizeInBytes={data['segmentSizeInBytes']}, customMetadata={_custom(data)}"
        f", state={state}, txnIdxEmpty={_is_empty(data)}}}"
    )


_TEXTS = {
    "REMOTE_LOG_SEGMENT_METADATA_RECORD": _segment,
    "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD": _update,
    "REMOTE_PARTITION_DELETE_METADATA_RECORD": _delete,
    "REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD": _snapshot,
}


def _checked(data: dict[str, Any]) -> tuple[str, str]:
    """Return epochs and state of a segment, validated as Kafka does."""
    state = _state(data["remoteLogSegmentState"], SEGMENT_STATES)
    start, end = data["startOffset"], data["endOffset"]
    if start < 0:
        raise ValueError(
            f"Unexpected start offset = {start}."
            " StartOffset for a remote segment cannot be negative"
        )
    if end < start:
        raise ValueError(
            f"Unexpected end offset = {end}."
            f" EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    epochs = {each["leaderEpoch"]: each["offset"] for each in data["segmentLeaderEpochs"]}
    if not epochs:
        raise ValueError("segmentLeaderEpochs can not be null or empty")
    shown = ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(epochs.items()))
    return f"{{{shown}}}", state


def _state(number: int, names: tuple[str, ...]) -> str:
    if not 0 <= number < len(names):
        raise ValueError("state can not be null")
    return names[number]


def _segment_id(data: dict[str, Any]) -> str:
    found = data["remoteLogSegmentId"]
    partition = _partition(found["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={found['id']}}}"


def _partition(found: dict[str, Any]) -> str:
    return f"{found['id']}:{found['name']}-{found['partition']}"


def _custom(data: dict[str, Any]) -> str:
    found = data.get("customMetadata")
    if found is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(base64.b64decode(found))} bytes}}]"


def _is_empty(data: dict[str, Any]) -> str:
    return "true" if data.get("txnIndexEmpty") else "false"


class DecodedText(NamedTuple):
    """Text of a record's key and payload; None for a part that is not shown.

    Attributes:
        complaint: why nothing is shown; "" if something is.
    """

    key: bytes | None = None
    payload: bytes | None = None
    complaint: str = ""


def decoded_text(topic: str, offset: Offset, key: bytes | None, value: bytes | None) -> DecodedText:
    """Return the text that the decoder of an internal topic gives for a record.

    Raises:
        ValueError: the topic is not internal.
    """
    decoder = decoder_for(topic)
    if decoder is None:
        raise ValueError(f"{topic} is not an internal topic")
    found = decoder.decode(key, value, as_kafka=True)
    if topic == CLUSTER_METADATA:
        return DecodedText(payload=_framed(found, f"Error at {offset}").encode())
    if topic == REMOTE_LOG_METADATA:
        return DecodedText(payload=_remote(found, offset).encode())
    if key is None:
        return DecodedText(
            complaint=f"Failed to decode message at offset {offset} using the specified decoder"
            " (message had a missing key)"
        )
    if found.failure is not None:
        return DecodedText(key=_failed(found.failure, offset).encode())
    payload = "<DELETE>" if found.value is None else java_json(found.value)
    return DecodedText(java_json(found.key).encode(), payload.encode())


def _failed(failure: Failure, offset: Offset) -> str:
    if failure.unknown_type is not None:
        return f"Unknown record type {failure.unknown_type} at offset {offset}, skipping."
    return f"Error at offset {offset}, skipping. {_said(failure)}"


def _framed(found: DecodedRecord, error: str) -> str:
    if found.failure is not None:
        return f"{error}, skipping. {_said(found.failure)}"
    return java_json(found.value)


def _remote(found: DecodedRecord, offset: Offset) -> str:
    error = f"Error at offset {offset}"
    if found.failure is not None or found.value is None:
        return _framed(found, error)
    try:
        return remote_text(found.kind, found.value["data"])
    except ValueError as refused:
        return f"{error}, skipping. {refused}"


def _said(failure: Failure) -> str:
    return "null" if failure.says is None else failure.says
