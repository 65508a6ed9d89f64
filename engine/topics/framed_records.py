"""Records with a framed message as value: the frame's version, the type, the message's version.

As in Kafka's AbstractApiMessageSerde all three are unsigned varints, the frame's version is 1, and
nothing may follow the message. Such records have no key. The topics are __cluster_metadata, in its logs and
snapshots, and __remote_log_metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.coding.varint import read_unsigned_varint
from engine.errors import CorruptMessageError
from engine.topics.decoded_record import DecodedRecord, Failure, TopicDecoder, too_large
from engine.topics.message.json_form import read_json
from engine.topics.message.schema import Message

FRAME_VERSION = 1
_MOST = 0x7FFF


class FramedType(NamedTuple):
    """Type of a framed record; `is_retired` if Kafka 4.4.0 no longer has it."""

    name: str
    message: Message
    is_retired: bool = False


class _Refused(Exception):
    """Reason why a frame is not decoded, in our words and in Kafka's."""

    def __init__(self, note: str, says: str) -> None:
        super().__init__(note)
        self.note = note
        self.says = says


class FramedDecoder(TopicDecoder):
    """Decoder for the records of a topic with framed messages.

    Args:
        types: the record types by their number.
        null_says: message of Kafka's tool for a record without a value.
    """

    def __init__(self, types: Mapping[int, FramedType], null_says: str) -> None:
        self._types = types
        self._null_says = null_says

    def decode(
        self, key: bytes | None, value: bytes | None, *, as_kafka: bool = False
    ) -> DecodedRecord:
        """Return a decoded record; never raises for bad bytes."""
        key_note = None if key is None else "records of this topic have no key"
        if value is None:
            return DecodedRecord("", None, None, key_note, None, Failure(self._null_says))
        if (large := too_large(value)) is not None:
            return DecodedRecord("", None, None, key_note, large, Failure(large))
        try:
            number, version, position = _header(value)
        except _Refused as refused:
            failure = Failure(refused.says)
            return DecodedRecord("", None, None, key_note, refused.note, failure)
        kind = self._types.get(number)
        if kind is None or (as_kafka and kind.is_retired):
            says = (
                "org.apache.kafka.common.errors.UnsupportedVersionException: "
                f"Unknown metadata id {number}"
            )
            note = f"record type {number} is not known"
            return DecodedRecord("", None, None, key_note, note, Failure(says, number))
        try:
            data, end = read_json(kind.message, version, value, position, lenient=as_kafka)
        except CorruptMessageError as error:
            failure = Failure(f"Failed to deserialize record with type {number}")
            return DecodedRecord(kind.name, None, None, key_note, str(error), failure)
        if end < len(value):
            left = len(value) - end
            failure = Failure(f"Found {left} byte(s) of garbage after {number}", None)
            note = f"{left} bytes follow the message"
            return DecodedRecord(kind.name, None, None, key_note, note, failure)
        decoded = {"type": kind.name, "version": version, "data": data}
        return DecodedRecord(kind.name, None, decoded, key_note)


def _header(value: bytes) -> tuple[int, int, int]:
    """Return the type and version of the message, and its position."""
    frame, position = _number(value, 0, "frame version")
    if frame == 0:
        raise _Refused(
            "frame version 0 is that of the preview of KRaft in Kafka 2.8",
            "Could not deserialize metadata record with frame version 0. "
            "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not "
            "supported.",
        )
    if frame != FRAME_VERSION:
        raise _Refused(
            f"frame version {frame} is not known",
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            "(only frame version 1 is supported)",
        )
    number, position = _number(value, position, "type")
    version, position = _number(value, position, "version")
    return number, version, position


def _number(value: bytes, position: int, name: str) -> tuple[int, int]:
    try:
        number, position = read_unsigned_varint(value, position)
    except (IndexError, ValueError):
        raise _Refused(f"the {name} does not parse", f"Error while reading {name}") from None
    if number > _MOST:
        raise _Refused(f"the {name} is too large", f"Value for {name} was too large.")
    number &= 0xFFFF  # a Java short
    return number - 0x10000 if number > _MOST else number, position
