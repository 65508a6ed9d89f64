"""Encode the values of a KRaft quorum's control records, which `parse_quorum_record` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from engine.record.control_records import ControlRecordType, quorum_message
from engine.topics.message.encoding import write_message

QuorumFields: TypeAlias = Mapping[str, Any]


def encode_quorum_record(kind: ControlRecordType, fields: QuorumFields) -> bytes:
    """Return the encoded value of a quorum record.

    Args:
        fields: by the names of Kafka's JSON; those that are missing have their defaults, the version 0. A leader change of version
            1 has the voters' directories; Kafka 4 writes version 0, without them.

    Raises:
        ValueError: the type is not a quorum record's, or a field does not fit.
    """
    message = quorum_message(kind)
    try:
        (data,) = write_message(message, fields.get("version", 0), fields)
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"a {kind.name} record cannot be written from {fields}: {error}"
        ) from error
    return bytes(data)
