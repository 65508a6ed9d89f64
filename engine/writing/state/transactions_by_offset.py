"""Transactions of a partition, ordered by where they begin."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from engine.units import LogOffsetMetadata, Offset


class TxnMetadata(NamedTuple):
    """A transaction of a producer; `last_offset` is that of its end marker, None while it is open."""

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
        """The one that begins first."""
        return self._transactions[self._offsets[0]] if self._offsets else None

    def put(self, transaction: TxnMetadata) -> None:
        """Add one; it takes the place of one that begins at the same offset."""
        offset = transaction.first_offset.offset
        if offset not in self._transactions:
            insort(self._offsets, offset)
        self._transactions[offset] = transaction

    def pop(self, first_offset: Offset) -> TxnMetadata | None:
        """Take out the one that begins at an offset, None when there is none."""
        found = self._transactions.pop(first_offset, None)
        if found is not None:
            del self._offsets[bisect_left(self._offsets, first_offset)]
        return found

    def remove_ended_before(self, offset: Offset) -> None:
        """Take out those whose end markers lie before an offset."""
        for transaction in self:
            if transaction.last_offset is not None and transaction.last_offset < offset:
                self.pop(transaction.first_offset.offset)

    def copied(self) -> TransactionsByOffset:
        """Return the same transactions as of now."""
        copy = TransactionsByOffset()
        copy._offsets = [*self._offsets]
        copy._transactions = {**self._transactions}
        return copy

    def clear(self) -> None:
        """Take out all."""
        self._offsets.clear()
        self._transactions.clear()
