"""No file beside the records keeps a broker from starting on a rebuilt log dir: it is whole, made anew or left out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import planned_start, rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from tests import builders, fixtures_data
from tests.builders import Rec
from tests.fixtures_data import copy_of

DATA = fixtures_data.DATA / "current" / "data"
PARTITIONS = ("__cluster_metadata-0", "orders-0", "txn-0")
SNAPSHOT = f"__cluster_metadata-0/{9:020}-{1:010}.checkpoint"
CUT_FILES = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "garbage": lambda data: bytes(range(7, 7 + min(len(data), 200))),
    "cut": lambda data: data[: len(data) // 2],
}
LEFT_OUT = {
    "meta.properties",
    "bootstrap.checkpoint",
    "__cluster_metadata-0/quorum-state",
    SNAPSHOT,
}
MADE_ANEW = {
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
}
OF_PARTITIONS = {
    "orders-0/partition.metadata",
    "__cluster_metadata-0/partition.metadata",
    "orders-0/leader-epoch-checkpoint",
    "txn-0/SNAPSHOT",
}
ALL = sorted(LEFT_OUT | MADE_ANEW | OF_PARTITIONS)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = copy_of("current", tmp_path, list(PARTITIONS)).rename(tmp_path / "source")
    shutil.copy(made / "bootstrap.checkpoint", made / SNAPSHOT)
    (made / "__cluster_metadata-0" / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    return made


def named(source: Path, name: str) -> Path:
    if name.endswith("SNAPSHOT"):
        return max((source / "txn-0").glob("*.snapshot"))
    return source / name


def reasons(result: Rebuilt) -> dict[str, str]:
    return {each.path: each.reason for each in (*result.left_out, *result.made_anew)}


def test_whole_files_are_copied(source: Path, tmp_path: Path) -> None:
    result = rebuild(str(source), str(tmp_path / "target"))
    for name in LEFT_OUT:
        assert (tmp_path / "target" / name).read_bytes() == (source / name).read_bytes()
    assert (result.left_out, result.made_anew, result.no_start) == ([], [], None)


@pytest.mark.parametrize("how", CUT_FILES)
@pytest.mark.parametrize("name", ALL)
def test_a_damaged_side_file_stops_no_broker(
    source: Path, tmp_path: Path, name: str, how: str
) -> None:
    path, target = named(source, name), tmp_path / "target"
    path.write_bytes(CUT_FILES[how](path.read_bytes()))
    result = rebuild(str(source), str(target), RebuildOptions(jobs=1))
    assert len(result.partitions) == len(PARTITIONS)
    told = reasons(result)
    if name in LEFT_OUT:
        assert not (target / name).exists()
        assert str(path) in told
        assert str(path) in {each["path"] for each in result.manifest["leftOut"]}
    elif name in MADE_ANEW:
        assert str(path) in {each["path"] for each in result.manifest["madeAnew"]}
    elif name.endswith("partition.metadata"):
        made = parse_partition_metadata((target / name).read_bytes())
        assert made == parse_partition_metadata((DATA / name).read_bytes())
        [notes] = [
            each["notes"] for each in result.partitions if each["partition"] == path.parent.name
        ]
        assert any("partition.metadata cannot be read: it is made anew" in each for each in notes)
    if name != "meta.properties":
        assert result.no_start is None
        assert planned_start(str(target)).why_not is None
    assert not result.lost_something


def test_a_snapshot_that_the_log_needs_is_a_loss(source: Path, tmp_path: Path) -> None:
    folder = source / "__cluster_metadata-0"
    for path in [*folder.glob("*.log"), *folder.glob("*.*index"), *folder.glob("*.snapshot")]:
        path.unlink()
    batch = builders.batch([Rec(b"\x01\x14\x00\x00")], 9, leader_epoch=1)  # NoOpRecord
    (folder / f"{9:020}.log").write_bytes(batch)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    whole = tmp_path / "whole"
    shutil.copytree(source, whole)
    (source / SNAPSHOT).write_bytes(bytes(500))
    result = rebuild(str(source), str(tmp_path / "target"))
    assert result.lost_something
    assert "--merge takes the snapshot" in reasons(result)[str(source / SNAPSHOT)]
    assert result.no_start is not None
    merged = rebuild(str(source), str(tmp_path / "merged"), merge=[str(whole)])
    assert merged.no_start is None
    assert not merged.lost_something
    assert (tmp_path / "merged" / SNAPSHOT).read_bytes() == (whole / SNAPSHOT).read_bytes()


def test_a_directory_that_a_broker_refuses_is_told(source: Path, tmp_path: Path) -> None:
    path = source / "meta.properties"
    lines = [each for each in path.read_text().splitlines() if not each.startswith("directory.id")]
    path.write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAAABA\n"]))
    result = rebuild(str(source), str(tmp_path / "target"))
    assert result.no_start is not None
    assert "directory.id is reserved" in result.no_start
    assert result.manifest["noStart"] == result.no_start


def test_logs_that_the_metadata_does_not_assign_are_told(source: Path, tmp_path: Path) -> None:
    whole = rebuild(str(source), str(tmp_path / "whole"))
    assert (whole.no_start, whole.strays, whole.manifest["strays"]) == (None, (), [])
    path = source / "meta.properties"
    text = path.read_text()
    path.write_text(re.sub("node.id=.*", "node.id=77", text))
    result = rebuild(str(source), str(tmp_path / "target"))
    assert set(result.strays) == set(PARTITIONS) - {"__cluster_metadata-0"}
    assert result.manifest["strays"] == list(result.strays)
