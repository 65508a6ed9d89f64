"""`kafkafs du` in the terminal and as JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import log_dir
from tests.measured_du import du

SAMPLE, CURRENT = str(log_dir("sample")), str(log_dir("current"))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["du", *words])


def facts(*words: str) -> list[dict[str, Any]]:
    done = run("--json", *words)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_type(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in found if each["type"] == name]


@pytest.mark.parametrize("source", [SAMPLE, CURRENT, str(log_dir("legacy"))])
def test_the_sums_of_rows_and_kinds_are_what_du_prints(source: str) -> None:
    found = facts(source)
    [summary] = of_type(found, "summary")
    assert (summary["allocatedBytes"], summary["apparentBytes"]) == du(source)
    folders = of_type(found, "folder")
    for name in ("allocatedBytes", "apparentBytes", "files"):
        assert sum(each[name] for each in folders) == summary[name]
        assert sum(each[name] for each in summary["kinds"].values()) == summary[name]
        for each in folders:
            assert sum(kind[name] for kind in each["kinds"].values()) == each[name]
    text = run(source).stdout
    assert f"{summary['allocatedBytes']:,} bytes allocated (du -B1)" in text


def test_the_largest_comes_first() -> None:
    sizes = [each["allocatedBytes"] for each in of_type(facts(CURRENT), "folder")]
    assert sizes == sorted(sizes, reverse=True)


def test_a_choice_counts_only_its_partitions() -> None:
    folders = of_type(facts(CURRENT, "--topic", "orders,txn"), "folder")
    assert sorted(each["partition"] for each in folders) == ["orders-0", "txn-0"]
    assert run(CURRENT, "--topic", "nothing").exit_code == 2


def test_what_a_broker_deletes_is_named_with_its_files() -> None:
    [said] = of_type(facts(CURRENT, "-t", "orders", "--now", "2023-11-30"), "prediction")
    assert said["retentionMs"] == 604_800_000
    gone = {name for each in said["due"] for name in each["files"]}
    assert {each["reason"] for each in said["due"]} == {"retention.ms"}
    assert gone >= {path.name for path in Path(CURRENT, "orders-0").glob("*.log")}
    assert said["rolls"]
    [later] = of_type(facts(CURRENT, "-t", "orders", "--now", "2023-11-20"), "prediction")
    assert not later["due"]
    assert all(each["deletedAt"] > later["at"] for each in later["later"])


def test_a_brokers_settings_count_for_topics_without_their_own() -> None:
    words = ("-p", "orders-0", "--now", "2023-11-15T12:00:00Z")
    [usual] = of_type(facts(SAMPLE, *words), "prediction")
    assert not usual["due"]
    [short] = of_type(facts(SAMPLE, *words, "--config", "log.retention.hours=1"), "prediction")
    assert short["due"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("log.retention.hours", "write NAME=VALUE"),
        ("log.retention.days=1", "is none of log.cleaner.delete.retention.ms"),
        ("log.retention.hours=soon", "must be an integer"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(setting: str, words: str) -> None:
    done = run(SAMPLE, "--config", setting)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_when_a_disk_is_full_is_said_only_while_a_broker_has_it_open(tmp_path: Path) -> None:
    home = tmp_path / "data"
    shutil.copytree(SAMPLE, home)
    (home / ".lock").touch()
    assert "no broker has it open" in run(str(home)).stdout
    # The lock of this very process would not be seen.
    code = "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX); print(); sys.stdout.flush(); time.sleep(99)"  # fmt: skip
    command = [sys.executable, "-c", code, str(home / ".lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        text = run(str(home)).stdout
        [system] = of_type(facts(str(home)), "fileSystem")
        holder.kill()
    assert re.search(r"at that rate it is full (never|at 2\d{3}-.*) if nothing is deleted", text)
    assert system["isLive"]
    assert system["freeBytes"] <= system["bytes"]


def test_a_topic_whose_configuration_no_broker_takes_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engine.usage.topic_configs import TopicConfigs

    def refuse(_: TopicConfigs, topic: str) -> None:
        raise ValueError(f"retention.ms must be an integer, not that of {topic}")

    monkeypatch.setattr(TopicConfigs, "of", refuse)
    done = run(SAMPLE)
    assert done.exit_code == 1
    assert "orders-0 is not predicted: no broker takes its configuration" in done.stdout


def test_a_folder_that_cannot_be_listed_makes_the_status_3(tmp_path: Path) -> None:
    home = tmp_path / "data"
    shutil.copytree(SAMPLE, home)
    fd = os.open(home / "orders-0", os.O_PATH)
    name = "x" * 250
    for _ in range(20):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    done = run(str(home))
    assert done.exit_code == 3
    assert "could not be read" in done.stderr
