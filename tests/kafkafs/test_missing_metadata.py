"""A log dir without a metadata log is told by check, plan and rebuild in one sentence, and costs no status."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.log.log_directory import open_source
from engine.verdict.metadata_log import forgets_topics
from kafkafs.cli import cli
from kafkafs.loss_words import FORGETS
from tests.fixtures_data import copy_of, partitions
from tests.replayed_bytes import write_metadata_log

METADATA = "__cluster_metadata-0"


def run(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def said(data: Path) -> dict[str, bool]:
    """Whether each command says that there is no metadata log, in words and in JSON alike."""
    target, found = data.parent / "target", {}
    for name, words in {
        "check": ("check", data),
        "plan": ("plan", data),
        "rebuild": ("rebuild", data, target, "--dry-run"),
    }.items():
        (_, text), (_, lines) = run(*words), run(*words, "--json")
        facts = json.loads(lines if name == "rebuild" else lines.splitlines()[-1])
        found[name] = "no metadata log here" in text
        assert facts["forgetsTopics"] == found[name], name
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log dir of KRaft without a metadata log."""
    return copy_of("sample", tmp_path, partitions("sample"))


def test_every_command_says_that_there_is_no_metadata_log(data: Path) -> None:
    assert said(data) == {"check": True, "plan": True, "rebuild": True}
    status, text = run("check", data)
    assert status == 0
    assert FORGETS in text.splitlines()
    target = data.parent / "target"
    assert FORGETS in run("rebuild", data, target)[1].splitlines()


def with_metadata(data: Path) -> None:
    write_metadata_log(data)


def of_zookeeper(data: Path) -> None:
    (data / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")


def without_properties(data: Path) -> None:
    (data / "meta.properties").unlink()


def without_logs(data: Path) -> None:
    for name in partitions("sample"):
        shutil.rmtree(data / name)


@pytest.mark.parametrize(
    "change",
    [with_metadata, of_zookeeper, without_properties, without_logs],
    ids=lambda change: change.__name__,
)
def test_a_log_dir_that_has_it_or_needs_none_is_not_told_of(
    data: Path, change: Callable[[Path], None]
) -> None:
    change(data)
    with closing(open_source(str(data))) as source:
        assert not forgets_topics(source)


def test_a_part_of_a_log_dir_is_not_told_of(data: Path) -> None:
    with closing(open_source(str(data / "orders-0"))) as source:
        assert not forgets_topics(source)
    for words in (("check", data, "--topic", "orders"), ("check", data, "--part", "1/2")):
        assert "no metadata log here" not in run(*words)[1]
    target = data.parent / "target"
    done = run("rebuild", data, target, "--dry-run", "--topic", "orders")
    assert "no metadata log here" not in done[1]
