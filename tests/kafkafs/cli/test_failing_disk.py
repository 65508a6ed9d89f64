"""A disk that cannot read some sectors: every command goes on behind them, names them, and says what to do first."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.files.read_failures import IMAGE_FIRST
from kafkafs.cli import cli
from tests.fixtures_data import copy_of, truth_records
from tests.unreadable import SECTOR, sector, unreadable_bytes

ONLY = [
    *("orders-0", "codec-gzip-0", "open-txn-0", "txn-0", "__consumer_offsets-0"),
    *("__transaction_state-0", "__transaction_state-1"),
]
SEGMENT = "orders-0/00000000000000000395.log"
START = 8192
REASON = f"{SECTOR} bytes at byte {START} cannot be read (Input/output error)"
UNHARMED = "kafkafs: 1 place could not be read; nothing is missing because of it\n"
ADVICE = f"kafkafs: {IMAGE_FIRST}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_of("current", tmp_path, ONLY)


@pytest.fixture
def failing(source: Path) -> Iterator[Path]:
    """One sector of a middle segment of orders-0 cannot be read."""
    with unreadable_bytes({source / SEGMENT: [(START, START + SECTOR)]}):
        yield source


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def test_grep_names_the_place_and_searches_what_is_behind(failing: Path) -> None:
    result = run("grep", "--values", "none", "", failing, "orders-0")
    found = {json.loads(line)["offset"] for line in result.stdout.splitlines()}
    lost = {record.offset for record in truth_records("current", "orders-0")} - found
    assert 0 < len(lost) < 60
    assert max(found) == 999
    assert f"{SEGMENT}: byte " in result.stderr
    assert REASON in result.stderr
    assert ADVICE in result.stderr
    assert result.exit_code == 3


def test_rebuild_loses_the_batches_on_the_sector_and_lists_them(
    failing: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    planned = json.loads(run("rebuild", failing, "--dry-run", "--json").stdout)
    result = run("rebuild", failing, target, "-q")
    assert result.exit_code == 3
    assert REASON in result.stdout
    assert result.stderr.endswith(ADVICE)
    made = json.loads((target / "kafkafs-rebuild.json").read_text())
    (report,) = [each for each in made["partitions"] if each["partition"] == "orders-0"]
    (gap,) = report["losses"]
    assert 0 < gap["nextOffset"] - gap["firstOffset"] < 60
    assert report["logEndOffset"] == 1000
    dropped = [each for each in report["dropped"] if each["kind"] == "unreadable"]
    assert dropped[0]["file"] == str(failing / SEGMENT)
    assert dropped[0]["position"] <= START
    assert dropped[-1]["position"] + dropped[-1]["size"] >= START + SECTOR
    assert dropped[0]["firstOffset"] == gap["firstOffset"]
    assert dropped[-1]["lastOffset"] == gap["nextOffset"] - 1
    keys = ("partition", "losses", "dropped", "records", "kept")
    assert [[each[key] for key in keys] for each in planned["partitions"]] == [
        [each[key] for key in keys] for each in made["partitions"]
    ]
    assert made["unread"] == [{"path": str(failing / SEGMENT), "reason": REASON, "errno": "EIO"}]


def test_a_bad_first_block_of_the_last_segment_does_not_cost_the_partition(
    source: Path, tmp_path: Path
) -> None:
    last = max((source / "orders-0").glob("*.log"))
    with unreadable_bytes({last: [(0, SECTOR)]}):
        result = run("rebuild", source, tmp_path / "target", "--topic", "orders", "--json", "-q")
    (report,) = json.loads(result.stdout)["partitions"]
    assert report["records"] > 900
    assert report["logEndOffset"] == 1000


def test_another_copy_fills_the_hole(failing: Path, tmp_path: Path) -> None:
    other = copy_of("current", tmp_path / "other", ["orders-0"])
    result = run(
        *("rebuild", failing, tmp_path / "target", "--topic", "orders"),
        *("--merge", other, "--json", "-q"),
    )
    (report,) = json.loads(result.stdout)["partitions"]
    assert (report["records"], report["losses"]) == (1000, [])
    assert UNHARMED in result.stderr
    assert result.stderr.endswith(ADVICE)
    assert result.exit_code == 0


def test_a_sector_below_the_log_start_costs_nothing_that_was_asked_for(tmp_path: Path) -> None:
    partition = copy_of("current", tmp_path, ["trimmed-0"]) / "trimmed-0"
    with unreadable_bytes({min(partition.glob("*.log")): [(START, START + SECTOR)]}):
        result = run("rebuild", partition, tmp_path / "target", "-q")
    assert "; nothing is missing that was asked for; " in result.stdout
    assert UNHARMED in result.stderr
    assert "copies" not in result.stderr
    assert result.exit_code == 0


def test_an_end_that_cannot_be_read_and_that_nothing_states_is_told(tmp_path: Path) -> None:
    partition = copy_of("crashed", tmp_path, ["crash-0"]) / "crash-0"
    last = max(partition.glob("*.log"))
    start, end = sector(last.stat().st_size - 1)
    with unreadable_bytes({last: [(start, end)]}):
        result = run("rebuild", partition, tmp_path / "target", "-q")
    (report,) = json.loads((tmp_path / "target" / "kafkafs-rebuild.json").read_text())["partitions"]
    told = (
        "  the end of the log cannot be read: if the log had offset"
        f" {report['logEndOffset']} or higher ones, a broker assigns them again"
    )
    assert told in result.stdout
    assert result.exit_code == 3


def test_an_end_that_cannot_be_read_is_known_after_a_clean_stop(
    source: Path, tmp_path: Path
) -> None:
    last = max((source / "orders-0").glob("*.log"))
    with unreadable_bytes({last: [sector(last.stat().st_size - 1)]}):
        result = run("rebuild", source, tmp_path / "target", "--topic", "orders", "-q")
    assert "so that a broker does not assign them again" in result.stdout
    assert "the end of the log cannot be read" not in result.stdout


def test_rebuild_as_a_broker_leaves_out_what_a_broker_could_not_load(
    failing: Path, tmp_path: Path
) -> None:
    result = run("rebuild", failing, tmp_path / "target", "--mode", "broker", "-q")
    assert result.exit_code == 3
    assert f"{failing}/orders-0: it cannot be read: {failing / SEGMENT}: {REASON}" in result.stdout
    assert "whole" not in result.stdout.splitlines()[-1]
    assert (tmp_path / "target" / "codec-gzip-0").is_dir()
    assert not (tmp_path / "target" / "orders-0").exists()


def test_check_says_to_image_the_disk_before_all_findings_about_it(failing: Path) -> None:
    result = run("check", failing)
    lines = result.stdout.splitlines()
    place = next(at for at, line in enumerate(lines) if "error   unreadable: " in line)
    assert IMAGE_FIRST in lines[:place]
    assert lines.count(IMAGE_FIRST) == 1
    assert result.exit_code == 3


def test_check_says_so_in_json(failing: Path) -> None:
    rows = [json.loads(line) for line in run("check", failing, "--json").stdout.splitlines()]
    kinds = [(row["type"], row.get("rule")) for row in rows]
    assert kinds.index(("advice", None)) < kinds.index(("finding", "unreadable"))
    (advice,) = [row["advice"] for row in rows if row["type"] == "advice"]
    assert advice == IMAGE_FIRST


@pytest.mark.parametrize(
    ("arguments", "bad", "shown"),
    [
        (["groups"], "__consumer_offsets-0", ""),
        (["transactions"], "__transaction_state-0", "tx-0"),
        (["transactions", "--open"], "__transaction_state-0", "open-txn"),
        (["offsets"], "txn-0", "orders:0:1000\n"),
    ],
    ids=["groups", "transactions", "transactions --open", "offsets"],
)
def test_other_commands_go_on_behind_the_damage_and_say_so(
    source: Path, arguments: list[str], bad: str, shown: str
) -> None:
    path = max(path for path in (source / bad).glob("*.log") if path.stat().st_size)
    start, end = sector(path.stat().st_size - 1, 512)
    with unreadable_bytes({path: [(start, end)]}):
        result = run(arguments[0], source, *arguments[1:])
    assert result.exit_code == 3
    assert shown in result.stdout
    size = path.stat().st_size - start
    reason = f"{size} bytes at byte {start} cannot be read (Input/output error)"
    assert f"kafkafs: {path}: {reason}\n" in result.stderr
    assert result.stderr.endswith(ADVICE)


def test_whether_a_transaction_hangs_is_not_told_where_its_coordinator_cannot_be_read(
    source: Path,
) -> None:
    bad = {path: [(0, path.stat().st_size)] for path in source.glob("__transaction_state-*/*.log")}
    with unreadable_bytes(bad):
        result = run("transactions", source, "--open", "--json")
    (found,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert found["hangs"] is None
    assert found["reason"] == "not all of __transaction_state is in the source and can be read"


@pytest.mark.parametrize("name", ["cluster", "state"])
def test_an_unreadable_checkpoint_is_a_missing_one_and_said(source: Path, name: str) -> None:
    path = source / {"cluster": "meta.properties", "state": "log-start-offset-checkpoint"}[name]
    with unreadable_bytes({path: [(0, 512)]}):
        result = run("rebuild", source, "--dry-run", "--topic", "orders")
    assert "orders-0: offsets 0 to 1000, 1000 records" in result.stdout
    if name == "state":
        assert str(path) in result.stderr
        assert result.exit_code == 3


@pytest.mark.parametrize("how", ["--clean", "--unclean"])
def test_plan_says_what_it_could_not_read_and_tells_of_the_other_logs(
    source: Path, how: str
) -> None:
    last = max((source / "orders-0").glob("*.log"))
    start, end = sector(last.stat().st_size - 1)
    with unreadable_bytes({last: [(start, end)]}):
        result = run("plan", how, "--changed-files", source)
    assert result.exit_code == 3
    assert f"byte {start}" in result.stdout
    assert "codec-gzip-0: log start 0, log end 900\n" in result.stdout
    assert "every checksum is right" not in result.stdout
    assert ADVICE in result.stderr


def test_plan_says_what_a_broker_does_that_gets_the_same_error(source: Path) -> None:
    last = max((source / "orders-0").glob("*.log"))
    with unreadable_bytes({last: [(0, SECTOR)]}):
        result = run("plan", "--unclean", source)
    assert "a broker that gets this error too takes the log dir offline" in result.stdout
    assert "orders-0: the outcome is unknown: it cannot be read here: " in result.stdout
