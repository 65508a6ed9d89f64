"""What Kafka's KafkaMetadataLogTest asks of reading a KRaft log and its snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.files.file_names import kraft_checkpoint_name
from engine.log.folder_listing import KRaftSnapshot
from engine.log.log_view import LogView
from engine.log.segment.scan import BatchRun
from tests.conformance.malformed_records import MALFORMED
from tests.engine.log.folders import LogWriter

NAME = "__cluster_metadata-0"


def kinds(view: LogView) -> set[str]:
    return {problem["kind"] for problem in view.problems}


def snapshot(writer: LogWriter, end_offset: int, epoch: int, suffix: str = "") -> str:
    name = kraft_checkpoint_name(end_offset, epoch) + suffix
    (writer.folder / name).touch()
    return name


@pytest.mark.conformance("KafkaMetadataLogTest.testInvalidMemoryRecords")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_invalid_memory_records(tmp_path: Path, data: bytes) -> None:
    writer = LogWriter(tmp_path, NAME)
    writer.append_records(b"before")
    with writer.records_file.open("ab") as file:
        file.write(data)
    view = writer.view()
    assert view.log_end_offset == 1
    assert sum(len(item.table) for _, item in view.runs() if isinstance(item, BatchRun)) == 1


@pytest.mark.conformance("KafkaMetadataLogTest.testRandomRecords")
@given(st.binary(min_size=1, max_size=128))
def test_random_records(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    writer = LogWriter(tmp_path_factory.mktemp("log"), NAME)
    writer.append_records(b"before")
    with writer.records_file.open("ab") as file:
        file.write(data)
    assert writer.view().log_end_offset == 1


@pytest.mark.conformance("KafkaMetadataLogTest.testReadMissingSnapshot")
def test_read_missing_snapshot(tmp_path: Path) -> None:
    view = LogWriter(tmp_path, NAME).view()
    assert view.kraft_snapshots == ()
    with pytest.raises(FileNotFoundError):
        view.read_side_file(kraft_checkpoint_name(10, 0))


@pytest.mark.conformance("KafkaMetadataLogTest.testStartupWithInvalidSnapshotState")
def test_startup_with_invalid_snapshot_state(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=100)
    assert kinds(writer.view()) == {"kraft_snapshot"}
    snapshot(writer, 50, 1)
    assert kinds(writer.view()) == {"kraft_snapshot"}
    snapshot(writer, 100, 1)
    assert kinds(writer.view()) == set()
    writer.records_file.unlink()
    writer.roll(200, index_interval=None)
    snapshot(writer, 500, 1)
    view = writer.view()
    assert kinds(view) == set()
    assert (view.log_start_offset, view.log_end_offset) == (500, 500)


@pytest.mark.conformance("KafkaMetadataLogTest.testSnapshotDeletionWithInvalidSnapshotState")
def test_snapshot_deletion_with_invalid_snapshot_state(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=100)
    name = snapshot(writer, 100, 1, ".deleted")
    view = writer.view()
    assert kinds(view) == {"kraft_snapshot"}
    assert [leftover.name for leftover in view.leftovers] == [name]
    assert (writer.folder / name).exists()


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupPartialSnapshots")
def test_cleanup_partial_snapshots(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    for _ in range(10):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 1, 1)
    partial = {
        f"{offset:020}-{epoch:010}-{offset}xyz.checkpoint.part"
        for offset, epoch in ((0, 0), (1, 1), (2, 2))
    }
    for name in partial:
        (writer.folder / name).touch()
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(1, 1),)
    assert (view.log_start_offset, view.log_end_offset, view.high_watermark) == (0, 10, 0)
    assert view.leader_epochs.latest is not None
    assert view.leader_epochs.latest.epoch == 1
    assert {leftover.name for leftover in view.leftovers} == partial


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupOlderSnapshots")
def test_cleanup_older_snapshots(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    older = [snapshot(writer, *each) for each in ((1, 0), (2, 1), (10, 1))]
    writer.append_records(b"foo", leader_epoch=0)
    for _ in range(19):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 30, 1)
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(30, 1),)
    assert (view.log_start_offset, view.log_end_offset) == (30, 30)
    assert [leftover.name for leftover in view.leftovers] == older
