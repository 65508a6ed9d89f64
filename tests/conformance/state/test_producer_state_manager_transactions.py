"""What Kafka's ProducerStateManagerTest asks of transactions and the unstable offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import LogOffsetMetadata
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.transactions_by_offset import TxnMetadata
from tests.conformance.producer_states import (
    ABORT,
    COMMIT,
    EXPIRATION_MS,
    LATE_MS,
    PARTITION,
    PRODUCER,
    States,
    after,
)


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


@pytest.mark.conformance("ProducerStateManagerTest.testTxnFirstOffsetMetadataCached")
def test_txn_first_offset_metadata_cached(states: States) -> None:
    info = ProducerAppendInfo(
        PARTITION, PRODUCER, ProducerStateEntry(PRODUCER), AppendOrigin.CLIENT
    )
    first = LogOffsetMetadata(992342, 990000, 234224)
    info.append_data_batch(0, 0, 0, states.clock.ms, first, 992342, is_transactional=True)
    states.manager.update(info)
    assert states.manager.first_unstable_offset == first


@pytest.mark.conformance("ProducerStateManagerTest.testHasLateTransaction")
@pytest.mark.parametrize("version", [0, 2])
def test_has_late_transaction(states: States, version: int) -> None:
    states.append(2, 0, 100, producer=39, transactional=True)
    assert not states.is_late()
    states.clock.sleep(500)
    states.append(9, 0, 150, producer=57, transactional=True)
    assert not states.is_late()
    states.clock.sleep(LATE_MS - 500 + 1)
    assert states.is_late()
    states.clock.sleep(500)
    assert states.is_late()
    states.end(COMMIT, after(2, version), 200, producer=39, version=version)
    assert states.is_late()
    states.end(COMMIT, after(9, version), 250, producer=57, version=version)
    assert not states.is_late()


@pytest.mark.conformance("ProducerStateManagerTest.testHasLateTransactionInitializedAfterReload")
def test_has_late_transaction_initialized_after_reload(states: States) -> None:
    states.append(2, 0, 100, producer=39, transactional=True)
    assert not states.is_late()
    states.clock.sleep(500)
    states.append(9, 0, 150, producer=57, transactional=True)
    assert not states.is_late()
    states.manager.take_snapshot()
    states.clock.sleep(LATE_MS - 500 + 1)
    assert states.is_late()
    assert states.reloaded(0, states.manager.map_end_offset).is_late()


def make_late(states: States) -> None:
    states.append(2, 0, 100, producer=39, transactional=True)
    assert not states.is_late()
    states.clock.sleep(LATE_MS + 1)
    assert states.is_late()


@pytest.mark.conformance(
    "ProducerStateManagerTest.testHasLateTransactionUpdatedAfterPartialTruncation"
)
def test_has_late_transaction_updated_after_partial_truncation(states: States) -> None:
    make_late(states)
    states.manager.truncate_and_reload(0, 80, states.clock.ms)
    assert not states.is_late()


@pytest.mark.conformance(
    "ProducerStateManagerTest.testHasLateTransactionUpdatedAfterFullTruncation"
)
def test_has_late_transaction_updated_after_full_truncation(states: States) -> None:
    make_late(states)
    states.manager.truncate_fully_and_start_at(150)
    assert not states.is_late()


@pytest.mark.conformance("ProducerStateManagerTest.testFirstUnstableOffsetAfterTruncation")
def test_first_unstable_offset_after_truncation(states: States) -> None:
    states.append(0, 0, 99, transactional=True)
    assert states.unstable() == 99
    states.manager.take_snapshot()
    states.end(COMMIT, 0, 105)
    states.manager.on_high_watermark_updated(106)
    assert states.unstable() is None
    states.manager.take_snapshot()
    states.append(0, 1, 106)
    states.manager.truncate_and_reload(0, 106, states.clock.ms)
    assert states.unstable() is None
    states.manager.truncate_and_reload(0, 100, states.clock.ms)
    assert states.unstable() == 99


@pytest.mark.conformance("ProducerStateManagerTest.testFirstUnstableOffset")
@pytest.mark.parametrize("version", [0, 2])
def test_first_unstable_offset(states: States, version: int) -> None:
    def verify(undecided: int | None, unstable: int | None) -> None:
        assert (states.manager.first_undecided_offset, states.unstable()) == (undecided, unstable)

    verify(None, None)
    states.append(5, 0, 99, transactional=True)
    verify(99, 99)
    states.append(5, 0, 105, producer=2, transactional=True)
    verify(99, 99)
    states.end(COMMIT, after(5, version), 109, version=version)
    verify(105, 99)
    states.manager.on_high_watermark_updated(100)
    verify(105, 99)
    states.manager.on_high_watermark_updated(110)
    verify(105, 105)
    states.end(ABORT, after(5, version), 112, producer=2, version=version)
    verify(None, 105)
    states.manager.on_high_watermark_updated(113)
    verify(None, None)


@pytest.mark.conformance("ProducerStateManagerTest.testProducersWithOngoingTransactionsDontExpire")
def test_producers_with_ongoing_transactions_dont_expire(states: States) -> None:
    states.append(5, 0, 99, transactional=True)
    assert states.manager.first_undecided_offset == 99
    states.clock.sleep(EXPIRATION_MS + 1)
    for _ in range(2):
        states.manager.remove_expired_producers(states.clock.ms)
        assert states.manager.last_entry(PRODUCER) is not None
        assert states.manager.first_undecided_offset == 99


@pytest.mark.conformance("ProducerStateManagerTest.testLastStableOffsetCompletedTxn")
def test_last_stable_offset_completed_txn(states: States) -> None:
    base = 990000
    start1 = 992342
    start2, start3 = start1 + 25, start1 + 57
    for producer, start in ((1, start1), (2, start2), (3, start3)):
        info = ProducerAppendInfo(
            PARTITION, producer, ProducerStateEntry(producer), AppendOrigin.CLIENT
        )
        where = LogOffsetMetadata(start, base, 50 * (start - base))
        info.append_data_batch(0, 0, 0, states.clock.ms, where, start, is_transactional=True)
        states.manager.update(info)

    def complete(producer: int, first: int, last: int) -> int:
        completed = CompletedTxn(producer, first, last, is_aborted=False)
        stable = states.manager.last_stable_offset(completed)
        states.manager.complete_txn(completed)
        states.manager.on_high_watermark_updated(last + 1)
        return stable

    end1 = start3 + 15
    assert complete(1, start1, end1) == start2
    assert states.unstable() == start2
    end3 = end1 + 20
    assert complete(3, start3, end3) == start2
    assert states.unstable() == start2
    end2 = end3 + 78
    assert complete(2, start2, end2) == end2 + 1
    assert states.unstable() is None


@pytest.mark.conformance("ProducerStateManagerTest.testSkipEmptyTransactions")
def test_skip_empty_transactions(states: States) -> None:
    first = states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)
    states.data(first, 0, 0, 4, 16, 20, transactional=True)
    assert first.started_transactions == [TxnMetadata(PRODUCER, LogOffsetMetadata(16))]
    states.manager.update(first)
    states.manager.on_high_watermark_updated(21)
    assert states.manager.first_unstable_offset == LogOffsetMetadata(16)

    second = states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)

    def end(kind: ControlRecordType, offset: int) -> CompletedTxn | None:
        marker = EndTransactionMarker(kind, 27)
        return second.append_end_marker(marker, 0, offset, states.clock.ms, transaction_version=0)

    completed1 = end(COMMIT, 21)
    assert completed1 == CompletedTxn(PRODUCER, 16, 21, is_aborted=False)
    assert end(COMMIT, 22) is None
    assert end(ABORT, 23) is None
    states.data(second, 0, 5, 8, 24, 27, transactional=True)
    completed2 = end(ABORT, 28)
    assert completed2 is not None
    assert end(ABORT, 29) is None
    states.data(second, 0, 9, 10, 30, 31, transactional=True)
    assert second.started_transactions == [
        TxnMetadata(PRODUCER, LogOffsetMetadata(24)),
        TxnMetadata(PRODUCER, LogOffsetMetadata(30)),
    ]
    states.manager.update(second)
    states.manager.complete_txn(completed1)
    states.manager.complete_txn(completed2)
    states.manager.on_high_watermark_updated(32)
    assert states.manager.first_unstable_offset == LogOffsetMetadata(30)
