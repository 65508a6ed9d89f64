"""`kafkafs recover`: the first line says it to everybody, and the exit status to scripts."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.log.log_directory import open_source
from kafkafs.cli import cli
from tests.builders import batch
from tests.engine.recover.dead_clusters import unpacked
from tests.replayed_bytes import metadata_record


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


def test_secrets_are_in_the_snapshot_alone_and_for_its_owner(
    dead: list[Path], tmp_path: Path
) -> None:
    secret = dict.fromkeys(("salt", "storedKey", "serverKey"), b"the-secret-of-alice")
    token = {"owner": "User:a", "requester": "User:a", "renewers": [], "tokenId": "of-a"}
    records = [
        metadata_record(
            "USER_SCRAM_CREDENTIAL_RECORD", name="alice", mechanism=1, iterations=4096, **secret
        ),
        metadata_record(
            "DELEGATION_TOKEN_RECORD",
            **token,
            issueTimestamp=1,
            maxTimestamp=2,
            expirationTimestamp=3,
        ),
    ]
    source = open_source(str(dead[0]))
    view = source.partitions()["__cluster_metadata-0"].view()
    end, epoch = view.log_end_offset, view.leader_epochs.latest
    source.close()
    assert epoch is not None
    [log] = (dead[0] / "__cluster_metadata-0").glob("*.log")
    with log.open("ab") as file:
        file.write(batch(records, end, leader_epoch=epoch.epoch))
    for log_dir in dead[1:]:
        shutil.copy(log, log_dir / "__cluster_metadata-0")
    target = tmp_path / "target"
    result = run("--verbose", *dead, target)
    assert result.exit_code == 1, result.output
    base64_of = base64.b64encode(secret["salt"])
    holding = {
        path
        for path in target.rglob("*")
        if path.is_file() and any(each in path.read_bytes() for each in (secret["salt"], base64_of))
    }
    assert {path.suffix for path in holding} == {".checkpoint"}
    assert len(holding) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert base64_of.decode() not in result.output
    assert "delegation.token.secret.key" in (target / "START.txt").read_text()
