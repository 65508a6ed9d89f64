"""Checks of a part, of a sample, within a time, and after a stop: together they find what one check finds, and none of
them is fine about what it did not look at."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import copy_of

LOG = "00000000000000000000.log"
SIZES = (1, 2, 3, 5, 10)


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, arguments)])


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in check(*arguments, "--json").stdout.splitlines()]


def of_type(found: list[dict[str, Any]], kind: str) -> Counter[str]:
    """The objects of a type, each as often as it is there."""
    return Counter(json.dumps(each, sort_keys=True) for each in found if each["type"] == kind)


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 1
    file.write_bytes(data)


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir with 12 partitions, half of them damaged: in batches, in indexes, by lost segments."""
    data = copy_of("sample", tmp_path_factory.mktemp("hurt"))
    for number in range(2, 11):
        shutil.copytree(data / f"orders-{number % 2}", data / f"orders-{number}")
    for number in range(2, 11, 2):
        flip(data / f"orders-{number}" / LOG, 5000 + 1000 * number)
    flip(data / "orders-3" / LOG.replace(".log", ".index"), 9)
    (data / "orders-4" / "00000000000000000395.log").unlink()
    return data


@pytest.mark.parametrize("parts", SIZES)
def test_all_parts_together_find_what_one_check_finds(hurt: Path, parts: int) -> None:
    whole = objects(hurt)
    findings, partitions, sizes = set[str](), Counter[str](), []
    for part in range(1, parts + 1):
        found = objects(hurt, "--part", f"{part}/{parts}")
        findings |= set(of_type(found, "finding"))
        partitions += of_type(found, "partition")
        scope = found[-1]["scope"]
        assert (scope["part"], scope["parts"], scope["allPartitions"]) == (part, parts, 12)
        assert scope["chosenPartitions"] == found[-1]["partitions"]
        sizes.append(scope["chosenBytes"])
    assert findings == set(of_type(whole, "finding"))
    assert partitions == of_type(whole, "partition")
    largest = max(each["bytes"] for each in whole if each["type"] == "partition")
    assert max(sizes) - min(sizes) <= largest, "the parts are not alike"


def test_a_part_says_what_it_did_not_look_at(hurt: Path) -> None:
    for part in range(1, 6):
        lines = check(hurt, "--part", f"{part}/5").stdout.splitlines()
        (line,) = [each for each in lines if each.startswith(f"Part {part} of 5: ")]
        assert "of 12 partitions" in line
        assert line.endswith("partitions not looked at: nothing is known of them.")


def test_a_part_without_a_partition_says_so(hurt: Path) -> None:
    result = check(hurt / "orders-0", "--part", "2/2")
    assert result.exit_code == 0
    assert result.stdout.startswith("Nothing was checked")
    assert "0 of 1 partition" in result.stdout


def test_a_sample_is_chosen_by_its_seed(hurt: Path) -> None:
    found = objects(hurt, "--sample", "20%")
    seed = found[-1]["scope"]["seed"]
    again = objects(hurt, "--sample", "20%", "--seed", str(seed))
    assert again == found
    others = {json.dumps(objects(hurt, "--sample", "5%", "--seed", str(each))) for each in range(8)}
    assert len(others) > 1
    scope = found[-1]["scope"]
    assert 0.2 <= scope["chosenBytes"] / scope["allBytes"] < 0.4
    assert scope["chosenSegments"] == found[-1]["segments"] < scope["allSegments"]
    text = check(hurt, "--sample", "20%", "--seed", str(seed)).stdout
    assert f"Sample of 20% (--seed {seed}): " in text
    assert "segments not looked at: nothing is known of them" in text


def test_a_sample_of_everything_finds_all_damaged_batches(hurt: Path) -> None:
    def batches(found: list[dict[str, Any]]) -> set[tuple[str, int]]:
        wanted = [each for each in found if each.get("rule") == "batch-checksum"]
        return {(each["file"], each["position"]) for each in wanted}

    sample = objects(hurt, "--sample", "100%")
    assert batches(sample) == batches(objects(hurt)) != set()
    assert sample[-1]["scope"]["chosenSegments"] == sample[-1]["scope"]["allSegments"]


def test_a_sample_of_a_sound_log_dir_has_no_finding(tmp_path: Path) -> None:
    data = copy_of("sample", tmp_path)
    for each in data.glob("*checkpoint"):
        each.unlink()  # they name partitions that are not in the copy
    result = check(data, "--sample", "100%", "--severity", "warning")
    assert result.exit_code == 0, result.stdout
    assert "lost" not in result.stdout


def test_what_the_time_did_not_allow_is_status_3(tmp_path: Path) -> None:
    data = copy_of("sample", tmp_path)
    result = check(data / "orders-0", "--max-duration", "0s")
    assert result.exit_code == 3
    assert "1 partition not looked at, of which nothing is known" in result.stdout
    assert objects(data / "orders-0", "--max-duration", "0s")[-1]["partitionsNotLookedAt"] == 1
    assert check(data / "orders-0", "--max-duration", "1h").exit_code == 0


@pytest.fixture(scope="module")
def checked(hurt: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], bytes]:
    """What a check in two processes finds, and its file of progress."""
    kept = tmp_path_factory.mktemp("checked") / "progress"
    return objects(hurt, "--jobs", "2", "--resume", kept), kept.read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_a_check_that_was_stopped_anywhere_goes_on_and_reports_the_same(
    hurt: Path, checked: tuple[list[Any], bytes], tmp_path: Path, seed: int
) -> None:
    rng, kept = random.Random(seed), tmp_path / "progress"
    whole, written = checked
    cut = rng.randrange(len(written) - len(written.splitlines()[-1]))
    kept.write_bytes(written[:cut])
    if not cut or b"\n" not in written[:cut]:
        kept.unlink()
    result = check(hurt, "--json", "--resume", kept)
    again = [json.loads(line) for line in result.stdout.splitlines()]
    for kind in ("finding", "partition", "summary"):
        assert of_type(again, kind) == of_type(whole, kind), cut
    done = written[:cut].count(b'\n{"type": "partition"') - (not written[:cut].endswith(b"\n"))
    assert ("checked before" in result.stderr) == (done > 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_check_goes_on(hurt: Path, tmp_path: Path, number: signal.Signals) -> None:
    kept = tmp_path / "progress"
    slow = "import time, engine.check.log_dir_check as c; f = c.SourceCheck.partition\n"
    slow += "def g(*a, **n):\n    time.sleep(0.1)\n    yield from f(*a, **n)\n"
    slow += "c.SourceCheck.partition = g\nfrom kafkafs.cli import main; main()"
    command = [sys.executable, "-c", slow, "check", hurt, "--json", "-j1", "--resume", kept]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if kept.exists() and kept.read_bytes().count(b"\n") >= 4:
                break
            time.sleep(0.01)
        run.send_signal(number)
    before = kept.read_bytes().count(b'"type": "partition"')
    assert 3 <= before < 12
    result = check(hurt, "--json", "--resume", kept)
    assert f"{before} partitions of 12 checked before" in result.stderr
    again = [json.loads(line) for line in result.stdout.splitlines()]
    whole = objects(hurt)
    for kind in ("finding", "partition", "summary"):
        assert of_type(again, kind) == of_type(whole, kind)


def stopped(data: Path, kept: Path) -> None:
    """Leave the progress of a check that was stopped after its last partition but one."""
    objects(data, "--jobs", "1", "--resume", kept)
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:-2]))


def test_a_changed_partition_is_read_again(tmp_path: Path) -> None:
    data, kept = copy_of("sample", tmp_path / "data"), tmp_path / "progress"
    stopped(data, kept)
    flip(data / "orders-0" / LOG, 5000)
    assert "batch-checksum" in check(data, "--resume", kept).stdout


def test_a_finished_check_begins_anew_even_if_nothing_seems_changed(tmp_path: Path) -> None:
    data, kept = copy_of("sample", tmp_path / "data"), tmp_path / "progress"
    file = data / "orders-0" / LOG
    status = file.stat()
    objects(data, "--resume", kept)
    flip(file, 5000)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a failing disk leaves it
    result = check(data, "--resume", kept)
    assert "the check begins anew" in result.stderr
    assert "batch-checksum" in result.stdout


def test_evidence_of_a_check_in_two_runs_has_the_files_of_both(hurt: Path, tmp_path: Path) -> None:
    kept, evidence = tmp_path / "progress", tmp_path / "evidence"
    check(hurt, "--resume", kept, "--evidence", tmp_path / "first")
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:6]))
    result = check(hurt, "--resume", kept, "--evidence", evidence)
    assert "checked before" in result.stderr

    def hashes(file: Path) -> list[str]:
        return sorted(line for line in file.read_text().splitlines() if not line.startswith("#"))

    assert hashes(evidence) == hashes(tmp_path / "first") != []


def test_a_check_without_hashes_does_not_count_for_one_with_evidence(
    hurt: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "progress"
    stopped(hurt, kept)
    result = check(hurt, "--resume", kept, "--evidence", tmp_path / "evidence")
    assert "checked before" not in result.stderr


@pytest.mark.parametrize("content", [b"mine\n", b"\0" * 100, b"{}\n", b'{"type": 1}\n', b"x"])
def test_another_programs_file_is_not_touched(hurt: Path, tmp_path: Path, content: bytes) -> None:
    kept = tmp_path / "progress"
    kept.write_bytes(content)
    result = check(hurt, "--resume", kept)
    assert (result.exit_code, result.stdout) == (2, "")
    assert kept.read_bytes() == content


@pytest.mark.parametrize("seed", range(10))
def test_a_spoiled_progress_is_never_believed_and_never_a_crash(
    hurt: Path, tmp_path: Path, seed: int
) -> None:
    rng, kept = random.Random(seed), tmp_path / "progress"
    stopped(hurt, kept)
    lines = [json.loads(line) for line in kept.read_bytes().splitlines()]
    for line in lines[1:]:
        key = rng.choice(sorted(line))
        line[key] = rng.choice([None, 3, "x", [], {}, [[]], {"partition": "orders-1"}])
    kept.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = check(hurt, "--json", "--resume", kept)
    assert result.exit_code == 1
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_progress_is_never_kept_in_the_source(hurt: Path) -> None:
    before = sorted(hurt.rglob("*"))
    result = check(hurt, "--resume", hurt / "progress")
    assert (result.exit_code, result.stdout) == (2, "")
    assert sorted(hurt.rglob("*")) == before


@pytest.mark.parametrize(
    "wrong",
    [
        ["--part", "0/3"],
        ["--part", "4/3"],
        ["--part", "3"],
        ["--part", "1/2", "--sample", "5%"],
        ["--sample", "0%"],
        ["--sample", "101%"],
        ["--sample", "5"],
        ["--sample", "5%", "--resume", "/tmp/never"],
        ["--sample", "5%", "--max-duration", "1h"],
        ["--seed", "5"],
        ["--max-duration", "5"],
        ["--replica", "/", "--part", "1/2"],
    ],
)
def test_contradictions_are_usage_errors(hurt: Path, wrong: list[str]) -> None:
    assert check(hurt, *wrong).exit_code == 2
