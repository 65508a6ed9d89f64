"""`kafkafs recover`: the first line says it to everybody, and the exit status to scripts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.engine.recover.dead_clusters import unpacked


@pytest.fixture
def dead(tmp_path: Path) -> list[Path]:
    return unpacked(tmp_path / "dead")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["recover", *map(str, arguments)])


def test_a_plan_begins_with_one_sentence_and_has_a_row_for_each_partition(
    dead: list[Path],
) -> None:
    result = run("--plan", *dead)
    assert result.exit_code == 1, result.output
    first, header, *rows = result.stdout.splitlines()
    assert first == (
        "Nothing is known to be lost: 1,220 records in 5 partitions are recovered; no disk proves"
        " of 32 offsets that they were committed."
    )
    assert header.startswith("PARTITION ")
    assert [row.split()[0] for row in rows[:5]] == [
        "__consumer_offsets-0",
        "__transaction_state-0",
        "orders-0",
        "orders-1",
        "payments-0",
    ]


def test_nothing_in_doubt_is_status_0(dead: list[Path], tmp_path: Path) -> None:
    result = run("-t", "orders", *dead, tmp_path / "target")
    # Offsets of groups and ends of transactions are evidence: without their topics less is proven.
    assert result.exit_code == 1
    for log_dir in dead:
        (log_dir / "replication-offset-checkpoint").write_text("0\n2\norders 0 432\norders 1 288\n")
    result = run("-t", "orders", *dead, tmp_path / "other")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "Nothing is known to be lost: 720 records in 2 partitions are recovered.",
    )


def test_what_is_lost_is_said_first(dead: list[Path]) -> None:
    for log_dir in dead:
        shutil.rmtree(log_dir / "orders-1")
        (log_dir / "orders-0/00000000000000000000.log").write_bytes(b"")
    result = run("--plan", *dead)
    assert result.exit_code == 1
    assert result.stdout.startswith(
        "LOST: 720 offsets on no disk and 1 partition without any copy; "
    )


def test_json_has_the_whole_report(dead: list[Path], tmp_path: Path) -> None:
    result = run("--json", *dead, tmp_path / "target")
    report = json.loads(result.stdout)
    assert report["target"] == str(tmp_path / "target")
    assert report["totals"]["records"] == 1220
    assert [each["end"] for each in report["transactions"]] == ["ABORT"]


def test_a_target_is_needed_unless_it_is_a_plan() -> None:
    result = run("only-one")
    assert result.exit_code == 2
    assert "at least one SOURCE and a TARGET" in result.output


def test_a_node_whose_address_no_disk_states_is_refused(dead: list[Path], tmp_path: Path) -> None:
    for log_dir in dead:
        shutil.rmtree(log_dir / "__cluster_metadata-0")
    result = run("--plan", *dead)
    assert "this would be refused: no disk states the address of node 1" in result.stdout
    result = run(*dead, tmp_path / "target")
    assert (result.exit_code, "--nodes FILE" in result.output) == (2, True)


@pytest.mark.parametrize("name", ["", "00000000000000000000.log"])
def test_one_partition_is_refused_with_what_takes_it(dead: list[Path], name: str) -> None:
    result = run("--plan", dead[0] / "orders-0" / name)
    assert result.exit_code == 2
    assert "is one partition, no log dir" in str(result.exception or "") + result.stderr
    assert "kafkafs rebuild takes a partition" in str(result.exception or "") + result.stderr
