"""The bytes of a source are those that du counts."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from engine.files.file_names import FolderState
from engine.log.log_directory import open_source
from engine.usage.disk_usage import BytesOnDisk
from engine.usage.file_kinds import UsageKind, usage_kind
from engine.usage.source_usage import source_usage
from tests.fixtures_data import DATA, log_dir
from tests.measured_du import du
from tests.tiered_folders import TieredWriter

LOG_DIRS = [*sorted(path.parent for path in DATA.glob("*/data/*-0/")), log_dir("sample")]
RECORDS = (log_dir("sample") / "orders-0" / "00000000000000000000.log").read_bytes()


def counted(*paths: Path) -> BytesOnDisk:
    source = open_source([str(path) for path in paths])
    try:
        return BytesOnDisk(source)
    finally:
        source.close()


def sums(*paths: Path) -> tuple[int, int]:
    total = counted(*paths).total
    return total.allocated, total.apparent


@pytest.mark.parametrize("path", sorted(set(LOG_DIRS)), ids=lambda path: path.parent.name)
def test_a_log_dir_takes_what_du_says(path: Path) -> None:
    assert sums(path) == du(path)


def test_several_log_dirs_take_what_du_says_of_all() -> None:
    paths = log_dir("sample"), log_dir("current")
    assert sums(*paths) == du(*paths)


def test_a_partition_and_a_file_take_what_du_says() -> None:
    folder = log_dir("current") / "compacted-0"
    assert sums(folder) == du(folder)
    file = next(folder.glob("*.log"))
    assert sums(file) == du(file)


@pytest.mark.parametrize("seed", range(8))
def test_a_log_dir_with_links_holes_and_folders_takes_what_du_says(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    made = made_log_dir(tmp_path / "d", rng)
    assert sums(made) == du(made)
    assert not counted(made).unread


def made_log_dir(home: Path, rng: random.Random) -> Path:
    """A log dir with files of all kinds, hard links, sparse and empty files, symbolic links and folders in folders."""
    home.mkdir()
    (home / "meta.properties").write_text("version=1\n")
    folders = [home / name for name in ("a-0", "a-1", "a-0.x-delete", "b-0.y-stray", "junk")]
    folders += [home / "a-0" / "inner" / "more", home / "remote-log-index-cache"]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    (home / "a-0" / "00000000000000000000.log").write_bytes(RECORDS)
    files = [home / "a-0" / "00000000000000000000.log"]
    endings = [".log", ".index", ".timeindex.deleted", ".log.cleaned", ".snapshot", ".bin", ".log.swap"]  # fmt: skip
    for number in range(40):
        path = rng.choice(folders) / f"{number + 1:020}{rng.choice(endings)}"
        kind = rng.randrange(5)
        if kind == 0:
            os.link(rng.choice(files), path)
        elif kind == 1:
            path.symlink_to("nowhere" * rng.randrange(1, 30))
            continue
        else:
            path.write_bytes(rng.randbytes(rng.randrange(20_000)))
            if kind == 2:
                os.truncate(path, rng.randrange(1, 10_000_000))
        files.append(path)
    return home


def test_each_kind_of_folder_and_file_is_counted_apart(tmp_path: Path) -> None:
    home = made_log_dir(tmp_path / "d", random.Random(1))
    found = {each.name: each for each in counted(home).folders}
    assert found["a-0"].partition is not None
    assert found["b-0.y-stray"].state is FolderState.STRAY
    assert found["a-0.x-delete"].state is FolderState.DELETE
    assert found["junk"].partition is None
    assert set(found["remote-log-index-cache"].kinds) <= {
        UsageKind.TIERED_CACHE,
        UsageKind.FOLDERS,
    }
    assert found["a-0"].kinds[UsageKind.FOLDERS].apparent == sum(
        path.stat().st_size for path in [home / "a-0", *(home / "a-0").rglob("*")] if path.is_dir()
    )


@pytest.mark.parametrize(
    ("folder", "name", "kind"),
    [
        ("orders-0", "00000000000000000000.log", UsageKind.LOG),
        ("orders-0", "00000000000000000000.timeindex", UsageKind.INDEXES),
        ("orders-0", "00000000000000000000.txnindex", UsageKind.INDEXES),
        ("orders-0", "00000000000000000007.snapshot", UsageKind.SIDE_FILES),
        ("orders-0", "leader-epoch-checkpoint", UsageKind.SIDE_FILES),
        ("orders-0", "partition.metadata", UsageKind.SIDE_FILES),
        ("orders-0", "00000000000000000000.log.deleted", UsageKind.DELETED),
        ("orders-0", "00000000000000000007.snapshot.deleted", UsageKind.DELETED),
        ("orders-0", "00000000000000000000.log.swap", UsageKind.SWAP),
        ("orders-0", "00000000000000000000.index.cleaned", UsageKind.CLEANED),
        ("", "recovery-point-offset-checkpoint", UsageKind.LOG_DIR_FILES),
        ("", ".lock", UsageKind.LOG_DIR_FILES),
        (
            "__cluster_metadata-0",
            "00000000000000000100-0000000003.checkpoint",
            UsageKind.METADATA_SNAPSHOTS,
        ),
        ("__cluster_metadata-0", "quorum-state", UsageKind.LOG_DIR_FILES),
        ("remote-log-index-cache", "1_abc.index", UsageKind.TIERED_CACHE),
        ("orders-0", "notes.txt", UsageKind.OTHER),
    ],
)
def test_a_file_is_counted_as_what_it_is_for(folder: str, name: str, kind: UsageKind) -> None:
    assert usage_kind(folder, name) is kind


def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = made_log_dir(tmp_path / "d", random.Random(2))
    deep = home / "a-0" / ("x" * 200)
    for _ in range(25):  # a path that is longer than Linux takes
        deep.mkdir()
        monkeypatch.chdir(deep)
        deep = Path("y" * 200)
    monkeypatch.chdir(tmp_path)
    assert counted(home).unread


def test_a_copy_of_tiered_storage_takes_what_du_says_and_is_not_predicted(tmp_path: Path) -> None:
    copies = tmp_path / "remote"
    TieredWriter(copies, "orders-0").copy_all(log_dir("sample") / "orders-0")
    assert sums(copies) == du(copies)
    source = open_source([str(copies)])
    found = source_usage(source, 2 * 10**12, {})
    source.close()
    assert found.predictions == []
    assert {str(each.partition) for each in found.folders if each.partition} == {"orders-0"}
    assert found.usage.folders[-1].kinds[UsageKind.LOG].files
