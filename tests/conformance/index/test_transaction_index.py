"""What Kafka's TransactionIndexTest asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CorruptIndexError
from engine.files.source_files import SourceRoot
from engine.index.transaction_index import ENTRY, AbortedTxn, TransactionIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
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


def txn(producer_id: int, first: int, last: int, last_stable: int) -> AbortedTxn:
    return AbortedTxn(0, producer_id, first, last, last_stable)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "0.txnindex").write_bytes(b"")
    return tmp_path / "0.txnindex"


@pytest.fixture
def index(path):
    with WritableTransactionIndex(0, path) as opened:
        yield opened


@pytest.mark.conformance("TransactionIndexTest.testPositionSetCorrectlyWhenOpened")
def test_position_set_correctly_when_opened(index, path):
    aborted = [txn(0, 0, 10, 11), txn(1, 5, 15, 13), txn(2, 18, 35, 25), txn(3, 32, 50, 40)]
    for each in aborted:
        index.append(each)
    index.close()
    with WritableTransactionIndex(0, path) as reopened:
        another = txn(3, 50, 60, 55)
        reopened.append(another)
        assert reopened.all_aborted_txns() == [*aborted, another]
    assert path.stat().st_size == 5 * 34


@pytest.mark.conformance("TransactionIndexTest.testLastOffsetMustIncrease")
def test_last_offset_must_increase(index):
    index.append(txn(1, 5, 15, 13))
    with pytest.raises(ValueError, match="ends at 15 does not follow one that ends at 15"):
        index.append(txn(0, 0, 15, 11))
    assert index.all_aborted_txns() == [txn(1, 5, 15, 13)]


@pytest.mark.conformance("TransactionIndexTest.testLastOffsetCannotDecrease")
def test_last_offset_cannot_decrease(index):
    index.append(txn(1, 5, 15, 13))
    with pytest.raises(ValueError, match="ends at 10 does not follow one that ends at 15"):
        index.append(txn(0, 0, 10, 11))
    assert index.all_aborted_txns() == [txn(1, 5, 15, 13)]


@pytest.mark.conformance("TransactionIndexTest.testTruncate")
def test_truncate(index):
    aborted = [txn(0, 0, 10, 2), txn(1, 5, 15, 16), txn(2, 18, 35, 25), txn(3, 32, 50, 40)]
    for each in aborted:
        index.append(each)
    index.truncate_to(51)
    assert index.collect_aborted_txns(0, 100)[0] == aborted
    index.truncate_to(50)
    assert index.collect_aborted_txns(0, 100)[0] == aborted[:3]
    index.reset()
    assert index.collect_aborted_txns(0, 100)[0] == []


@pytest.mark.conformance("TransactionIndexTest.testRenameIndex")
def test_rename_index(index, path, tmp_path):
    renamed = tmp_path / "renamed"
    renamed.write_bytes(b"")
    index.append(txn(0, 0, 10, 2))
    index.rename_to(renamed)
    index.append(txn(1, 5, 15, 16))
    aborted, _ = index.collect_aborted_txns(0, 100)
    assert [each.first_offset for each in aborted] == [0, 5]
    assert index.path == str(renamed)
    assert not path.exists()
    assert renamed.stat().st_size == 2 * 34


@pytest.mark.conformance("TransactionIndexTest.testUpdateParentDir")
def test_update_parent_dir(index, path, tmp_path):
    parent = tmp_path / "parent"
    parent.mkdir()
    assert index.path == str(path)
    index.update_parent_dir(parent)
    assert index.path == str(parent / path.name)


@pytest.mark.conformance("TransactionIndexTest.testFlush")
def test_flush(tmp_path):
    path = tmp_path / "not there"
    with WritableTransactionIndex(0, path) as index:
        index.flush()
        assert not path.exists()
        index.append(txn(0, 0, 10, 2))
        index.flush()
        assert path.stat().st_size == 34


@pytest.mark.conformance("TransactionIndexTest.testDeleteIfExists")
def test_delete_if_exists(index, path):
    assert path.exists()
    assert index.delete_if_exists()
    assert not path.exists()
    assert not index.delete_if_exists()
