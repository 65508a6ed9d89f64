"""Transactions of a partition by first offset: open ones, and ended ones that are not replicated yet."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from engine.units import LogOffsetMetadata, Offset
from engine.writing.state.completed_txn import CompletedTxn


class TxnMetadata(NamedTuple):
    """A transaction of a producer; `last_offset` is the offset of its end marker, None while it is open."""

    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: Offset | None = None


class TransactionsByOffset:
    """Transactions by their first offset; iterates in the order of the offsets."""

    __slots__ = ("_offsets", "_transactions")

    def __init__(self) -> None:
        self._offsets: list[Offset] = []
        self._transactions: dict[Offset, TxnMetadata] = {}

    def __repr__(self) -> str:
        return f"TransactionsByOffset({list(self)})"

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[TxnMetadata]:
        return iter([self._transactions[offset] for offset in self._offsets])

    @property
    def first(self) -> TxnMetadata | None:
        """Transaction with the smallest first offset."""
        return self._transactions[self._offsets[0]] if self._offsets else None

    def put(self, transaction: TxnMetadata) -> None:
        """Add a transaction, replacing one with the same first offset."""
        offset = transaction.first_offset.offset
        if offset not in self._transactions:
            insort(self._offsets, offset)
        self._transactions[offset] = transaction

    def pop(self, first_offset: Offset) -> TxnMetadata | None:
        """Remove and return the transaction with this first offset, None without one."""
        found = self._transactions.pop(first_offset, None)
        if found is not None:
            del self._offsets[bisect_left(self._offsets, first_offset)]
        return found

    def remove_ended_before(self, offset: Offset) -> None:
        """Remove the transactions with end markers before an offset."""
        for transaction in self:
            if transaction.last_offset is not None and transaction.last_offset < offset:
                self.pop(transaction.first_offset.offset)

    def copied(self) -> TransactionsByOffset:
        """Return a copy of the transactions."""
        copy = TransactionsByOffset()
        copy._offsets = [*self._offsets]
        copy._transactions = {**self._transactions}
        return copy

    def clear(self) -> None:
        """Remove all transactions."""
        self._offsets.clear()
        self._transactions.clear()


class UnstableTransactions:
    """Transactions that hold back the last stable offset.

    Attributes:
        ongoing: open transactions.
        unreplicated: ended transactions with markers at or above the high watermark.
    """

    __slots__ = ("ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing = TransactionsByOffset()
        self.unreplicated = TransactionsByOffset()

    @property
    def first(self) -> TxnMetadata | None:
        """Transaction with the smallest first offset."""
        ended, ongoing = self.unreplicated.first, self.ongoing.first
        if ended is None or ongoing is None:
            return ended or ongoing
        return min(ended, ongoing, key=lambda transaction: transaction.first_offset.offset)

    def complete(self, completed: CompletedTxn) -> bool:
        """End an open transaction; return False if no open transaction has its first offset."""
        ended = self.ongoing.pop(completed.first_offset)
        if ended is None:
            return False
        self.unreplicated.put(ended._replace(last_offset=completed.last_offset))
        return True

    def stable_offset_after(self, completed: CompletedTxn) -> Offset:
        """Return the start of the first open transaction of another producer, else the offset after the marker."""
        for open_one in self.ongoing:
            if open_one.producer_id != completed.producer_id:
                return open_one.first_offset.offset
        return completed.last_offset + 1

    def copied(self) -> UnstableTransactions:
        """Return a copy of the transactions."""
        copy = UnstableTransactions()
        copy.ongoing = self.ongoing.copied()
        copy.unreplicated = self.unreplicated.copied()
        return copy

    def clear(self) -> None:
        """Remove all transactions."""
        self.ongoing.clear()
        self.unreplicated.clear()
