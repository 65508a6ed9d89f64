"""Which snapshots of producers stay in a log's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.disk.disk import WritableFile
from engine.state.producer_snapshot import ENTRY
from engine.state.producer_state_entry import ProducerStateEntry
from engine.writing.state.snapshot_file import (
    SnapshotFile,
    SnapshotFiles,
    list_snapshot_files,
    read_snapshot,
    write_snapshot,
)


def snapshots(folder: Path, *offsets: int) -> SnapshotFiles:
    for offset in offsets:
        (folder / f"{offset:020d}.snapshot").touch()
    return SnapshotFiles(list_snapshot_files(folder))


@pytest.mark.parametrize(
    ("offsets", "segments", "left"),
    [
        ([1, 2, 30], [10], [30]),
        ([1, 2, 9], [10], []),
        ([1, 2, 9], [], [9]),
        ([10, 30], [10], [10, 30]),
        ([10, 30], [10, 40], [10]),
        ([], [10], []),
    ],
)
def test_a_stray_snapshot_stays_only_if_it_is_the_newest_of_all(
    tmp_path: Path, offsets: list[int], segments: list[int], left: list[int]
) -> None:
    known = snapshots(tmp_path, *offsets)
    known.delete_strays(segments)
    assert [*known] == left
    assert [each.offset for each in list_snapshot_files(tmp_path)] == left
    assert (known.oldest, known.latest) == ((left[0], left[-1]) if left else (None, None))


def test_a_snapshot_that_is_gone_is_deleted_without_an_error(tmp_path: Path) -> None:
    known = snapshots(tmp_path, 5)
    file = known[5]
    assert file.delete_if_exists()
    assert not file.delete_if_exists()
    known.delete(5)
    known.delete(6)
    assert not known


def test_paths_follow_the_folder(tmp_path: Path) -> None:
    known = snapshots(tmp_path, 5, 6)
    known.update_parent_dir(tmp_path / "moved")
    assert [each.path for each in known.values()] == [
        tmp_path / "moved" / f"{offset:020d}.snapshot" for offset in (5, 6)
    ]
    alone = SnapshotFile(tmp_path / "5.snapshot", 5)
    alone.update_parent_dir("elsewhere")
    assert alone.path == Path("elsewhere", "5.snapshot")


def test_only_snapshots_in_use_are_listed(tmp_path: Path) -> None:
    names = [
        "00000000000000000001.log",
        "00000000000000000003.snapshot.deleted",
        "leader-epoch-checkpoint",
    ]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "00000000000000000004.snapshot").mkdir()
    assert [*snapshots(tmp_path, 7, 2)] == [2, 7]
    assert list_snapshot_files(tmp_path / "none") == []


@pytest.mark.parametrize("sync", [True, False])
def test_a_snapshot_replaces_a_longer_one_and_is_synced_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    synced = []
    monkeypatch.setattr(WritableFile, "sync", lambda file: synced.append(file.path))
    path = tmp_path / "5.snapshot"
    path.write_bytes(b"x" * 1000)
    producers = [ProducerStateEntry(7, 1)]
    write_snapshot(path, producers, sync=sync)
    assert read_snapshot(path) == producers
    assert path.stat().st_size == 10 + ENTRY.size
    assert synced == ([str(path)] if sync else [])
