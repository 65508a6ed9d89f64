"""A broker's rules for producers: the names of snapshots, and the content of transaction markers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.coding.fixed_width import read_int16
from engine.disk.disk import Disk, StrPath
from engine.errors import DecompressionError, InvalidRecordError
from engine.files.file_names import FileKind
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.loading.broker_records import check_codec
from engine.plan.loading.java_text import offset_in_name
from engine.record.batch_frame import HEADER
from engine.record.control_records import CONTROL_KEY, END_MARKER
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import MAX_INT32
from engine.writing.state.producer_rules import ProducerRules, first_record
from engine.writing.state.snapshot_file import SnapshotFile, read_snapshot

_ENDING = FileKind.PRODUCER_SNAPSHOT.value
_LARGEST_ARRAY = MAX_INT32 - 8
SNAPSHOT_LIMIT = 64 << 20
"""Largest snapshot in bytes that is read; it has more than a million producers."""


def list_snapshots(folder: StrPath, disk: Disk) -> Iterator[SnapshotFile]:
    """Yield the snapshots in a folder. Raises BrokerFailure for one without an offset in its name."""
    for name in disk.list(folder):
        if not name.endswith(_ENDING):
            continue
        path = Path(folder, name)
        if disk.is_dir(path):
            continue
        offset = offset_in_name(name)
        if offset is None:
            raise stops("NumberFormatException", f"{path} has no offset before its first dot")
        yield SnapshotFile(path, offset, disk)


def read_snapshot_within_limits(path: StrPath, disk: Disk) -> list[ProducerStateEntry]:
    """Return the entries of a snapshot. Raises CorruptSnapshotError, and BrokerFailure for one that is too large."""
    size = disk.size(path)
    if size > _LARGEST_ARRAY:
        raise stops(
            "OutOfMemoryError",
            f"{path} has {size} bytes, more than the {_LARGEST_ARRAY} that Java reads into an array",
        )
    if size > SNAPSHOT_LIMIT:
        raise BrokerFailure(
            Outcome.UNKNOWN,
            "",
            f"{path} has {size} bytes, and a broker may lack the memory for them",
        )
    return read_snapshot(path, disk)


def checked_control_record(batch: RecordBatch) -> Record | None:
    """Return the record of a control batch; None without one.

    Raises:
        InvalidRecordError: the record is invalid, and a broker handles that: the log ends after this batch.
        BrokerFailure: the record is invalid, and a broker fails.
    """
    if batch.size < HEADER.size:
        where = f"the control batch at byte {batch.file_position} of {batch.path}"
        raise stops("IndexOutOfBoundsException", f"{where} ends before its number of records")
    check_codec(batch)
    try:
        record = first_record(batch)
    except DecompressionError as error:
        where = f"the control batch at byte {batch.file_position} of {batch.path}"
        raise stops("KafkaException", f"{where}: {error}") from error
    if record is not None:
        _check_marker(record, batch)
    return record


BROKER_PRODUCER_RULES = ProducerRules(
    list_snapshots, read_snapshot_within_limits, checked_control_record
)


def _check_marker(record: Record, batch: RecordBatch) -> None:
    """Check a marker's key and value in the order of Kafka's parsers; raise as `checked_control_record` does."""
    where = f"the marker at byte {batch.file_position} of {batch.path}"
    key, value = record.key, record.value
    if key is None:
        raise stops("NullPointerException", f"{where} has no key")
    if len(key) < CONTROL_KEY.size:
        raise InvalidRecordError("the key of a control record is too short", path=batch.path)
    version, kind = CONTROL_KEY.unpack(key)
    if version < 0:
        raise InvalidRecordError("the version of a control record is unknown", path=batch.path)
    if kind not in (0, 1):
        raise stops("IllegalArgumentException", f"{where} ends no transaction: its type is {kind}")
    if value is None:
        raise stops("NullPointerException", f"{where} has no value")
    if len(value) < 2:
        raise stops("BufferUnderflowException", f"{where} has a value of {len(value)} bytes")
    if read_int16(value) < 0:
        raise InvalidRecordError("the version of a marker is unknown", path=batch.path)
    if len(value) < END_MARKER.size:
        raise stops("BufferUnderflowException", f"{where} has a value of {len(value)} bytes")
