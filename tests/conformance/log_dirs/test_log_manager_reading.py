"""What Kafka's LogManagerTest asks of reading log dirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.errors import InvalidNameError
from engine.files.file_names import (
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE_FOLDER,
    parse_folder_name,
)
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot


def meta_properties(folder: Path, directory_id: str | None = None) -> None:
    text = "version=1\ncluster.id=IVT1Seu3QjacxS7oBTKhDQ\nnode.id=1\n"
    if directory_id is not None:
        text += f"directory.id={directory_id}\n"
    (folder / "meta.properties").write_text(text)


def recovery_points(root: SourceRoot) -> dict[tuple[str, int], int]:
    return parse_offset_checkpoint(root.read(RECOVERY_POINT_CHECKPOINT, limit=10_000))


@pytest.mark.conformance("LogManagerTest.testGetNonExistentLog")
def test_get_non_existent_log(tmp_path: Path) -> None:
    with SourceRoot(str(tmp_path)) as root:
        for call in (root.list, root.stat, root.open):
            with pytest.raises(FileNotFoundError):
                call("kafka-0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance("LogManagerTest.testLoadLogsSkipRemoteIndexCache")
def test_load_logs_skip_remote_index_cache(tmp_path: Path) -> None:
    (tmp_path / REMOTE_INDEX_CACHE_FOLDER).mkdir()
    with SourceRoot(str(tmp_path)) as root:
        (entry,) = root.list()
    assert entry.kind is EntryKind.DIRECTORY
    with pytest.raises(InvalidNameError):
        parse_folder_name(entry.name)


@pytest.mark.conformance("LogManagerTest.testRecoveryDirectoryMappingWithTrailingSlash")
def test_recovery_directory_mapping_with_trailing_slash(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\ntest-a 1 50\n")
    with SourceRoot(f"{tmp_path}/") as slashed, SourceRoot(str(tmp_path)) as plain:
        assert slashed.path == plain.path
        assert slashed.stat().st_ino == plain.stat().st_ino
        assert recovery_points(slashed) == {("test-a", 1): 50}


@pytest.mark.conformance("LogManagerTest.testRecoveryDirectoryMappingWithRelativeDirectory")
def test_recovery_directory_mapping_with_relative_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data" / "kafka-logs"
    folder.mkdir(parents=True)
    (folder / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\ntest-a 1 50\n")
    monkeypatch.chdir(tmp_path)
    with SourceRoot("data/kafka-logs") as root:
        monkeypatch.chdir("/")  # the folder was resolved once
        assert root.stat().st_ino == folder.stat().st_ino
        assert recovery_points(root) == {("test-a", 1): 50}


@pytest.mark.conformance("LogManagerTest.testLoadDirectoryIds")
def test_load_directory_ids(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        folder.mkdir()
    meta_properties(folders[0])
    meta_properties(folders[1], "ZwkGXjB0TvSF6mjVh6gO7Q")
    meta_properties(folders[3], "kQfNPJ2FTHq_6Qlyyv6Jqg")
    meta_properties(folders[4])
    ensemble = MetaPropertiesEnsemble.load({str(each): SourceRoot(str(each)) for each in folders})
    ids = {name: each.directory_id for name, each in ensemble.properties.items()}
    assert ids.get(str(folders[0])) is None
    assert ids.get(str(folders[1])) == "ZwkGXjB0TvSF6mjVh6gO7Q"
    assert ensemble.empty_log_dirs == {str(folders[2])}
    assert ids.get(str(folders[3])) == "kQfNPJ2FTHq_6Qlyyv6Jqg"
    assert len({each for each in ids.values() if each is not None}) == 2
