"""What a reader takes from the snapshots of a metadata log: its start, what is missing, what is left over."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.file_names import kraft_checkpoint_name
from engine.log.folder_listing import KRaftSnapshot
from engine.log.view.log_view import LogView
from tests.engine.log.folders import LogWriter

NAME = "__cluster_metadata-0"


def kinds(view: LogView) -> set[str]:
    return {problem["kind"] for problem in view.problems}


def snapshot(writer: LogWriter, end_offset: int, epoch: int, suffix: str = "") -> str:
    name = kraft_checkpoint_name(end_offset, epoch) + suffix
    (writer.folder / name).touch()
    return name


def test_a_log_without_snapshots_has_none(tmp_path: Path) -> None:
    view = LogWriter(tmp_path, NAME).view()
    assert view.kraft_snapshots == ()
    with pytest.raises(FileNotFoundError):
        view.read_side_file(kraft_checkpoint_name(10, 0))


def test_a_log_that_starts_above_zero_without_a_snapshot_is_noted(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=100)
    deleted = snapshot(writer, 100, 1, ".deleted")
    view = writer.view()
    assert kinds(view) == {"kraft_snapshot"}
    assert [leftover.name for leftover in view.leftovers] == [deleted]
    snapshot(writer, 50, 1)
    assert kinds(writer.view()) == {"kraft_snapshot"}
    snapshot(writer, 100, 1)
    assert kinds(writer.view()) == set()


def test_a_snapshot_above_the_log_moves_its_start(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=200)
    snapshot(writer, 500, 1)
    view = writer.view()
    assert kinds(view) == set()
    assert (view.log_start_offset, view.log_end_offset) == (500, 500)


def test_an_unfinished_snapshot_is_left_over(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    for _ in range(10):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 1, 1)
    partial = f"{2:020}-{2:010}-25xyz.checkpoint.part"
    (writer.folder / partial).touch()
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(1, 1),)
    assert (view.log_start_offset, view.log_end_offset, view.high_watermark) == (0, 10, 0)
    assert [leftover.name for leftover in view.leftovers] == [partial]


def test_older_snapshots_are_left_over(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    older = [snapshot(writer, *each) for each in ((1, 0), (2, 1), (10, 1))]
    for _ in range(20):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 30, 1)
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(30, 1),)
    assert (view.log_start_offset, view.log_end_offset) == (30, 30)
    assert [leftover.name for leftover in view.leftovers] == older
