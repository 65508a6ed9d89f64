"""Build batches of records and control records."""

from __future__ import annotations

from engine.coding.layout import Buffer
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
)
from engine.units import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_ID, Timestamp
from engine.writing.records.batch_builder import BatchBuilder, RecordsInfo
from engine.writing.records.quorum_records import QuorumFields, encode_quorum_record

__all__ = ["RecordsBuilder", "RecordsInfo"]


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

    def append_leader_change(self, timestamp: Timestamp, fields: QuorumFields) -> None:
        """Append a leader change. Raises ValueError without a leader epoch."""
        if self.partition_leader_epoch == NO_PARTITION_LEADER_EPOCH:
            raise ValueError("a leader change needs the leader's epoch")
        self._append_quorum_record(timestamp, ControlRecordType.LEADER_CHANGE, fields)

    def append_snapshot_header(self, timestamp: Timestamp, fields: QuorumFields) -> None:
        """Append a snapshot header."""
        self._append_quorum_record(timestamp, ControlRecordType.SNAPSHOT_HEADER, fields)

    def append_snapshot_footer(self, timestamp: Timestamp, fields: QuorumFields) -> None:
        """Append a snapshot footer."""
        self._append_quorum_record(timestamp, ControlRecordType.SNAPSHOT_FOOTER, fields)

    def append_kraft_version(self, timestamp: Timestamp, fields: QuorumFields) -> None:
        """Append the quorum's version."""
        self._append_quorum_record(timestamp, ControlRecordType.KRAFT_VERSION, fields)

    def append_voters(self, timestamp: Timestamp, fields: QuorumFields) -> None:
        """Append the quorum's voters."""
        self._append_quorum_record(timestamp, ControlRecordType.KRAFT_VOTERS, fields)

    def _append_quorum_record(
        self, timestamp: Timestamp, kind: ControlRecordType, fields: QuorumFields
    ) -> None:
        self.append_control_record(timestamp, kind, encode_quorum_record(kind, fields))
