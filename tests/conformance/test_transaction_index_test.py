"""What Kafka's TransactionIndexTest asks of reading; entries are packed here, since appending is a writer's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CorruptIndexError
from engine.files.source_files import SourceRoot
from engine.index.transaction_index import ENTRY, AbortedTxn, TransactionIndex
from tests import builders
from tests.builders import Aborted

ABORTED = [
    Aborted(0, 0, 10, 11),
    Aborted(1, 5, 15, 13),
    Aborted(2, 18, 35, 25),
    Aborted(3, 32, 50, 40),
]
READ = [AbortedTxn(0, *each[:4]) for each in ABORTED]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[SourceRoot]:
    (tmp_path / "x.txnindex").write_bytes(builders.transaction_index(ABORTED))
    with SourceRoot(str(tmp_path)) as opened:
        yield opened


@pytest.mark.conformance("TransactionIndexTest.testSanityCheck")
def test_sanity_check(root: SourceRoot) -> None:
    TransactionIndex(root.open("x.txnindex"), 0).check()
    with pytest.raises(CorruptIndexError):
        TransactionIndex(root.open("x.txnindex"), 100).check()


@pytest.mark.conformance("TransactionIndexTest.testCollectAbortedTransactions")
def test_collect_aborted_transactions(root: SourceRoot) -> None:
    index = TransactionIndex(root.open("x.txnindex"), 0)
    assert index.aborted_between(0, 100) == (READ, False)
    assert index.aborted_between(0, 32) == (READ[:3], True)
    assert index.aborted_between(0, 35) == (READ, True)
    assert index.aborted_between(10, 35) == (READ, True)
    assert index.aborted_between(11, 35) == (READ[1:], True)
    assert index.aborted_between(20, 41) == (READ[2:], False)


@pytest.mark.conformance("TransactionIndexTest.testAbortedTxnSerde")
def test_aborted_txn_serde() -> None:
    data = builders.transaction_index([Aborted(983493, 137, 299, 200)])
    txn = ENTRY.unpack(data)
    assert (txn.version, txn.producer_id) == (0, 983493)
    assert (txn.first_offset, txn.last_offset, txn.last_stable_offset) == (137, 299, 200)
    assert ENTRY.pack(txn) == data


@pytest.mark.conformance("TransactionIndexTest.testIsEmptyWhenFileDoesNotExist")
def test_is_empty_when_file_does_not_exist(root: SourceRoot) -> None:
    assert TransactionIndex(lambda: root.open("other.txnindex"), 0).is_empty


@pytest.mark.conformance("TransactionIndexTest.testIsEmptyWhenFileIsEmpty")
def test_is_empty_when_file_is_empty(root: SourceRoot, tmp_path: Path) -> None:
    (tmp_path / "empty.txnindex").write_bytes(b"")
    assert TransactionIndex(root.open("empty.txnindex"), 0).is_empty


@pytest.mark.conformance("TransactionIndexTest.testIsEmptyWhenFileIsNotEmpty")
def test_is_empty_when_file_is_not_empty(root: SourceRoot, tmp_path: Path) -> None:
    (tmp_path / "one.txnindex").write_bytes(builders.transaction_index([Aborted(0, 0, 10, 2)]))
    assert not TransactionIndex(root.open("one.txnindex"), 0).is_empty
