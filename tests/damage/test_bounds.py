"""A cheap sample of `bounds_soak`: what commands take on sources that ask for too much."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine import kernel
from engine.budgets import MiB
from tests.damage.bounds_soak import PROGRAM, commands
from tests.damage.bounds_sources import SOURCES, make_source
from tests.damage.measured_run import measured_run
from tests.damage.mounted_run import mounted_run

pytestmark = pytest.mark.skipif(
    not kernel.is_compiled(), reason="the Python kernel takes minutes for so much text"
)
IDLE = 80 * MiB
"""An idle command, its imports and what it reads at a time."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bounds")


def arguments_of(command: str, source: Path, scratch: Path) -> list[str]:
    return dict(commands(source, scratch))[command]


@pytest.mark.parametrize("command", ["grep all", "dump json", "cat offset"])
def test_a_line_of_42_mb_is_never_whole_in_memory(made: Path, tmp_path: Path, command: str) -> None:
    source = make_source("huge-values-of-controls", made, 0.12)
    found = measured_run([*PROGRAM, *arguments_of(command, source, tmp_path)])
    assert found.status == 0, found.shown
    assert found.written > 42 * 10**6
    assert found.peak < IDLE + 30 * MiB


def test_a_header_of_20_mb_is_never_whole_as_text_in_memory(made: Path, tmp_path: Path) -> None:
    source = make_source("huge-headers", made, 1.0)
    found = measured_run([*PROGRAM, *arguments_of("dump json", source, tmp_path)])
    assert found.status == 0, found.shown
    assert found.written > 500 * MiB
    assert found.peak < IDLE + 60 * MiB


def test_a_batch_of_very_many_records_is_decoded_once(made: Path, tmp_path: Path) -> None:
    source = make_source("tiny-records", made, 0.1)
    found = measured_run([*PROGRAM, *arguments_of("cat records", source, tmp_path)])
    assert found.status == 0, found.shown
    assert found.written > 60 * MiB
    assert found.peak < IDLE + 100 * MiB


@pytest.mark.parametrize(
    ("command", "status"), [("check", 1), ("dump records", 0), ("rebuild --dry-run", 0)]
)
def test_a_command_has_one_large_batch_in_memory_at_a_time(
    made: Path, tmp_path: Path, command: str, status: int
) -> None:
    source = make_source("huge-batches", made, 0.3)
    found = measured_run([*PROGRAM, *arguments_of(command, source, tmp_path)])
    assert found.status == status, found.shown
    assert found.peak < IDLE + 75 * MiB + 40 * MiB


@pytest.mark.parametrize("arguments", [["ls", "-l", "t-0/offset"], ["cat", "t-0/offset/1.value"]])
def test_a_look_up_has_the_bytes_of_a_large_value_in_memory_once(
    made: Path, arguments: list[str]
) -> None:
    source = make_source("huge-plain-values", made, 0.3)
    command, *rest = arguments
    *flags, path = rest
    found = measured_run([*PROGRAM, command, *flags, str(source), path])
    assert found.status == 0, found.shown
    assert found.peak < IDLE + 75 * MiB


def test_the_producers_of_a_snapshot_are_looked_at_one_by_one(made: Path, tmp_path: Path) -> None:
    source = make_source("checkpoints-within-budget", made, 0.3)
    found = measured_run([*PROGRAM, *arguments_of("transactions --open", source, tmp_path)])
    assert found.status == 0, found.shown
    assert found.peak < IDLE + 100 * MiB


@pytest.mark.parametrize("command", ["dump", "dump json", "cat records"])
@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex", "snapshot", "log"])
def test_a_sparse_file_of_any_kind_is_passed_over(
    made: Path, tmp_path: Path, kind: str, command: str
) -> None:
    source = make_source(f"sparse-{kind}", made)
    found = measured_run([*PROGRAM, *arguments_of(command, source, tmp_path)], seconds=60)
    assert found.status in (0, 1), found.shown
    assert found.peak < IDLE + 30 * MiB


def test_a_mount_of_large_values_is_small_and_ends_at_once(made: Path, tmp_path: Path) -> None:
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no FUSE here")
    source = make_source("huge-values-of-bytes", made, 0.3)
    for step, found in mounted_run([sys.executable, "-m", "kafkafs"], source, tmp_path, 5.0):
        assert found.peak < 300 * MiB, step
        if step == "mount: unmount":
            assert found.status == 0


def test_each_kind_of_file_is_a_source() -> None:
    kinds = {name.removeprefix("sparse-") for name in SOURCES if name.startswith("sparse-")}
    assert {"log", "index", "timeindex", "txnindex", "snapshot", "partition.metadata"} <= kinds
