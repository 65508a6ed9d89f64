"""The producers of a log as a broker loads them: which names are snapshots, and what a marker must hold."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Self

from engine.clock import Clock
from engine.coding.fixed_width import read_int16
from engine.coding.varint import to_int64
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
from engine.units import MAX_INT32, LogOffsetMetadata, Offset, TopicPartition
from engine.writing.disk import Disk, StrPath
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)
from engine.writing.state.snapshot_file import SnapshotFile, SnapshotFiles

_ENDING = FileKind.PRODUCER_SNAPSHOT.value
_LARGEST_ARRAY = MAX_INT32 - 8
SNAPSHOT_LIMIT = 64 << 20
"""What is read of a snapshot: more than a million producers."""


class BrokerProducers(ProducerStateManager):
    """See ProducerStateManager. Raises BrokerFailure for a snapshot without an offset in its name.

    Args:
        snapshots: those that are there, by offset, for one that is not to look for them; taken over.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        folder: StrPath,
        max_transaction_timeout_ms: int,
        config: ProducerStateManagerConfig,
        clock: Clock,
        disk: Disk,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        self._known = snapshots
        super().__init__(topic_partition, folder, max_transaction_timeout_ms, config, clock, disk)

    @property
    def snapshots(self) -> SnapshotFiles:
        """The snapshots that are there, by offset."""
        return self._snapshots

    def copied(self) -> Self:
        """The same as of now; what happens to one does not happen to the other, but for the snapshots."""
        twin = copy(self)
        twin._producers = self._producers.copied()
        twin._ongoing = self._ongoing.copied()
        twin._unreplicated = self._unreplicated.copied()
        return twin

    def update_map_end_offset(self, offset: Offset) -> None:
        """Say that all batches below an offset are in here; behind the last of all comes the least number."""
        super().update_map_end_offset(to_int64(offset))

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Begin to follow a producer through an append."""
        entry = self.last_entry(producer_id) or ProducerStateEntry(producer_id)
        return _AppendInfo(self.topic_partition, producer_id, entry, origin)

    def _read_snapshot(self, path: Path) -> list[ProducerStateEntry]:
        size = self._disk.size(path)
        if size > _LARGEST_ARRAY:
            raise stops(
                "OutOfMemoryError",
                f"{path} has {size} bytes, more than the {_LARGEST_ARRAY} that Java reads into an array",
            )
        if size > SNAPSHOT_LIMIT:
            raise BrokerFailure(
                Outcome.UNKNOWN,
                "",
                f"{path} has {size} bytes: whether a broker has the memory for them cannot be told",
            )
        return super()._read_snapshot(path)

    def _load_snapshots(self) -> SnapshotFiles:
        known, self._known = self._known, None
        if known is not None:
            return known
        found = {}
        for name in self._disk.list(self.folder):
            if not name.endswith(_ENDING):
                continue
            path = Path(self.folder, name)
            if self._disk.is_dir(path):
                continue
            offset = offset_in_name(name)
            if offset is None:
                raise stops("NumberFormatException", f"{path} has no offset before its first dot")
            found[offset] = SnapshotFile(path, offset, self._disk)
        return SnapshotFiles(found.values())


class _AppendInfo(ProducerAppendInfo):
    """Looks at markers first: a broker does not expect some of what cannot be right."""

    def append(
        self,
        batch: RecordBatch,
        first_offset: LogOffsetMetadata | None = None,
        transaction_version: int = -1,
    ) -> CompletedTxn | None:
        """Follow the producer through a batch. Raises BrokerFailure, and what ProducerAppendInfo does."""
        if batch.is_control:
            record = _first_record(batch)
            if record is not None:
                _check_marker(record, batch)
        return super().append(batch, first_offset, transaction_version)


def _first_record(batch: RecordBatch) -> Record | None:
    if batch.size < HEADER.size:
        where = f"the control batch at byte {batch.file_position} of {batch.path}"
        raise stops("IndexOutOfBoundsException", f"{where} ends before its number of records")
    check_codec(batch)
    try:
        return next(iter(batch.records()), None)
    except DecompressionError as error:
        where = f"the control batch at byte {batch.file_position} of {batch.path}"
        raise stops("KafkaException", f"{where}: {error}") from error


def _check_marker(record: Record, batch: RecordBatch) -> None:
    """What Kafka's parsers of a marker's key and value ask for, in their order.

    Raises:
        InvalidRecordError: Kafka expects that: the log ends behind this batch.
        BrokerFailure: it does not.
    """
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
