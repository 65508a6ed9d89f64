"""What Kafka's ProducerStateManagerTest asks of sequences, epochs and appends."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from engine.record.control_records import EndTransactionMarker
from engine.record.memory_records import MemoryRecords
from engine.units import LogOffsetMetadata, TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.transactions_by_offset import TxnMetadata
from tests import builders
from tests.conformance.producer_states import (
    ABORT,
    COMMIT,
    EXPIRATION_MS,
    MAX_INT,
    PRODUCER,
    States,
    after,
)


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


@pytest.mark.conformance("ProducerStateManagerTest.testBasicIdMapping")
def test_basic_id_mapping(states: States) -> None:
    states.append(0, 0, 0, 0)
    states.append(0, 1, 0, 1)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(0, 1, 0, 1)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(0, 5, 0, 2)
    states.append(1, 0, 0, 3)
    with pytest.raises(InvalidProducerEpochError):
        states.append(0, 0, 0, 4)


@pytest.mark.conformance("ProducerStateManagerTest.testAppendTxnMarkerWithNoProducerState")
def test_append_txn_marker_with_no_producer_state(states: States) -> None:
    states.end(COMMIT, 2, 27)
    first = states.entry()
    assert (first.producer_epoch, first.producer_id, first.last_sequence) == (2, PRODUCER, -1)
    with pytest.raises(InvalidProducerEpochError):
        states.append(0, 0, 0, 4)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(2, 17, 0, 4)
    states.append(2, 0, 39, 4)
    second = states.entry()
    assert (second.producer_epoch, second.producer_id, second.last_sequence) == (2, PRODUCER, 0)


@pytest.mark.conformance("ProducerStateManagerTest.testProducerSequenceWrapAround")
def test_producer_sequence_wrap_around(states: States) -> None:
    states.replicate(15, MAX_INT, 735)
    states.append(15, 0, 735 + 500)
    entry = states.entry()
    assert (entry.producer_epoch, entry.first_sequence, entry.last_sequence) == (15, MAX_INT, 0)


@pytest.mark.conformance("ProducerStateManagerTest.testProducerSequenceWithWrapAroundBatchRecord")
def test_producer_sequence_with_wrap_around_batch_record(states: States) -> None:
    info = states.manager.prepare_update(PRODUCER, AppendOrigin.REPLICATION)
    states.data(info, 15, MAX_INT - 10, 9, 2000, 2020)
    assert states.manager.last_entry(PRODUCER) is None
    states.manager.update(info)
    entry = states.entry()
    assert (entry.first_sequence, entry.last_sequence) == (MAX_INT - 10, 9)
    assert (entry.first_data_offset, entry.last_data_offset) == (2000, 2020)


@pytest.mark.conformance("ProducerStateManagerTest.testProducerSequenceInvalidWrapAround")
def test_producer_sequence_invalid_wrap_around(states: States) -> None:
    states.replicate(15, MAX_INT, 735)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(15, 1, 735 + 500)


@pytest.mark.conformance("ProducerStateManagerTest.testNoValidationOnFirstEntryWhenLoadingLog")
def test_no_validation_on_first_entry_when_loading_log(states: States) -> None:
    states.replicate(5, 16, 735)
    entry = states.entry()
    assert (entry.producer_epoch, entry.first_sequence, entry.last_sequence) == (5, 16, 16)
    assert (entry.first_data_offset, entry.last_data_offset) == (735, 735)


@pytest.mark.conformance("ProducerStateManagerTest.testControlRecordBumpsProducerEpoch")
def test_control_record_bumps_producer_epoch(states: States) -> None:
    states.append(0, 0, 0)
    states.end(ABORT, 1, 1)
    entry = states.entry()
    assert (entry.producer_epoch, entry.current_txn_first_offset) == (1, None)
    assert (entry.first_sequence, entry.last_sequence) == (-1, -1)
    states.append(1, 0, 2)
    assert states.entry().first_sequence == 0


@pytest.mark.conformance("ProducerStateManagerTest.testPrepareUpdateDoesNotMutate")
def test_prepare_update_does_not_mutate(states: States) -> None:
    first = states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)
    states.data(first, 0, 0, 5, 15, 20)
    assert states.manager.last_entry(PRODUCER) is None
    states.manager.update(first)
    second = states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)
    states.data(second, 0, 6, 10, 26, 30)
    entry = states.entry()
    assert (entry.first_sequence, entry.last_sequence, entry.last_data_offset) == (0, 5, 20)
    states.manager.update(second)
    entry = states.entry()
    assert (entry.first_sequence, entry.last_sequence, entry.last_data_offset) == (0, 10, 30)


@pytest.mark.conformance("ProducerStateManagerTest.updateProducerTransactionState")
def test_update_producer_transaction_state(states: States) -> None:
    states.append(0, 0, 9)
    info = states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)

    def verify(last_sequence: int, last_offset: int, transaction: int | None) -> None:
        entry = info.updated_entry
        assert (entry.producer_epoch, entry.first_sequence) == (0, 1)
        assert (entry.last_sequence, entry.last_data_offset) == (last_sequence, last_offset)
        assert (entry.first_data_offset, entry.current_txn_first_offset) == (16, transaction)
        assert info.started_transactions == [TxnMetadata(PRODUCER, LogOffsetMetadata(16))]

    states.data(info, 0, 1, 5, 16, 20, transactional=True)
    verify(5, 20, 16)
    states.data(info, 0, 6, 10, 26, 30, transactional=True)
    verify(10, 30, 16)
    completed = info.append_end_marker(
        EndTransactionMarker(COMMIT, 15), 0, 40, states.clock.now_ms(), transaction_version=0
    )
    assert completed == (PRODUCER, 16, 40, False)
    verify(10, 30, None)


@pytest.mark.conformance("ProducerStateManagerTest.testOutOfSequenceAfterControlRecordEpochBump")
def test_out_of_sequence_after_control_record_epoch_bump(states: States) -> None:
    states.append(0, 0, 0, transactional=True)
    states.append(0, 1, 1, transactional=True)
    states.end(ABORT, 1, 1)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(1, 2, 2, transactional=True)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(2, 2, 2, transactional=True)
    states.append(1, 0, 0, transactional=True)
    assert (states.entry().producer_epoch, states.entry().last_sequence) == (1, 0)


@pytest.mark.conformance(
    "ProducerStateManagerTest.testNonTransactionalAppendWithOngoingTransaction"
)
def test_non_transactional_append_with_ongoing_transaction(states: States) -> None:
    states.append(0, 0, 0, transactional=True)
    with pytest.raises(InvalidTxnStateError):
        states.append(0, 1, 1)


@pytest.mark.conformance("ProducerStateManagerTest.testProducerStateAfterFencingAbortMarker")
def test_producer_state_after_fencing_abort_marker(states: States) -> None:
    states.append(0, 0, 0, transactional=True)
    states.end(ABORT, 1, 1)
    entry = states.entry()
    assert entry.current_txn_first_offset is None
    assert (entry.first_data_offset, entry.last_data_offset) == (-1, -1)
    states.manager.remove_expired_producers(states.clock.ms)
    assert states.manager.last_entry(PRODUCER) is not None


@pytest.mark.conformance("ProducerStateManagerTest.testAcceptAppendWithoutProducerStateOnReplica")
def test_accept_append_without_producer_state_on_replica(states: States) -> None:
    """The log's folder ends at 1 here, below the only snapshot, so the producer is gone."""
    states.append(0, 0, 0, 0)
    states.append(0, 1, 1, 1)
    states.manager.take_snapshot()
    recovered = states.reloaded(0, 1, 70000)
    assert PRODUCER not in recovered.manager.active_producers
    recovered.replicate(0, 2, 2, 70001)
    entry = recovered.manager.active_producers[PRODUCER]
    assert (entry.producer_epoch, entry.first_sequence, entry.last_sequence) == (0, 2, 2)


@pytest.mark.conformance("ProducerStateManagerTest.testAcceptAppendWithSequenceGapsOnReplica")
def test_accept_append_with_sequence_gaps_on_replica(states: States) -> None:
    states.append(0, 0, 0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(0, 3, 1, 1)
    assert states.manager.active_producers[PRODUCER].last_sequence == 0
    states.replicate(0, 3, 1, 1)
    assert states.manager.active_producers[PRODUCER].last_sequence == 3


@pytest.mark.conformance("ProducerStateManagerTest.testPidExpirationTimeout")
def test_pid_expiration_timeout(states: States) -> None:
    states.append(5, 0, 1)
    states.clock.sleep(EXPIRATION_MS + 1)
    states.manager.remove_expired_producers(states.clock.ms)
    states.append(5, 1, 2)
    assert [each.last_sequence for each in states.manager.active_producers.values()] == [1]
    assert states.manager.map_end_offset == 3


@pytest.mark.conformance("ProducerStateManagerTest.testSequenceNotValidatedForGroupMetadataTopic")
def test_sequence_not_validated_for_group_metadata_topic(tmp_path: Path) -> None:
    states = States(tmp_path, partition=TopicPartition("__consumer_offsets", 0))
    for offset in (99, 100):
        states.append(0, -1, offset, transactional=True, origin=AppendOrigin.COORDINATOR)
    assert states.entry().last_data_offset == 100


@pytest.mark.conformance("ProducerStateManagerTest.testOldEpochForControlRecord")
@pytest.mark.parametrize("version", [0, 2])
def test_old_epoch_for_control_record(states: States, version: int) -> None:
    assert states.manager.first_undecided_offset is None
    states.append(5, 0, 99, transactional=True)
    with pytest.raises(InvalidProducerEpochError):
        states.end(COMMIT, 3, 100, version=version)
    if version >= 2:
        with pytest.raises(InvalidProducerEpochError):
            states.end(COMMIT, 5, 100, version=version)
    else:
        states.end(COMMIT, 5, 100, version=version)


@pytest.mark.conformance("ProducerStateManagerTest.testCoordinatorFencing")
@pytest.mark.parametrize("version", [0, 2])
def test_coordinator_fencing(states: States, version: int) -> None:
    states.append(5, 0, 99, transactional=True)
    epoch = after(5, version)
    states.end(COMMIT, epoch, 100, coordinator_epoch=1, version=version)
    assert states.entry().coordinator_epoch == 1
    epoch = after(epoch, version)
    states.end(COMMIT, epoch, 101, coordinator_epoch=1, version=version)
    epoch = after(epoch, version)
    states.end(COMMIT, epoch, 102, coordinator_epoch=2, version=version)
    with pytest.raises(TransactionCoordinatorFencedError):
        states.end(COMMIT, after(epoch, version), 103, coordinator_epoch=1, version=version)


@pytest.mark.conformance("ProducerStateManagerTest.testCoordinatorFencedAfterReload")
@pytest.mark.parametrize("version", [0, 2])
def test_coordinator_fenced_after_reload(states: States, version: int) -> None:
    """Kafka's test asks the manager from before the reload, and reloads to before the snapshot."""
    states.append(0, 0, 99, transactional=True)
    epoch = after(0, version)
    states.end(COMMIT, epoch, 100, coordinator_epoch=1, version=version)
    states.manager.take_snapshot()
    recovered = states.reloaded(0, 101)
    epoch = after(epoch, version)
    with pytest.raises(TransactionCoordinatorFencedError):
        recovered.end(COMMIT, epoch, 101, version=version)
    states.again().manager.truncate_and_reload(0, 2, 70000)
    with pytest.raises(TransactionCoordinatorFencedError):
        states.end(COMMIT, epoch, 100, version=version)


@pytest.mark.conformance("ProducerStateManagerTest.testIdempotentTransactionMarkerRetryTV2")
def test_idempotent_transaction_marker_retry_tv2(states: States) -> None:
    states.append(0, 0, 99, transactional=True)
    for offset in (100, 101):
        states.end(COMMIT, 1, offset, version=2)
        entry = states.entry()
        assert (entry.producer_epoch, entry.current_txn_first_offset) == (1, None)


@pytest.mark.conformance("ProducerStateManagerTest.testAppendEmptyControlBatch")
def test_append_empty_control_batch(states: States) -> None:
    (batch,) = MemoryRecords(builders.empty_batch(15, 15, control=True)).batches()
    info = states.manager.prepare_update(23423, AppendOrigin.CLIENT)
    info.append(batch)
    states.manager.update(info)
    states.manager.update_map_end_offset(16)
    assert states.entry(23423).current_txn_first_offset is None


@pytest.mark.conformance("ProducerStateManagerTest.testRejectNonZeroSequenceForDirectEpochBump")
def test_reject_non_zero_sequence_for_direct_epoch_bump(states: States) -> None:
    for number in range(3):
        states.append(0, number, number)
    initial = states.entry()
    assert (initial.producer_epoch, initial.last_sequence, initial.is_empty) == (0, 2, False)

    def prepared() -> ProducerAppendInfo:
        return states.manager.prepare_update(PRODUCER, AppendOrigin.CLIENT)

    with pytest.raises(
        OutOfOrderSequenceError, match=r"new epoch 1 begins with sequence 5, .* before is 0"
    ):
        states.data(prepared(), 1, 5, 5, 3, 3)
    states.data(prepared(), 1, 0, 0, 3, 3)
