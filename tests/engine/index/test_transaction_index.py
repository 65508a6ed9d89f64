"""engine.index.transaction_index: the aborted transactions of a segment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.errors import CorruptIndexError, LimitExceededError
from engine.files.source_files import SourceRoot
from engine.index import transaction_index
from engine.index.transaction_index import ENTRY, AbortedTxn, TransactionIndex

TXNS = [AbortedTxn(0, 4, 10, 20, 12), AbortedTxn(0, 5, 15, 31, 25)]


def packed(txns: list[AbortedTxn]) -> bytes:
    return b"".join(map(ENTRY.pack, txns))


def test_an_entry_takes_34_bytes() -> None:
    assert ENTRY.size == 34


def test_the_entries_come_in_order(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(packed(TXNS))
    with SourceRoot(str(tmp_path)) as root:
        for source in (packed(TXNS), root.open("x"), lambda: root.open("x")):
            index = TransactionIndex(source, 5)
            assert index.all() == TXNS
            assert (len(index), index[1], index.is_empty) == (2, TXNS[1], False)
            index.check()


def test_a_file_that_is_not_there_holds_none(tmp_path: Path) -> None:
    with SourceRoot(str(tmp_path)) as root:
        index = TransactionIndex(lambda: root.open("x"), 0)
        assert index.is_empty
        assert index.all() == []
        assert index.aborted_between(0, 10) == ([], False)
        index.check()


def test_a_cut_entry_is_left_out_and_corrupt() -> None:
    index = TransactionIndex(packed(TXNS)[:-24], 0)
    assert index.all() == TXNS[:1]
    with pytest.raises(CorruptIndexError, match="whole entries"):
        index.check()


def test_zeros_are_not_a_transaction() -> None:
    assert TransactionIndex(bytes(34), 0).is_empty
    assert TransactionIndex(packed(TXNS) + bytes(340), 0).all() == TXNS


@pytest.mark.parametrize("version", [1, -1, 32767])
def test_another_version_is_corrupt(version: int) -> None:
    index = TransactionIndex(packed([TXNS[0], TXNS[1]._replace(version=version)]), 0, path="t")
    for call in (index.all, index.check, lambda: index.aborted_between(0, 100)):
        with pytest.raises(CorruptIndexError, match="version") as caught:
            call()
        assert (caught.value.position, caught.value.path) == (34, "t")


def test_an_end_below_the_base_is_corrupt() -> None:
    with pytest.raises(CorruptIndexError, match="below"):
        TransactionIndex(packed([TXNS[0]._replace(last_offset=-9)]), 0).check()
    TransactionIndex(packed([TXNS[0]._replace(last_offset=7)]), 7).check()


def test_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_index, "MAX_ENTRIES", 1)
    assert TransactionIndex(packed(TXNS[:1]), 0).all() == TXNS[:1]
    with pytest.raises(LimitExceededError):
        TransactionIndex(packed(TXNS), 0).all()


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    index = TransactionIndex(data, 0)
    with suppress(CorruptIndexError):
        assert len(index.all()) <= len(data) // 34
        index.check()
        index.aborted_between(0, 2**63 - 1)
