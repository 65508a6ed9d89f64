"""A transaction index that is written: full disks, closed indexes, other versions."""

from __future__ import annotations

import struct

import pytest

from engine.disk.disk import Disk, WritableFile
from engine.errors import CorruptIndexError
from engine.index.transaction_index import AbortedTxn
from engine.writing.index.writable_transaction_index import WritableTransactionIndex


class HalfFile(WritableFile):
    def write_at(self, position, data):
        super().write_at(position, data[:17])
        raise OSError(28, "No space left on device")


class HalfDisk(Disk):
    is_full = True

    def _file(self, fd, path, writable):
        return (HalfFile if self.is_full else WritableFile)(fd, path, writable=writable)


def txn(last: int) -> AbortedTxn:
    return AbortedTxn(0, 1, max(last - 5, 0), last, last)


def test_a_torn_append_adds_nothing(tmp_path):
    with WritableTransactionIndex(0, tmp_path / "0.txnindex", disk=HalfDisk()) as index:
        with pytest.raises(OSError, match="No space"):
            index.append(txn(10))
        assert index.is_empty
    with WritableTransactionIndex(0, tmp_path / "0.txnindex") as index:
        assert index.is_empty
        index.append(txn(3))
        assert index.all_aborted_txns() == [txn(3)]
    assert (tmp_path / "0.txnindex").stat().st_size == 34


def test_an_append_in_order_again_after_one_that_failed(tmp_path):
    with WritableTransactionIndex(0, tmp_path / "0.txnindex") as index:
        index.append(txn(10))
        with pytest.raises(struct.error):
            index.append(AbortedTxn(0, 1, 0, 20, 2**63))
        index.append(txn(20))
        assert index.all_aborted_txns() == [txn(10), txn(20)]


def test_a_closed_index_is_refused_and_can_still_be_moved_and_removed(tmp_path):
    index = WritableTransactionIndex(0, tmp_path / "0.txnindex")
    index.append(txn(10))
    index.close()
    index.close()
    for use in (
        index.all_aborted_txns,
        lambda: index.append(txn(20)),
        lambda: index.truncate_to(0),
    ):
        with pytest.raises(ValueError, match="is closed"):
            use()
    index.rename_to(tmp_path / "moved")
    assert index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []


def test_another_version_and_an_end_below_the_start_are_corrupt(tmp_path):
    (tmp_path / "0.txnindex").write_bytes(struct.pack(">hqqqq", 1, 2, 3, 4, 5))
    with (
        WritableTransactionIndex(0, tmp_path / "0.txnindex") as index,
        pytest.raises(CorruptIndexError, match="unknown version"),
    ):
        index.sanity_check()
    with WritableTransactionIndex(11, tmp_path / "11.txnindex") as index:
        index.append(txn(10))
        with pytest.raises(CorruptIndexError, match="expected at least 11, found 10"):
            index.sanity_check()


def test_a_file_that_is_not_there_is_renamed_in_name_only(tmp_path):
    with WritableTransactionIndex(0, tmp_path / "0.txnindex") as index:
        index.rename_to(tmp_path / "other")
        assert (index.path, index.byte_size) == (str(tmp_path / "other"), 0)
        index.append(txn(10))
    assert [each.name for each in tmp_path.iterdir()] == ["other"]
