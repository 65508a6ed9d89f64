"""Encode the values of a KRaft quorum's control records, which `parse_quorum_record` reads.

Fields have the names of Kafka's JSON; the version defaults to the current one, 0. A leader change
of version 1 has the voters' directories; Kafka 4 writes version 0, without them.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from engine.coding.varint import encode_unsigned_varint
from engine.record.control_records import ControlRecordType

QuorumFields: TypeAlias = Mapping[str, Any]
_NO_TAGS = encode_unsigned_varint(0)
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def encode_quorum_record(kind: ControlRecordType, fields: QuorumFields) -> bytes:
    """Return the encoded value of a quorum record.

    Raises:
        ValueError: the type is not a quorum record's, or a field is missing or does not fit.
    """
    write = _QUORUM_RECORDS.get(kind)
    if write is None:
        raise ValueError(f"{kind.name} is not a quorum record")
    try:
        return _int16(fields.get("version", 0)) + write(fields) + _NO_TAGS
    except (KeyError, struct.error) as error:
        raise ValueError(f"a {kind.name} record cannot be written from {fields}") from error


def _int16(value: int) -> bytes:
    return struct.pack(">h", value)


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


def _string(text: str) -> bytes:
    data = text.encode()
    return encode_unsigned_varint(len(data) + 1) + data


def _uuid(text: str) -> bytes:
    made = base64.urlsafe_b64decode(text + "==")
    if len(made) != 16:
        raise ValueError(f"{text!r} is not a UUID")
    return made


def _array(items: Sequence[QuorumFields], item: Callable[[QuorumFields], bytes]) -> bytes:
    return encode_unsigned_varint(len(items) + 1) + b"".join(map(item, items))


def _leader_change(fields: QuorumFields) -> bytes:
    has_directories = fields.get("version", 0) >= 1

    def voter(fields: QuorumFields) -> bytes:
        directory = _uuid(fields.get("voterDirectoryId", _NO_ID)) if has_directories else b""
        return _int32(fields["voterId"]) + directory + _NO_TAGS

    return (
        _int32(fields["leaderId"])
        + _array(fields.get("voters", ()), voter)
        + _array(fields.get("grantingVoters", ()), voter)
    )


def _snapshot_header(fields: QuorumFields) -> bytes:
    return struct.pack(">q", fields["lastContainedLogTimestamp"])


def _snapshot_footer(_: QuorumFields) -> bytes:
    return b""


def _kraft_version(fields: QuorumFields) -> bytes:
    return _int16(fields["kRaftVersion"])


def _endpoint(fields: QuorumFields) -> bytes:
    port = struct.pack(">H", fields["port"])
    return _string(fields["name"]) + _string(fields["host"]) + port + _NO_TAGS


def _voter(fields: QuorumFields) -> bytes:
    feature = fields["kRaftVersionFeature"]
    return b"".join(
        (
            _int32(fields["voterId"]),
            _uuid(fields.get("voterDirectoryId", _NO_ID)),
            _array(fields.get("endpoints", ()), _endpoint),
            _int16(feature["minSupportedVersion"]),
            _int16(feature["maxSupportedVersion"]),
            _NO_TAGS,
            _NO_TAGS,
        )
    )


def _kraft_voters(fields: QuorumFields) -> bytes:
    return _array(fields.get("voters", ()), _voter)


_QUORUM_RECORDS: dict[ControlRecordType, Callable[[QuorumFields], bytes]] = {
    ControlRecordType.LEADER_CHANGE: _leader_change,
    ControlRecordType.SNAPSHOT_HEADER: _snapshot_header,
    ControlRecordType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlRecordType.KRAFT_VERSION: _kraft_version,
    ControlRecordType.KRAFT_VOTERS: _kraft_voters,
}
