"""`--format` of `cat`, `grep` and `get` prints records as `kcat -f` does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import log_dir

SAMPLE = str(log_dir("sample"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def values(*arguments: str) -> list[str]:
    """The values in the record lines that a command prints."""
    lines = run(*arguments, "--values", "text").stdout.splitlines()
    return [each["value"] for each in map(json.loads, lines) if "control" not in each]


@pytest.mark.parametrize(
    ("command", "before"),
    [
        (["cat", SAMPLE], ["orders-0/offset/10..20", "orders-1/offset/5"]),
        (["cat", SAMPLE], ["txn-0/committed/00000000000000000000.jsonl"]),
        (["cat", SAMPLE], ["--topic", "orders", "--from", "990"]),
        (["cat", SAMPLE], ["orders-1/time/2023-11-14T22:20..2023-11-14T22:30"]),
        (["grep", "Lagos", SAMPLE], ["-m", "31"]),
        (["grep", "-v", "Lagos", SAMPLE], ["txn-0"]),
        (["grep", "Lagos", SAMPLE], ["--jobs", "2"]),
        (["grep", "-C", "0", "Lagos", SAMPLE], []),
        (["get", SAMPLE, "orders", "k3", "--all", "-q"], []),
        (["get", SAMPLE, "orders", "k3", "-q"], []),
    ],
)
def test_the_text_of_a_record_takes_the_place_of_its_line(
    command: list[str], before: list[str]
) -> None:
    path = [each for each in before if "time/" in each]
    expected = values(
        *command, *([f"{path[0]}/records.jsonl"] if path and command[0] == "cat" else before)
    )
    found = run(*command, *before, "--format", r"%s\n")
    assert found.exit_code == 0
    assert found.stdout.splitlines() == expected != []


def test_tokens_stand_for_the_fields_of_the_record() -> None:
    line = json.loads(run("cat", SAMPLE, "orders-1/offset/7").stdout)
    headers = ",".join(f"{each['key']}={each['value']}" for each in line["headers"])
    found = run("cat", SAMPLE, "orders-1/offset/7", "--format", "%t|%p|%o|%T|%k|%h").stdout
    assert found.split("|") == [
        "orders", "1", "7", str(line["timestamp"]), line["key"], headers,
    ]  # fmt: skip
    (trace,) = (
        each["value"]
        for each in json.loads(run("cat", SAMPLE, "orders-0/offset/7").stdout)["headers"][:1]
    )
    found = run("cat", SAMPLE, "orders-0/offset/7", "--format", "%h").stdout
    assert found == f"trace-id={trace},empty=,none=NULL"


def test_a_control_record_has_no_text() -> None:
    lines = [json.loads(line) for line in run("cat", SAMPLE, "--topic", "txn").stdout.splitlines()]
    offsets = [line["offset"] for line in lines if "control" not in line]
    assert len(offsets) < len(lines)
    shown = run("cat", SAMPLE, "--topic", "txn", "--format", r"%o\n").stdout.split()
    assert list(map(int, shown)) == offsets


def test_damage_is_reported_apart_from_the_texts(tmp_path: Path) -> None:
    source = tmp_path / "data"
    shutil.copytree(SAMPLE, source)
    file = source / "orders-0" / "00000000000000000395.log"
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[28_900] ^= 1
    file.write_bytes(data)
    found = run("cat", str(source), "orders-0", "--format", r"%o\n")
    assert found.exit_code == 1
    assert len(found.stdout.split()) == 988
    assert "byte 28659" in found.stderr
    assert run("grep", "-v", "Lagos", str(source), "--format", "%o").exit_code == 3


@pytest.mark.parametrize("option", ["-c", "-l", "-o", "-n", "-A1", "-B1", "-C1"])
def test_what_prints_no_records_takes_no_format(option: str) -> None:
    found = run("grep", option, "Lagos", SAMPLE, "--format", "%s")
    assert found.exit_code == 2
    assert "--format prints records" in found.stderr


def test_errors_name_the_way_out() -> None:
    found = run("cat", SAMPLE, "--topic", "orders", "--format", "%q")
    assert found.exit_code == 2
    assert "%q is none of %s" in found.stderr
    assert run("get", SAMPLE, "orders", "k3", "--value", "--format", "%s").exit_code == 2
    found = run("cat", SAMPLE, "orders-0/offset/3.value", "--format", "%s")
    assert found.exit_code == 3
    assert "orders-0/offset/3.value" in found.stderr
