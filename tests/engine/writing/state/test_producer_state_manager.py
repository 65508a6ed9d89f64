"""The producers of a log at the millisecond where they expire or are late, and updates that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.disk.disk import WritableFile
from engine.state.producer_state_entry import ProducerStateEntry
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_state_manager import (
    LATE_TRANSACTION_BUFFER_MS,
    ProducerStateManagerConfig,
)
from engine.writing.state.snapshot_file import write_snapshot
from tests.clocks import MockClock
from tests.conformance.producer_states import COMMIT, EXPIRATION_MS, LATE_MS, PRODUCER, States


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


@pytest.mark.parametrize(("waited", "is_known"), [(-1, True), (0, False), (1, False)])
def test_a_producer_expires_at_the_millisecond(states: States, waited: int, is_known: bool) -> None:
    states.append(0, 0, 9)
    states.append(0, 0, 10, states.clock.ms + 5, producer=2)
    states.manager.remove_expired_producers(states.clock.ms + EXPIRATION_MS + waited)
    assert (states.manager.last_entry(PRODUCER) is not None) == is_known
    assert states.manager.last_entry(2) is not None
    assert [*states.manager.active_producers] == ([1, 2] if is_known else [2])


@pytest.mark.parametrize(
    ("began", "waited", "is_late"),
    [(1, 0, False), (1, 1, True), (0, 1, False), (-1, 1, False), (5000, 0, False), (5000, 1, True)],
)
def test_a_transaction_is_late_a_millisecond_after_the_limit(
    states: States, began: int, waited: int, is_late: bool
) -> None:
    states.append(0, 0, 9, began, transactional=True)
    assert states.manager.has_late_transaction(began + LATE_MS + waited) == is_late


def test_without_a_transaction_nothing_is_late(states: States) -> None:
    assert not states.manager.has_late_transaction(2**62)
    states.append(0, 0, 9, 5000)
    assert not states.manager.has_late_transaction(2**62)


def test_a_copy_of_the_state_goes_its_own_way(tmp_path: Path) -> None:
    states, twin = States(tmp_path), States(tmp_path)
    states.append(0, 0, 9, transactional=True)
    twin.manager = states.manager.copied()
    assert twin.entry() == states.entry()
    twin.end(COMMIT, 0, 10)
    twin.manager.on_high_watermark_updated(11)
    twin.append(0, 0, 11, producer=2, transactional=True)
    assert (states.unstable(), twin.unstable()) == (9, 11)
    assert states.manager.last_entry(2) is None
    assert states.entry().current_txn_first_offset == 9


def test_a_copy_keeps_its_ended_transactions_to_itself(tmp_path: Path) -> None:
    states, twin = States(tmp_path), States(tmp_path)
    states.append(0, 0, 9, transactional=True)
    states.end(COMMIT, 0, 10)
    twin.manager = states.manager.copied()
    twin.manager.on_high_watermark_updated(11)
    assert (states.unstable(), twin.unstable()) == (9, None)


def test_times_are_those_of_a_broker() -> None:
    assert LATE_TRANSACTION_BUFFER_MS == 5 * 60 * 1000
    assert ProducerStateManagerConfig().producer_id_expiration_ms == 24 * 60 * 60 * 1000


def test_a_snapshot_is_synced_unless_told(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(WritableFile, "sync", lambda file: synced.append(file.path))
    states.append(0, 0, 9)
    path = states.manager.take_snapshot()
    states.append(0, 1, 10)
    states.manager.take_snapshot(sync=False)
    assert synced == [str(path)]
    write_snapshot(states.folder / "other", [])
    assert synced == [str(path), str(states.folder / "other")]


def test_an_update_needs_a_producer_id(states: States) -> None:
    info = states.manager.prepare_update(-1, AppendOrigin.CLIENT)
    with pytest.raises(ValueError, match="no producer id"):
        states.manager.update(info)
    assert states.manager.is_empty


def test_only_a_transaction_that_has_begun_ends(states: States) -> None:
    states.append(0, 0, 9, transactional=True)
    with pytest.raises(ValueError, match="has not begun"):
        states.manager.complete_txn(CompletedTxn(PRODUCER, 8, 10, is_aborted=False))
    assert states.unstable() == 9


@pytest.mark.parametrize(("high_watermark", "unstable"), [(10, 9), (11, None)])
def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark(
    states: States, high_watermark: int, unstable: int | None
) -> None:
    states.append(0, 0, 9, transactional=True)
    states.end(COMMIT, 0, 10)
    states.manager.on_high_watermark_updated(high_watermark)
    assert states.unstable() == unstable
    assert states.manager.first_undecided_offset is None


@pytest.mark.parametrize(("log_start", "end"), [(0, 10), (10, 10), (11, 11), (50, 50)])
def test_the_state_covers_at_least_the_log_start(states: States, log_start: int, end: int) -> None:
    states.append(0, 0, 9)
    states.manager.on_log_start_offset_incremented(log_start)
    assert states.manager.map_end_offset == end


@pytest.mark.parametrize(("start", "is_written"), [(0, False), (1, True)])
def test_an_emptied_state_is_written_once_it_is_above_0(
    states: States, start: int, is_written: bool
) -> None:
    states.append(0, 0, 9)
    states.manager.take_snapshot()
    states.manager.truncate_fully_and_start_at(start)
    assert states.snapshots() == []
    assert (states.manager.take_snapshot() is not None) == is_written
    assert states.manager.take_snapshot() is None


def test_an_emptied_state_ends_where_it_was_told(states: States) -> None:
    states.append(0, 0, 9)
    states.manager.truncate_fully_and_start_at(7)
    assert states.manager.map_end_offset == 7
    states.manager.truncate_fully_and_reload_snapshots()
    assert states.manager.map_end_offset == 0
    assert states.manager.is_empty


def test_snapshots_move_with_the_folder_of_the_log(states: States) -> None:
    folder = states.folder / "orders-0"
    folder.mkdir()
    states.manager.folder = folder
    states.append(0, 0, 9)
    states.manager.take_snapshot()
    moved = folder.rename(states.folder / "orders-0.moved")
    states.manager.update_parent_dir(moved)
    assert states.manager.snapshots[10].path.exists()
    states.append(0, 1, 10)
    written = states.manager.take_snapshot()
    assert written is not None
    assert written.parent == moved


def test_an_entry_of_a_snapshot_brings_its_open_transaction(tmp_path: Path) -> None:
    states = States(tmp_path, MockClock(1000))
    states.manager.load_producer_entry(ProducerStateEntry(7, 0, 0, 900, 42))
    states.manager.load_producer_entry(ProducerStateEntry(8, 0, 0, 900, None))
    assert states.manager.first_undecided_offset == 42
    assert states.unstable() == 42
