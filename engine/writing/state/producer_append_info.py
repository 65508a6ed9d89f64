"""Apply the batches of one append to one producer's state, and check them before anything is written."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from engine.record.control_records import ControlRecordType, EndTransactionMarker, end_marker_of
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from engine.units import (
    MAX_INT32,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    LogOffsetMetadata,
    Offset,
    Timestamp,
    TopicPartition,
)
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_rules import first_record
from engine.writing.state.transactions_by_offset import TxnMetadata

logger = logging.getLogger(__name__)

UNKNOWN_TRANSACTION_VERSION = -1
_MARKERS_BUMP_THE_EPOCH_FROM = 2
_MAX_EPOCH = 2**15 - 1


class ProducerAppendInfo:
    """Starts from a producer's state and applies the batches of one append.

    A producer's appends are checked in full, a coordinator's only by their epoch, and replicated
    ones not at all: an old epoch is only logged.

    Attributes:
        producer_id: producer of the batches.
        updated_entry: state of the producer after the applied batches, without earlier batches.
        started_transactions: transactions that the batches started.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        current_entry: ProducerStateEntry,
        origin: AppendOrigin,
        control_record: Callable[[RecordBatch], Record | None] = first_record,
    ) -> None:
        self.producer_id = producer_id
        self.started_transactions: list[TxnMetadata] = []
        self.updated_entry = current_entry.without_batches()
        self._topic_partition = topic_partition
        self._known_epoch = current_entry.producer_epoch
        self._known_last_sequence = current_entry.last_sequence
        self._origin = origin
        self._control_record = control_record

    def __repr__(self) -> str:
        return f"ProducerAppendInfo({self.updated_entry}, {self.started_transactions})"

    def append(
        self,
        batch: RecordBatch,
        first_offset: LogOffsetMetadata | None = None,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> CompletedTxn | None:
        """Apply a batch.

        Args:
            batch: data, or one end marker; a control batch emptied by the cleaner changes nothing.
            first_offset: first offset of the batch, with its position if known.
            transaction_version: transaction version of an end marker; only a follower may leave it unknown.

        Returns:
            The transaction that the batch ends, if it had records.

        Raises:
            InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTxnStateError,
            TransactionCoordinatorFencedError: the batch contradicts the producer's state.
            InvalidRecordError: a control record is no end marker.
            ValueError: an end marker has an unknown transaction version, or the type is another.
        """
        if batch.is_control:
            record = self._control_record(batch)
            if record is None:
                return None
            return self.append_end_marker(
                end_marker_of(record),
                batch.producer_epoch,
                batch.base_offset,
                record.timestamp,
                transaction_version,
            )
        self.append_data_batch(
            batch.producer_epoch,
            batch.base_sequence,
            batch.last_sequence,
            batch.max_timestamp,
            first_offset or LogOffsetMetadata(batch.base_offset),
            batch.last_offset,
            is_transactional=batch.is_transactional,
        )
        return None

    def append_data_batch(
        self,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        last_timestamp: Timestamp,
        first_offset: LogOffsetMetadata,
        last_offset: Offset,
        *,
        is_transactional: bool,
    ) -> None:
        """Apply a batch of data. Raises as `append` does."""
        first = first_offset.offset
        self._check_epoch(epoch, first, UNKNOWN_TRANSACTION_VERSION)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, first_sequence, first)
        entry = self.updated_entry
        is_open = entry.current_txn_first_offset is not None
        if is_open and not is_transactional:
            raise InvalidTxnStateError(
                f"{self._where(first)}: a batch outside of a transaction, while one is open"
            )
        batch = BatchMetadata(last_sequence, last_offset, last_offset - first, last_timestamp)
        entry.add_batch(epoch, batch)
        if is_transactional and not is_open:
            entry.current_txn_first_offset = first
            self.started_transactions.append(TxnMetadata(self.producer_id, first_offset))

    def append_end_marker(
        self,
        marker: EndTransactionMarker,
        producer_epoch: int,
        offset: Offset,
        timestamp: Timestamp,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> CompletedTxn | None:
        """Apply the end of a transaction. Raises as `append` does.

        A follower need not know the version: its leader has checked the marker, and a marker that
        passes any version's check passes the first version's.
        """
        if transaction_version == UNKNOWN_TRANSACTION_VERSION:
            if self._origin is not AppendOrigin.REPLICATION:
                raise ValueError(
                    f"an end marker from {self._origin.name} needs its transaction version"
                )
            transaction_version = 0
        self._check_epoch(producer_epoch, offset, transaction_version)
        self._check_coordinator(marker, offset)
        first = self.updated_entry.current_txn_first_offset
        self.updated_entry.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        if first is None:
            return None
        is_aborted = marker.type is ControlRecordType.ABORT
        return CompletedTxn(self.producer_id, first, offset, is_aborted)

    def _where(self, offset: Offset) -> str:
        return f"producer {self.producer_id} at offset {offset} of {self._topic_partition}"

    def _check_epoch(self, epoch: int, offset: Offset, transaction_version: int) -> None:
        """Check the epoch; from version 2 on each marker has a new one, but a marker may be written twice."""
        known = self.updated_entry.producer_epoch
        bumps = transaction_version >= _MARKERS_BUMP_THE_EPOCH_FROM
        if epoch > known or (epoch == known and not bumps):
            return
        is_open = self.updated_entry.current_txn_first_offset is not None
        if bumps and epoch == known and (not is_open or epoch == _MAX_EPOCH):
            logger.info("%s: a second marker of epoch %d", self._where(offset), epoch)
            return
        relation = "not above" if bumps else "below"
        reason = f"{self._where(offset)}: the epoch {epoch} is {relation} the newest, {known}"
        if self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(reason)
        logger.warning(reason)

    def _check_sequence(self, epoch: int, first_sequence: int, offset: Offset) -> None:
        """Check the sequence; an unknown or expired producer may start with any sequence."""
        entry = self.updated_entry
        if epoch != entry.producer_epoch:
            if first_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"{self._where(offset)}: the new epoch {epoch} begins with sequence"
                    f" {first_sequence}, not 0; the epoch before is {entry.producer_epoch}"
                )
            return
        if not entry.is_empty:
            last = entry.last_sequence
        elif epoch == self._known_epoch:
            last = self._known_last_sequence
        else:
            last = NO_SEQUENCE
        if self._known_epoch == NO_PRODUCER_EPOCH:
            return
        if first_sequence != (0 if last == MAX_INT32 else last + 1):
            raise OutOfOrderSequenceError(
                f"{self._where(offset)}: the sequence {first_sequence} does not follow {last}"
            )

    def _check_coordinator(self, marker: EndTransactionMarker, offset: Offset) -> None:
        known = self.updated_entry.coordinator_epoch
        if marker.coordinator_epoch >= known:
            return
        reason = (
            f"{self._where(offset)}: a marker of coordinator epoch {marker.coordinator_epoch},"
            f" below the newest, {known}"
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(reason)
        logger.info(reason)
