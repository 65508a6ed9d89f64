"""Whatever the bytes and names are, a dump ends, says what it found and leaves nothing out unsaid."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests import fixtures_data
from tests.hurt_folders import Hurt
from tests.kafkafs.dump.dumped import dump

STEM = "00000000000000000000"
NAMES = (
    *(f"{STEM}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")),
    *(f"{STEM}-0000000000.checkpoint", "bootstrap.checkpoint", "leader-epoch-checkpoint"),
    *("partition.metadata", "meta.properties", "quorum-state", "replication-offset-checkpoint"),
    *(".kafka_cleanshutdown", "x.log", "-1.index", "99999999999999999999999.timeindex"),
)
OPTIONS = (
    ["--print-data-log"],
    ["--json"],
    ["--index-sanity-check"],
    ["--cluster-metadata-decoder"],
)


@given(st.sampled_from(NAMES), st.binary(max_size=300), st.sampled_from(OPTIONS))
def test_any_bytes_under_any_name_are_dumped(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes, options: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / name).write_bytes(data)
    found = dump(folder, *options)
    assert found.status in (0, 1)
    assert found.lines


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("options", OPTIONS, ids=["text", "json", "sanity", "decoder"])
def test_damaged_folders_are_dumped_to_their_end(
    seed: int, options: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(fixtures_data.log_dir("current") / "txn-0", folder)
    Hurt(seed, folder).hurt()
    found = dump(folder, *options)
    assert found.status in (0, 1, 3)
    last = max(path.name for path in folder.iterdir() if path.name.startswith("0"))
    assert last in found.out.decode("utf-8", "replace")


def test_a_log_of_noise_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(random.Random(1).randbytes(2 << 20))
    found = dump(path, "--print-data-log")
    assert found.lines[-1] == f"Found {2 << 20} invalid bytes at the end of {path.name}"
    assert found.status == 1
