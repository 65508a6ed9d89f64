"""Control records: the markers that end transactions and the notes of a KRaft quorum.

A control batch's records have a key of two int16, version and type, and a value by type: of an end
marker an int16 version and the transaction coordinator's int32 epoch; of a quorum record a message
of Kafka's protocol in the flexible encoding (compact arrays and strings, tagged fields).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.coding.fixed_width import read_int16, read_int32
from engine.coding.layout import Int16, Int32, Layout
from engine.errors import CorruptMessageError, InvalidRecordError
from engine.record.record import Record

if TYPE_CHECKING:
    from engine.topics.message.schema import Message

CURRENT_KEY_VERSION = 0


class KeyFields(NamedTuple):
    """Key of a control record."""

    version: Int16
    type_id: Int16


class EndMarkerFields(NamedTuple):
    """Value of an end marker."""

    version: Int16
    coordinator_epoch: Int32


CONTROL_KEY = Layout(KeyFields)
END_MARKER = Layout(EndMarkerFields)
KEY_SIZE = CONTROL_KEY.size
END_MARKER_VALUE_SIZE = END_MARKER.size
PLAIN_END_MARKER = struct.Struct(
    f">5B {CONTROL_KEY.plain.format[1:]} B {END_MARKER.plain.format[1:]} B"
)
"""A broker's end marker as an encoded record, in which each varint takes one byte.

In order: length, attributes, the two deltas and the key's size; key; the value's size; value; no
headers.
"""


class ControlRecordType(IntEnum):
    """Type of a control record; UNKNOWN is any type that is not in this list."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1

    def record_key(self) -> bytes:
        """Return the key of a record of this type. Raises ValueError for UNKNOWN."""
        if self is ControlRecordType.UNKNOWN:
            raise ValueError("an unknown control record type has no key")
        return ControlKey(CURRENT_KEY_VERSION, self, self.value).pack()


_QUORUM_RECORDS = {
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}
"""Messages that are the values of quorum records; the first field of each is its version."""
_TYPES = {kind.value: kind for kind in ControlRecordType if kind is not ControlRecordType.UNKNOWN}


class ControlKey(NamedTuple):
    """A control record's key; `type_id` is the number in the bytes."""

    version: int
    type: ControlRecordType
    type_id: int

    def pack(self) -> bytes:
        """Return the key's bytes."""
        return CONTROL_KEY.plain.pack(self.version, self.type_id)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """End of a producer's transaction: how it ended and the epoch of the coordinator that ended it.

    Raises:
        ValueError: the type is neither COMMIT nor ABORT.
    """

    type: ControlRecordType
    coordinator_epoch: int
    version: int = 0

    def __post_init__(self) -> None:
        if self.type not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            raise ValueError(f"{self.type.name} does not end a transaction")

    def value(self) -> bytes:
        """Return the value of the marker's record."""
        return END_MARKER.plain.pack(self.version, self.coordinator_epoch)


def parse_control_key(key: bytes | None) -> ControlKey:
    """Return a control record's key; a version above 0 is read as version 0.

    Raises:
        InvalidRecordError: the key is null, shorter than 4 bytes or of a negative version.
    """
    if key is None or len(key) < KEY_SIZE:
        found = "null" if key is None else f"{len(key)} bytes"
        raise InvalidRecordError(
            "the key of a control record is too short", expected="at least 4 bytes", found=found
        )
    version, type_id = CONTROL_KEY.unpack(key)
    if version < 0:
        raise InvalidRecordError(
            "the key of a control record has a negative version", found=version
        )
    return ControlKey(version, _TYPES.get(type_id, ControlRecordType.UNKNOWN), type_id)


def parse_end_marker(kind: ControlRecordType, value: bytes | None) -> EndTransactionMarker:
    """Return the end marker in a value; a version above 0 is read as version 0.

    Raises:
        ValueError: the type is neither COMMIT nor ABORT.
        InvalidRecordError: the value is null, shorter than 6 bytes or of a negative version.
    """
    if kind not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        raise ValueError(f"{kind.name} does not end a transaction")
    if value is None or len(value) < END_MARKER_VALUE_SIZE:
        found = "null" if value is None else f"{len(value)} bytes"
        raise InvalidRecordError(
            "the value of an end marker is too short", expected="at least 6 bytes", found=found
        )
    version = read_int16(value)
    if version < 0:
        raise InvalidRecordError("the value of an end marker has a negative version", found=version)
    return EndTransactionMarker(kind, read_int32(value, 2), version)


def end_marker_of(record: Record) -> EndTransactionMarker:
    """Return the end marker in a control record. Raises as `parse_control_key` and `parse_end_marker` do."""
    return parse_end_marker(parse_control_key(record.key).type, record.value)


def quorum_message(kind: ControlRecordType) -> Message:
    """Return the schema of a quorum record's value. Raises ValueError when the type is not one of the quorum's."""
    from engine.topics import message as messages
    from engine.topics.message.notation import read_messages

    name = _QUORUM_RECORDS.get(kind)
    if name is None:
        raise ValueError(f"{kind.name} is not a quorum record")
    return read_messages(messages.__name__, "control_records.txt")[name]


def parse_quorum_record(kind: ControlRecordType, value: bytes | None) -> dict[str, Any]:
    """Return a quorum record's value as a dict with the field names of Kafka's JSON.

    Raises:
        ValueError: the type is not one of the quorum's.
        InvalidRecordError: the value is null or does not parse.
    """
    from engine.topics.message.json_form import read_json

    message = quorum_message(kind)
    if value is None:
        raise InvalidRecordError(f"a {kind.name} record has a null value")
    version = int.from_bytes(value[:2], "big", signed=True)
    try:
        found, _ = read_json(message, min(version, message.last_version), value)
    except CorruptMessageError as error:
        raise InvalidRecordError(f"the value of a {kind.name} record does not parse") from error
    return found


def quorum_record_of(kind: ControlRecordType, record: Record) -> dict[str, Any]:
    """Return the value of a quorum record of type `kind`. Raises ValueError when its key has another type."""
    found = parse_control_key(record.key)
    if found.type is not kind:
        raise ValueError(f"expected a {kind.name} record, found {_name(found)}")
    return parse_quorum_record(kind, record.value)


def describe_control(record: Record) -> dict[str, Any]:
    """Return a control record's type and fields, for JSON.

    Never raises for bad bytes: an unknown type is "UNKNOWN(99)", and a key or value that
    does not parse adds "error".
    """
    try:
        key = parse_control_key(record.key)
    except InvalidRecordError as error:
        return {"type": "INVALID", "error": str(error)}
    shown: dict[str, Any] = {"type": _name(key)}
    if key.type is ControlRecordType.UNKNOWN:
        return shown
    try:
        if key.type in _QUORUM_RECORDS:
            return shown | parse_quorum_record(key.type, record.value)
        marker = parse_end_marker(key.type, record.value)
    except InvalidRecordError as error:
        return shown | {"error": str(error)}
    return shown | {"version": marker.version, "coordinatorEpoch": marker.coordinator_epoch}


def _name(key: ControlKey) -> str:
    if key.type is ControlRecordType.UNKNOWN:
        return f"UNKNOWN({key.type_id})"
    return key.type.name
