"""Parts of single records that Python formats: control records, messages of magic 0 and 1, decoded topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.budgets import Budgets
from engine.coding.fixed_width import read_int32
from engine.columns.batch_table import BatchProblem
from engine.errors import InvalidRecordError, KafkaStorageError
from engine.lines.dump_text import java_text
from engine.record.batch_frame import MESSAGE_HEADERS
from engine.record.control_records import (
    ControlRecordType,
    parse_control_key,
    parse_end_marker,
    parse_quorum_record,
)
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.record import Header
from kafkafs.dump.records.java_json import java_json
from kafkafs.dump.records.log_batches import ShownBatches
from kafkafs.dump.records.log_sentences import error_problem

_QUORUM = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


class LegacyRecord(NamedTuple):
    """A message of magic 0 or 1.

    Attributes:
        crc, is_valid: checksum of the message, and whether it is right.
        magic: magic of the message, which may differ from that of its wrapper.
        key_size, value_size: sizes as stated; a negative size is null.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    crc: int
    is_valid: bool
    magic: int
    key_size: int
    value_size: int
    headers: tuple[Header, ...] = ()
    sequence: int = -1


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return the text of a control record in a dump. Raises InvalidRecordError."""
    found = parse_control_key(key)
    if found.type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = parse_end_marker(found.type, value)
        return f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    label = _QUORUM.get(found.type)
    if label is None:
        return f" controlType: UNKNOWN({found.type_id})"
    return f" {label} {java_json(parse_quorum_record(found.type, value))}"


def control_part(key: bytes | None, value: bytes | None) -> tuple[bytes, str]:
    """Return the text of a control record and "", or b"" and why it could not be read."""
    try:
        return control_text(key, value).encode(), ""
    except InvalidRecordError as error:
        return b"", str(error)


def legacy_records(
    batches: ShownBatches, row: int, budgets: Budgets
) -> Iterator[LegacyRecord | BatchProblem]:
    """Yield the messages of a row of magic 0 or 1, then the problem that ended them early, if any."""
    fields: np.void = batches.readable[row]
    start = int(fields["position"]) - batches.start_position
    data = memoryview(batches.buffer)[start : start + int(fields["size"])]
    count = 0
    try:
        for inner, record in LegacyRecordBatch(data).messages(budgets):
            key_size, value_size = _sizes(inner)
            yield LegacyRecord(
                offset=record.offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                crc=inner.crc,
                is_valid=inner.crc == inner.computed_crc,
                magic=inner.magic,
                key_size=key_size,
                value_size=value_size,
            )
            count += 1
    except KafkaStorageError as error:
        yield error_problem(error, row, count)


def _sizes(message: LegacyRecordBatch) -> tuple[int, int]:
    """Return the stated sizes of a message's key and value; both are known to be within the message."""
    at = MESSAGE_HEADERS[message.magic].size
    key_size = read_int32(message.raw, at)
    return key_size, read_int32(message.raw, at + 4 + max(key_size, 0))


def legacy_text(record: LegacyRecord, label: str) -> bytes:
    """Return the metadata of a message on its line; `label` names the timestamps of its batch."""
    return (
        f"| offset: {record.offset} {label}: {record.timestamp} keySize: {record.key_size}"
        f" valueSize: {record.value_size} isValid: {str(record.is_valid).lower()} crc: {record.crc}"
    ).encode()


def shown(data: bytes | None) -> bytes | None:
    """Return a key or payload as shown."""
    return None if data is None else java_text(data)
