"""`kafkafs offsets` of logs whose records files end before the end that the files beside them prove."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import KINDS, copy_of, log_dir

GONE = (
    "kafkafs: orders-0: offsets 790 to 999 (210) are gone: the records files end at offset 790, and the"
    " recovery point is 1000, the high watermark is 1000, the newest producer snapshot is of offset 1000,"
    " 00000000000000000790.timeindex has an entry for offset 999 but no records file\n"
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["offsets", *map(str, arguments)])


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """The last records file of orders-0 is gone."""
    source = copy_of("current", tmp_path, ["orders-0", "codec-gzip-0"])
    max((source / "orders-0").glob("*.log")).unlink()
    return source


@pytest.mark.parametrize("time", ["latest", "max-timestamp"])
def test_a_lost_last_records_file_is_told_beside_what_the_others_hold(
    short: Path, time: str
) -> None:
    held = {"latest": (900, 790), "max-timestamp": (899, 789)}[time]
    result = run(short, "--time", time)
    assert result.stdout == "codec-gzip:0:{}\norders:0:{}\n".format(*held)
    assert (result.stderr, result.exit_code) == (GONE, 1)


def test_json_has_the_proven_end_of_a_short_log_alone(short: Path) -> None:
    lines = [json.loads(line) for line in run(short, "--json").stdout.splitlines()]
    assert [(line["offset"], line.get("provenLogEndOffset")) for line in lines] == [
        (900, None),
        (790, 1000),
    ]


def test_a_time_behind_the_records_files_may_be_in_what_is_gone(short: Path) -> None:
    behind = run(short, "--time", "2023-11-14T23:00:00Z", "--topic", "orders")
    assert (behind.stdout, behind.stderr, behind.exit_code) == ("", GONE, 1)
    before = run(short, "--time", "2023-11-14T22:20:00Z", "--topic", "orders")
    assert (before.stdout, before.stderr, before.exit_code) == ("orders:0:134\n", "", 0)


def test_the_first_offset_is_not_touched_by_a_lost_end(short: Path) -> None:
    result = run(short, "--time", "earliest")
    assert (result.stderr, result.exit_code) == ("", 0)


def test_a_torn_last_batch_is_told(tmp_path: Path) -> None:
    source = copy_of("current", tmp_path, ["orders-0"])
    last = max((source / "orders-0").glob("*.log"))
    last.write_bytes(last.read_bytes().rstrip(b"\0")[:-1])
    result = run(source)
    held = int(result.stdout.rpartition(":")[2])
    assert held == 999
    assert "orders-0: offset 999 is gone: the records files end at offset 999, and" in result.stderr
    assert result.exit_code == 1


def test_a_partition_without_any_records_file_is_told(tmp_path: Path) -> None:
    source = copy_of("current", tmp_path, ["orders-0"])
    for path in (source / "orders-0").glob("*.log"):
        path.unlink()
    result = run(source)
    assert "offsets 0 to 999 (1000) are gone: there is no records file" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_dir_that_lost_nothing_has_no_such_line(kind: str) -> None:
    result = run(log_dir(kind))
    assert (result.stderr, result.exit_code) == ("", 0)
