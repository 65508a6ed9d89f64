"""Build batches of records and control records."""

from __future__ import annotations

from engine.coding.layout import Buffer
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
)
from engine.record.encoding.batch_builder import BatchBuilder
from engine.record.encoding.quorum_records import QuorumFields, encode_quorum_record
from engine.units import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_ID, Timestamp


class RecordsBuilder(BatchBuilder):
    """Builder of a batch, also of control records."""

    def append_control_record(
        self, timestamp: Timestamp, kind: ControlRecordType, value: Buffer | None
    ) -> None:
        """Append a control record. Raises ValueError for an unknown type, or if this is no control batch."""
        self._append(self.next_offset, timestamp, kind.record_key(), value, (), is_control=True)

    def append_end_transaction_marker(
        self, timestamp: Timestamp, marker: EndTransactionMarker
    ) -> None:
        """Append an end marker. Raises ValueError unless this is a transactional control batch."""
        if self.producer_id == NO_PRODUCER_ID:
            raise ValueError("an end marker needs a producer id")
        if not self.is_transactional:
            raise ValueError("an end marker needs a transactional batch")
        self.append_control_record(timestamp, marker.type, marker.value())

    def append_quorum_record(
        self, timestamp: Timestamp, kind: ControlRecordType, fields: QuorumFields
    ) -> None:
        """Append a control record of a KRaft quorum.

        Raises:
            ValueError: the type is not a quorum record's, a field is missing or does not fit, or a leader
                change has no leader epoch.
        """
        is_leader_change = kind is ControlRecordType.LEADER_CHANGE
        if is_leader_change and self.partition_leader_epoch == NO_PARTITION_LEADER_EPOCH:
            raise ValueError("a leader change needs the leader's epoch")
        self.append_control_record(timestamp, kind, encode_quorum_record(kind, fields))
