"""Epochs of end markers by transaction version, and the sequence that a new epoch starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from engine.record.control_records import EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import UNKNOWN_TRANSACTION_VERSION
from tests.conformance.producer_states import ABORT, COMMIT, MAX_INT, PRODUCER, States
from tests.conformance.unified_log_steps import LogBench, of_producer, rec

EPOCH = 5
MAX_EPOCH = 2**15 - 1
REPLICATION = AppendOrigin.REPLICATION


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


def begin(states: States, epoch: int = EPOCH) -> None:
    states.append(epoch, 0, 99, transactional=True)


# (transaction version, epoch of the marker): what a leader does while a transaction is open
@pytest.mark.parametrize(
    ("version", "epoch"),
    [(0, EPOCH), (1, EPOCH), (0, EPOCH + 1), (1, EPOCH + 1), (2, EPOCH + 1), (3, EPOCH + 1)],
)
def test_a_marker_ends_the_open_transaction(states: States, version: int, epoch: int) -> None:
    begin(states)
    assert states.end(COMMIT, epoch, 100, version=version) == CompletedTxn(PRODUCER, 99, 100, False)
    assert states.entry().producer_epoch == epoch
    assert states.entry().current_txn_first_offset is None


@pytest.mark.parametrize(
    ("version", "epoch"),
    [(0, EPOCH - 1), (1, EPOCH - 1), (2, EPOCH - 1), (2, EPOCH), (3, EPOCH)],
)
def test_a_late_marker_does_not_end_the_open_transaction(
    states: States, version: int, epoch: int
) -> None:
    begin(states)
    relation = "not above" if version >= 2 else "below"
    with pytest.raises(InvalidProducerEpochError, match=f"epoch {epoch} is {relation} the newest"):
        states.end(ABORT, epoch, 100, version=version)
    assert states.entry().producer_epoch == EPOCH
    assert states.entry().current_txn_first_offset == 99
    assert states.unstable() == 99


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_may_be_written_twice(states: States, version: int) -> None:
    begin(states)
    assert states.end(ABORT, EPOCH + 1, 100, version=version) is not None
    assert states.end(ABORT, EPOCH + 1, 101, version=version) is None
    with pytest.raises(InvalidProducerEpochError):
        states.end(ABORT, EPOCH, 102, version=version)


def test_no_epoch_is_above_the_largest(states: States) -> None:
    begin(states, MAX_EPOCH)
    assert states.end(COMMIT, MAX_EPOCH, 100, version=2) == CompletedTxn(PRODUCER, 99, 100, False)


def test_the_epoch_below_the_largest_is_no_exception(states: States) -> None:
    begin(states, MAX_EPOCH - 1)
    with pytest.raises(InvalidProducerEpochError):
        states.end(COMMIT, MAX_EPOCH - 1, 100, version=2)


@pytest.mark.parametrize("version", [UNKNOWN_TRANSACTION_VERSION, 0, 2])
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH, EPOCH + 1])
def test_a_follower_takes_every_marker(
    states: States, caplog: pytest.LogCaptureFixture, version: int, epoch: int
) -> None:
    begin(states)
    assert states.end(COMMIT, epoch, 100, version=version, origin=REPLICATION) is not None
    is_late = epoch < EPOCH or (epoch == EPOCH and version == 2)
    assert ("the newest" in caplog.text) == is_late


@pytest.mark.parametrize("origin", [AppendOrigin.COORDINATOR, AppendOrigin.CLIENT])
def test_a_leader_must_know_the_transaction_version(states: States, origin: AppendOrigin) -> None:
    begin(states)
    with pytest.raises(ValueError, match="transaction version"):
        states.end(COMMIT, EPOCH + 1, 100, version=UNKNOWN_TRANSACTION_VERSION, origin=origin)


def test_a_log_hands_the_version_to_the_check(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log()
    log.append_as_leader(of_producer(PRODUCER, 0, rec("a"), is_transactional=True), 0)

    def end(epoch: int) -> int:
        marker = end_transaction_marker(
            EndTransactionMarker(COMMIT, 0),
            producer_id=PRODUCER,
            producer_epoch=epoch,
            timestamp=bench.now,
        )
        origin = AppendOrigin.COORDINATOR
        return log.append_as_leader(marker, 0, origin, transaction_version=2).last_offset

    with pytest.raises(InvalidProducerEpochError):
        end(0)
    assert log.log_end_offset == 1
    assert end(1) == 1


# Sequences


def test_a_new_epoch_starts_at_sequence_0(states: States) -> None:
    states.append(EPOCH, 7, 99)
    states.append(EPOCH + 1, 0, 100)
    assert (states.entry().producer_epoch, states.entry().last_sequence) == (EPOCH + 1, 0)
    states.append(EPOCH + 1, 1, 101)


@pytest.mark.parametrize("sequence", [-1, 1, 2, 8, MAX_INT])
def test_a_new_epoch_starts_at_no_other_sequence(states: States, sequence: int) -> None:
    states.append(EPOCH, 7, 99)
    with pytest.raises(OutOfOrderSequenceError, match="not 0"):
        states.append(EPOCH + 1, sequence, 100)


@pytest.mark.parametrize("sequence", [1, 2, 8, MAX_INT])
def test_an_epoch_that_a_marker_brought_starts_at_sequence_0(states: States, sequence: int) -> None:
    states.append(EPOCH, 7, 98, transactional=True)
    states.end(COMMIT, EPOCH + 1, 99, version=2)
    with pytest.raises(OutOfOrderSequenceError):
        states.append(EPOCH + 1, sequence, 100)
    states.append(EPOCH + 1, 0, 100)


@pytest.mark.parametrize("sequence", [0, 1, MAX_INT])
def test_an_unknown_producer_starts_at_any_sequence(states: States, sequence: int) -> None:
    states.append(EPOCH, sequence, 99)
    assert states.entry().last_sequence == sequence
