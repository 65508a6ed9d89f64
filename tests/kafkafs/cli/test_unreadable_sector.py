"""Commands on a log dir with one sector that the disk cannot read; the disk fails below the compiled kernel."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures_data import copy_of
from tests.unreadable import FailingDisk

LOG = "orders-0/00000000000000000395.log"
LINES = "orders-0/records/00000000000000000395.jsonl"
BAD = (28_672, 32_768)
BATCHES = (28_659, 34_542)
"""The batches that touch the sector, with these offsets."""
LOST = range(568, 605)
REASON = "4096 bytes at byte 28672 cannot be read (Input/output error)"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain = ["orders-0", "txn-0"]
    internal = ["__consumer_offsets-0", "__cluster_metadata-0", "__transaction_state-0"]
    return copy_of("current", tmp_path_factory.mktemp("sector"), plain + internal)


@pytest.fixture
def disk(source: Path, tmp_path: Path) -> FailingDisk:
    return FailingDisk(tmp_path, {source / LOG: [BAD]})


@pytest.fixture
def run(disk: FailingDisk) -> Run:
    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kafkafs", *map(str, arguments)],
            env=disk.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return command


def test_cat_gives_all_records_but_those_of_the_batches_in_the_sector(
    run: Run, source: Path
) -> None:
    result = run("cat", source, LINES)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    (error,) = [line["error"] for line in lines if "error" in line]
    assert [line["offset"] for line in lines if "offset" in line] == [
        offset for offset in range(395, 790) if offset not in LOST
    ]
    assert error == {
        "file": LOG,
        "position": BATCHES[0],
        "length": BATCHES[1] - BATCHES[0],
        "reason": REASON,
        "kind": "unreadable",
        "expected": None,
        "found": None,
        "firstOffset": LOST[0],
        "lastOffset": LOST[-1],
        "unreadable": [{"position": BAD[0], "length": BAD[1] - BAD[0]}],
        "unprovenOffsets": [],
    }
    assert result.returncode == 3


@pytest.mark.parametrize("offset", [LOST[0], LOST[-1]])
def test_a_lost_record_is_an_error_that_names_the_sector(
    run: Run, source: Path, offset: int
) -> None:
    result = run("cat", source, f"orders-0/offset/{offset}")
    assert (result.returncode, result.stdout) == (3, "")
    assert REASON in result.stderr
    assert LOG in result.stderr


@pytest.mark.parametrize("offset", [LOST[0] - 1, LOST[-1] + 1])
def test_its_neighbours_are_served(run: Run, source: Path, offset: int) -> None:
    result = run("cat", source, f"orders-0/offset/{offset}")
    assert result.returncode == 0
    assert json.loads(result.stdout)["offset"] == offset


def test_a_range_across_the_sector_goes_on_behind_it(run: Run, source: Path) -> None:
    result = run("cat", source, "orders-0/offset/0..")
    offsets = [json.loads(line).get("offset") for line in result.stdout.splitlines()]
    assert [each for each in offsets if each is not None] == [
        offset for offset in range(1000) if offset not in LOST
    ]
    assert offsets.count(None) == 1


def test_the_end_of_a_log_that_is_lost_whole_is_told(
    run: Run, source: Path, disk: FailingDisk
) -> None:
    last = source / "orders-0" / "00000000000000000790.log"
    disk.set({last: [(0, 1 << 30)]})
    lines = [
        json.loads(line) for line in run("cat", source, "orders-0/offset/0..").stdout.splitlines()
    ]
    assert [line["offset"] for line in lines[:-1]] == list(range(790))
    error = lines[-1]["error"]
    assert (error["kind"], error["firstOffset"], error["lastOffset"]) == ("unreadable", 790, None)
    assert (error["position"], error["length"]) == (0, last.stat().st_size)
    for offset in (790, 999):  # nothing tells that they are not there
        result = run("cat", source, f"orders-0/offset/{offset}")
        assert (result.stdout, result.returncode) == ("", 3)
        assert "cannot be read (Input/output error)" in result.stderr
    result = run("grep", "-c", "id", source, "orders-0")
    assert (result.stdout, result.returncode) == ("790\n", 3)
    assert "cannot be read (Input/output error)" in result.stderr


def test_a_log_that_is_lost_whole_is_not_taken_for_an_empty_one(
    run: Run, source: Path, disk: FailingDisk
) -> None:
    disk.set({source / "__consumer_offsets-0" / f"{0:020}.log": [(0, 1 << 30)]})
    result = run("groups", source)
    assert result.returncode == 3
    assert "bytes at byte 0 cannot be read (Input/output error)" in result.stderr


def test_cat_of_the_file_gives_the_bytes_before_the_sector(source: Path, disk: FailingDisk) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kafkafs", "cat", source, f"orders-0/segments/{Path(LOG).name}"],
        env=disk.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 3
    assert result.stdout == (source / LOG).read_bytes()[: BAD[0]]
    assert f"{source}/{LOG}: {REASON}" in result.stderr.decode()


def test_cp_copies_the_file_with_a_hole_and_says_so(run: Run, source: Path, tmp_path: Path) -> None:
    result = run("cp", "-q", source, "orders-0/segments", tmp_path / "copy")
    data = (source / LOG).read_bytes()
    hole = bytes(BAD[1] - BAD[0])
    copied = (tmp_path / "copy" / Path(LOG).name).read_bytes()
    assert copied == data[: BAD[0]] + hole + data[BAD[1] :]
    assert result.returncode == 3
    assert f"{source}/{LOG}: {REASON}" in result.stderr
    assert "; the copy has zeros there" in result.stderr
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names == {path.name for path in (source / "orders-0").iterdir()}


def test_cp_leaves_out_a_file_of_which_nothing_can_be_read(
    run: Run, source: Path, disk: FailingDisk, tmp_path: Path
) -> None:
    disk.set({source / LOG: [(0, 1 << 30)]})
    result = run("cp", "-q", source, "orders-0/segments", tmp_path / "copy")
    assert result.returncode == 3
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names == {path.name for path in (source / "orders-0").iterdir()} - {Path(LOG).name}


def test_grep_goes_on_behind_the_sector_and_says_what_was_not_searched(
    run: Run, source: Path
) -> None:
    result = run("grep", "-c", "id", source, "orders-0")
    assert result.stdout == f"{1000 - len(LOST)}\n"
    assert f"{LOG}: byte {BATCHES[0]}: {REASON}" in result.stderr
    assert result.returncode == 3


def test_dump_goes_on_behind_the_sector_and_counts_a_finding(run: Run, source: Path) -> None:
    result = run("dump", source / LOG)
    assert result.returncode == 1
    assert "baseOffset: 605 " in result.stdout
    assert REASON in result.stderr
    result = run("dump", "--json", source / LOG)
    assert result.returncode == 1
    (error,) = [json.loads(line)["error"] for line in result.stdout.splitlines() if REASON in line]
    assert (error["kind"], error["position"]) == ("unreadable", BATCHES[0])


def test_check_has_the_hole_and_says_why(run: Run, source: Path) -> None:
    result = run("check", "--json", "-j", "2", source)
    assert result.returncode == 3
    assert REASON in result.stdout


@pytest.mark.parametrize("command", ["offsets", "groups", "transactions", "topics"])
@pytest.mark.parametrize(
    "name", ["__consumer_offsets-0", "txn-0", "__cluster_metadata-0", "orders-0"]
)
def test_a_command_over_all_partitions_does_not_stop(
    run: Run, source: Path, disk: FailingDisk, command: str, name: str
) -> None:
    logs = sorted((source / name).glob("*.log"))
    disk.set({logs[-1]: [(0, 4096)]})
    result = run(command, source)
    assert "Traceback" not in result.stderr
    assert result.returncode in (0, 3)
    assert result.stdout or result.stderr


def test_a_disk_that_reads_nothing_costs_each_file_few_reads(
    run: Run, source: Path, disk: FailingDisk
) -> None:
    files = [path for path in source.rglob("*") if path.is_file()]
    disk.set({path: [(0, 1 << 30)] for path in files})
    result = run("cat", source, "orders-0/offset/0..")
    assert "Traceback" not in result.stderr
    assert disk.failed_reads < 20 * len(files)


@pytest.mark.parametrize(
    ("name", "then"),
    [
        ("cleaner-offset-checkpoint", "takes the log dir offline"),
        ("__cluster_metadata-0/quorum-state", "does not start"),
    ],
)
def test_a_plan_and_a_report_name_a_side_file_and_what_a_broker_does_with_the_same_error(
    run: Run, disk: FailingDisk, source: Path, tmp_path: Path, name: str, then: str
) -> None:
    disk.set({source / name: [(0, 4096)]})
    for command in (["plan", source], ["report", source, "-o", tmp_path / "report.html"]):
        result = run(*command)
        assert result.returncode == 3
        assert f"{source / name}: " in result.stdout
        assert f"a broker that gets this error too {then}" in result.stdout
