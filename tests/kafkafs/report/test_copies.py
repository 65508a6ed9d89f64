"""Log dirs of several brokers in one report: the brokers and the copies of a partition side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.fixtures_data import copy_of, log_dir
from tests.kafkafs.report.pages import parsed, section, text_of


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sample as broker 1, and as broker 2 with a wrong bit in orders-0 and without the end of orders-1."""
    folder = tmp_path_factory.mktemp("brokers")
    one, two = copy_of("sample", folder / "one"), copy_of("sample", folder / "two")
    meta = two / "meta.properties"
    meta.write_text(re.sub(r"node\.id=\d+", "node.id=2", meta.read_text()))
    path = two / "orders-0" / f"{395:020}.log"
    data = bytearray(path.read_bytes())
    data[29000] ^= 1
    path.write_bytes(data)
    last = max((two / "orders-1").glob("*.log"))
    for each in (two / "orders-1").glob(f"{last.stem}.*"):
        each.unlink()
    return one, two


@pytest.fixture(scope="module")
def facts(brokers: tuple[Path, Path]) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["report", *map(str, brokers), "--json", "-j", "1"])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def copies_of(facts: dict[str, Any], topic: str, partition: int) -> list[dict[str, Any]]:
    (found,) = (
        each["copies"]
        for each in facts["copies"]
        if (each["topic"], each["partition"]) == (topic, partition)
    )
    return list(found)


def test_a_recovery_of_the_cluster_is_planned(
    facts: dict[str, Any], brokers: tuple[Path, Path], tmp_path: Path
) -> None:
    planned = json.loads(
        CliRunner().invoke(cli, ["recover", "--plan", *map(str, brokers), "--json"]).stdout
    )
    assert facts["recovery"]["partitions"] == planned["partitions"]
    [orders] = [each for each in planned["partitions"] if each["partition"] == "orders-0"]
    assert [each["node"] for each in orders["copies"]] == [1, 2]


def test_each_broker_has_its_sums(facts: dict[str, Any], brokers: tuple[Path, Path]) -> None:
    first, second = facts["brokers"]
    assert [first["nodeId"], second["nodeId"]] == [1, 2]
    assert [first["logDirs"], second["logDirs"]] == [[str(each)] for each in brokers]
    assert (first["records"], first["partitions"]) == (2661, 3)
    assert first["records"] > second["records"]
    assert first["findings"] == {}
    assert second["findings"]["error"] >= 1
    assert "several brokers" in facts["start"]["skipped"]


def test_copies_are_compared_by_their_records(facts: dict[str, Any]) -> None:
    mine, other = copies_of(facts, "orders", 0)
    assert (mine["nodeId"], other["nodeId"]) == (1, 2)
    assert (mine["records"], other["records"]) == (1000, 988)
    (difference,) = other["differences"]
    assert "lacks 12 records of offsets 568 to 579" in difference["sentence"]
    same = copies_of(facts, "txn", 0)
    assert [each["differences"] for each in same] == [[], []]
    assert [each["notCompared"] for each in same] == [None, None]


def test_a_copy_that_ends_earlier_is_seen_by_its_log_end(facts: dict[str, Any]) -> None:
    mine, other = copies_of(facts, "orders", 1)
    assert mine["logEnd"] == 1000
    assert other["logEnd"] < 1000


def test_the_page_has_the_same_rows(
    facts: dict[str, Any], brokers: tuple[Path, Path], tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    CliRunner().invoke(cli, ["report", *map(str, brokers), "-o", str(target), "-j", "1"])
    tables = {
        each.get("id"): each
        for each in section(parsed(target.read_text("utf-8")), "partitions").iter("table")
    }
    rows = [
        [text_of(cell) for cell in row] for row in tables["copies"].iter("tr") if row[0].tag == "td"
    ]
    known = [each for found in facts["copies"] for each in found["copies"]]
    assert [row[:3] for row in rows] == [
        [each["name"], str(each["nodeId"]), each["logDir"]] for each in known
    ]
    assert [row[4] for row in rows] == [f"{each['logEnd']:,}" for each in known]
    behind = [
        cell.get("class")
        for row in tables["copies"].iter("tr")
        for cell in row
        if "bad" in cell.get("class", "")
    ]
    assert behind == ["n bad"] * 2  # both ends of orders-1
    assert len(list(tables["brokers"].iter("tr"))) == 3
    reasons = [found["reason"] for found in facts["copies"]]
    assert f"node 1 ({brokers[0]}) has the largest log end of epoch" in " ".join(reasons)
    assert [row[-1] for row in rows[::2]] == reasons
    recovery = text_of(section(parsed(target.read_text("utf-8")), "recovery"))
    assert "3 partitions are recovered" in recovery
    assert "orders-1" in recovery


def test_one_broker_has_neither(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["report", str(log_dir("sample")), "--json", "-j", "1"])
    assert (json.loads(done.stdout)["brokers"], json.loads(done.stdout)["copies"]) == ([], [])
    target = tmp_path / "page.html"
    CliRunner().invoke(cli, ["report", str(log_dir("sample")), "-o", str(target), "-j", "1"])
    assert "side by side" not in target.read_text("utf-8")
