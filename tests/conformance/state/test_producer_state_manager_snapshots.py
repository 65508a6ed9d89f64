"""What Kafka's ProducerStateManagerTest asks of snapshots: taken, loaded, damaged, removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.file_names import producer_snapshot_name
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from engine.writing.state.snapshot_file import list_snapshot_files, read_snapshot, write_snapshot
from tests.conformance.producer_states import ABORT, PRODUCER, States


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


def take(states: States, *sequences: int) -> None:
    """A batch for each sequence, at the offset of the same number, and a snapshot."""
    for sequence in sequences:
        states.append(0, sequence, sequence)
    states.manager.take_snapshot()


@pytest.mark.conformance("ProducerStateManagerTest.testTruncateAndReloadRemovesOutOfRangeSnapshots")
def test_truncate_and_reload_removes_out_of_range_snapshots(states: States) -> None:
    for sequence in range(5):
        take(states, sequence)
    states.manager.truncate_and_reload(1, 3, states.clock.ms)
    assert states.manager.snapshots.oldest == 2
    assert states.manager.latest_snapshot_offset == 3


@pytest.mark.conformance("ProducerStateManagerTest.testTakeSnapshot")
def test_take_snapshot(states: States) -> None:
    states.append(0, 0, 0, 0)
    states.append(0, 1, 1, 1)
    states.manager.take_snapshot()
    (file,) = states.folder.iterdir()
    assert file.name == "00000000000000000002.snapshot"
    assert file.stat().st_size > 0


@pytest.mark.conformance("ProducerStateManagerTest.testFetchSnapshotEmptySnapShot")
def test_fetch_snapshot_empty_snap_shot(states: States) -> None:
    assert states.manager.snapshots.get(1) is None


def verify_last_batch_alone(entry: ProducerStateEntry) -> None:
    assert (entry.first_data_offset, entry.first_sequence) == (1, 1)
    assert (entry.last_data_offset, entry.last_sequence) == (1, 1)


@pytest.mark.conformance("ProducerStateManagerTest.testRecoverFromSnapshotUnfinishedTransaction")
def test_recover_from_snapshot_unfinished_transaction(states: States) -> None:
    states.append(0, 0, 0, transactional=True)
    states.append(0, 1, 1, transactional=True)
    states.manager.take_snapshot()
    recovered = states.reloaded(0, 3)
    verify_last_batch_alone(recovered.entry())
    assert recovered.entry().current_txn_first_offset == 0
    recovered.append(0, 2, 2, transactional=True)


@pytest.mark.conformance("ProducerStateManagerTest.testRecoverFromSnapshotFinishedTransaction")
def test_recover_from_snapshot_finished_transaction(states: States) -> None:
    states.append(0, 0, 0, transactional=True)
    states.append(0, 1, 1, transactional=True)
    states.end(ABORT, 0, 2)
    states.manager.take_snapshot()
    recovered = states.reloaded(0, 3)
    verify_last_batch_alone(recovered.entry())
    assert recovered.entry().current_txn_first_offset is None


@pytest.mark.conformance("ProducerStateManagerTest.testRecoverFromSnapshotEmptyTransaction")
def test_recover_from_snapshot_empty_transaction(states: States) -> None:
    appended = states.clock.now_ms()
    states.end(ABORT, 0, 0, timestamp=appended)
    states.manager.take_snapshot()
    entry = states.reloaded(0, 1).entry()
    assert (entry.last_timestamp, entry.current_txn_first_offset) == (appended, None)


@pytest.mark.conformance("ProducerStateManagerTest.testRemoveExpiredPidsOnReload")
def test_remove_expired_pids_on_reload(states: States) -> None:
    states.append(0, 0, 0, 0)
    states.append(0, 1, 1, 1)
    states.manager.take_snapshot()
    recovered = states.reloaded(0, 1, 70000)
    recovered.append(0, 2, 2, 70001)
    assert [each.last_sequence for each in recovered.manager.active_producers.values()] == [2]
    assert recovered.manager.map_end_offset == 3


@pytest.mark.conformance("ProducerStateManagerTest.testDeleteSnapshotsBefore")
def test_delete_snapshots_before(states: States) -> None:
    take(states, 0, 1)
    assert states.snapshots() == [2]
    take(states, 2)
    assert states.snapshots() == [2, 3]
    states.manager.snapshots.delete_before(3)
    assert states.snapshots() == [3]
    states.manager.snapshots.delete_before(4)
    assert states.snapshots() == []


@pytest.mark.conformance("ProducerStateManagerTest.testTruncateFullyAndStartAt")
def test_truncate_fully_and_start_at(states: States) -> None:
    take(states, 0, 1)
    assert states.snapshots() == [2]
    take(states, 2)
    assert states.snapshots() == [2, 3]
    states.manager.truncate_fully_and_start_at(0)
    assert states.snapshots() == []
    take(states, 0)
    assert states.snapshots() == [1]


@pytest.mark.conformance("ProducerStateManagerTest.testReloadSnapshots")
def test_reload_snapshots(states: States) -> None:
    take(states, 1, 2)
    kept = {path: path.read_bytes() for path in states.folder.iterdir()}
    take(states, 3, 4)
    assert states.snapshots() == [3, 5]
    states.manager.truncate_and_reload(3, 5, states.clock.ms)
    assert states.snapshots() == [5]
    for path, data in kept.items():
        path.write_bytes(data)
    states.manager.truncate_fully_and_reload_snapshots()
    assert states.manager.latest_snapshot_offset == 3
    assert states.snapshots() == [3]


@pytest.mark.conformance("ProducerStateManagerTest.testLoadFromSnapshotRetainsNonExpiredProducers")
def test_load_from_snapshot_retains_non_expired_producers(states: States) -> None:
    states.append(0, 0, 0, producer=1)
    states.append(0, 0, 1, producer=2)
    states.manager.take_snapshot()
    assert len(states.manager.active_producers) == 2
    states.manager.truncate_and_reload(1, 2, states.clock.ms)
    assert len(states.manager.active_producers) == 2
    first, second = states.entry(1), states.entry(2)
    assert (first.last_sequence, first.last_data_offset) == (0, 0)
    assert (second.last_sequence, second.last_data_offset) == (0, 1)


@pytest.mark.conformance("ProducerStateManagerTest.testSkipSnapshotIfOffsetUnchanged")
def test_skip_snapshot_if_offset_unchanged(states: States) -> None:
    states.append(0, 0, 0, 0)
    assert states.manager.take_snapshot() is not None
    assert states.snapshots() == [1]
    assert states.manager.take_snapshot() is None
    assert states.snapshots() == [1]


def verify_that_the_older_is_loaded(states: States, damage: Callable[[bytes], bytes]) -> None:
    take(states, 0)
    take(states, 1)
    assert states.manager.latest_snapshot_offset == 2
    damaged = states.folder / producer_snapshot_name(2)
    damaged.write_bytes(damage(damaged.read_bytes()))
    reloaded = states.reloaded(0, 20)
    assert not damaged.exists()
    assert reloaded.manager.active_producers[PRODUCER].last_data_offset == 0


@pytest.mark.conformance("ProducerStateManagerTest.testLoadFromEmptySnapshotFile")
def test_load_from_empty_snapshot_file(states: States) -> None:
    verify_that_the_older_is_loaded(states, lambda data: b"")


@pytest.mark.conformance("ProducerStateManagerTest.testLoadFromTruncatedSnapshotFile")
def test_load_from_truncated_snapshot_file(states: States) -> None:
    verify_that_the_older_is_loaded(states, lambda data: data[: len(data) // 2])


@pytest.mark.conformance("ProducerStateManagerTest.testLoadFromCorruptSnapshotFile")
def test_load_from_corrupt_snapshot_file(states: States) -> None:
    verify_that_the_older_is_loaded(states, lambda data: bytes(37) + data[37:])


@pytest.mark.conformance(
    "ProducerStateManagerTest.testRemoveStraySnapshotsKeepCleanShutdownSnapshot"
)
def test_remove_stray_snapshots_keep_clean_shutdown_snapshot(states: States) -> None:
    for offset in (5, 2, 42):
        (states.folder / producer_snapshot_name(offset)).touch()
    states.manager.remove_stray_snapshots([5])
    assert states.manager.latest_snapshot_offset == 42
    assert states.manager.snapshots.oldest == 5
    assert [each.offset for each in list_snapshot_files(states.folder)] == [5, 42]


@pytest.mark.conformance("ProducerStateManagerTest.testRemoveAllStraySnapshots")
def test_remove_all_stray_snapshots(states: States) -> None:
    for offset in (5, 2, 42):
        (states.folder / producer_snapshot_name(offset)).touch()
    states.manager.remove_stray_snapshots([42])
    assert [each.offset for each in list_snapshot_files(states.folder)] == [42]


@pytest.mark.conformance("ProducerStateManagerTest.testRemoveAndMarkSnapshotForDeletion")
def test_remove_and_mark_snapshot_for_deletion(states: States) -> None:
    (states.folder / producer_snapshot_name(5)).touch()
    manager = states.again().manager
    assert manager.latest_snapshot_offset == 5
    marked = manager.snapshots.mark_for_deletion(5)
    assert marked is not None
    assert marked.path.name == "00000000000000000005.snapshot.deleted"
    assert marked.path.exists()
    assert manager.latest_snapshot_offset is None


@pytest.mark.conformance(
    "ProducerStateManagerTest.testRemoveAndMarkSnapshotForDeletionAlreadyDeleted"
)
def test_remove_and_mark_snapshot_for_deletion_already_deleted(states: States) -> None:
    path = states.folder / producer_snapshot_name(5)
    path.touch()
    manager = states.again().manager
    assert manager.latest_snapshot_offset == 5
    path.unlink()
    assert manager.snapshots.mark_for_deletion(5) is None
    assert manager.latest_snapshot_offset is None


@pytest.mark.conformance("ProducerStateManagerTest.testReadWriteSnapshot")
def test_read_write_snapshot(states: States) -> None:
    entries = [
        ProducerStateEntry(1, 2, 3, -1, 100, [BatchMetadata(1, 2, 3, -1)]),
        ProducerStateEntry(11, 12, 13, 123456),
    ]
    path = states.folder / "testReadWriteSnapshot"
    write_snapshot(path, entries)
    assert read_snapshot(path) == entries
