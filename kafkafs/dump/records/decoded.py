"""Text of records of internal topics, as DumpLogSegments' decoders print it."""

from __future__ import annotations

from typing import NamedTuple

from engine.topics.decoded_record import DecodedRecord, Failure
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA, REMOTE_LOG_METADATA
from engine.units import Offset
from kafkafs.dump.records.java_json import java_json
from kafkafs.dump.records.remote_text import remote_text


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
