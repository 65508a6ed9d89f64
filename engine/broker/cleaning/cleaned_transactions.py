"""Track transactions during a cleaning: which are aborted, and which markers can be removed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from engine.index.transaction_index import AbortedTxn
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.record.record_batch import RecordBatch
from engine.units import Offset
from engine.writing.index.writable_transaction_index import WritableTransactionIndex


class CleanedTransactionMetadata:
    """State of transactions at a position of the log, advanced batch by batch.

    Aborted transactions must be added before their first batch is read. An aborted transaction with
    a kept marker is written to the transaction index of the cleaned segment.

    Attributes:
        cleaned_index: transaction index of the segment that is written; None while only keys are collected.
    """

    def __init__(self) -> None:
        self.cleaned_index: WritableTransactionIndex | None = None
        self._aborted: list[tuple[Offset, int, AbortedTxn]] = []
        self._serial = 0
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._with_batches: set[int] = set()
        self._ongoing_committed: set[int] = set()

    def add_aborted_transactions(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions."""
        for txn in aborted:
            heapq.heappush(self._aborted, (txn.first_offset, self._serial, txn))
            self._serial += 1

    def on_control_batch_read(self, batch: RecordBatch) -> bool:
        """Process a control batch; return whether no record of its transaction is left.

        Raises:
            InvalidRecordError: the record is damaged.
        """
        self.begin_aborted_up_to(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            return True
        kind = parse_control_key(record.key).type
        if kind is ControlRecordType.ABORT:
            return self._on_abort(batch.producer_id)
        if kind is ControlRecordType.COMMIT:
            if batch.producer_id not in self._ongoing_committed:
                return True
            self._ongoing_committed.remove(batch.producer_id)
        return False

    def on_batch_read(self, batch: RecordBatch) -> bool:
        """Process a batch of records; return whether it belongs to an aborted transaction."""
        self.begin_aborted_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._ongoing_aborted:
            self._with_batches.add(batch.producer_id)
            return True
        self._ongoing_committed.add(batch.producer_id)
        return False

    def _on_abort(self, producer_id: int) -> bool:
        txn = self._ongoing_aborted.pop(producer_id, None)
        if txn is None or producer_id not in self._with_batches:
            return True
        self._with_batches.remove(producer_id)
        if self.cleaned_index is not None:
            self.cleaned_index.append(txn)
        return False

    def begin_aborted_up_to(self, offset: Offset) -> None:
        """Process batches without a transaction, up to an offset."""
        while self._aborted and self._aborted[0][0] <= offset:
            txn = heapq.heappop(self._aborted)[2]
            self._ongoing_aborted.setdefault(txn.producer_id, txn)
