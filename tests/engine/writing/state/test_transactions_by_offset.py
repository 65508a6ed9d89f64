"""Transactions in the order in which they begin."""

from __future__ import annotations

from engine.units import LogOffsetMetadata
from engine.writing.state.transactions_by_offset import TransactionsByOffset, TxnMetadata


def transaction(producer_id: int, first_offset: int) -> TxnMetadata:
    return TxnMetadata(producer_id, LogOffsetMetadata(first_offset))


def test_a_copy_goes_its_own_way() -> None:
    open_ones = TransactionsByOffset()
    open_ones.put(transaction(1, 10))
    open_ones.put(transaction(2, 5))
    copy = open_ones.copied()
    assert [*copy] == [transaction(2, 5), transaction(1, 10)]
    assert copy.pop(5) == transaction(2, 5)
    copy.put(transaction(3, 10))
    open_ones.put(transaction(4, 1))
    assert [*copy] == [transaction(3, 10)]
    assert [*open_ones] == [transaction(4, 1), transaction(2, 5), transaction(1, 10)]
