"""A selection without records is an error in every command, and says what there is."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.log.log_directory import open_source
from kafkafs.cli import cli
from kafkafs.tree.node import File
from kafkafs.tree.tree import Tree
from tests.fixtures_data import log_dir, truth_records

CURRENT = str(log_dir("current"))
ORDERS = (
    "orders-0 holds offsets 0 to 999, times 2023-11-14T22:13:19.792Z to 2023-11-14T23:03:17.173Z"
)
TRIMMED = "trimmed-0 holds offsets "
COMPACTED = "compacted-0 holds offsets 0 to 2399, times "
EMPTY = "empty-0 holds none"


def gap() -> tuple[int, int]:
    """The first offsets that compaction took."""
    offsets = [record.offset for record in truth_records("current", "compacted-0")]
    return next((a + 1, b) for a, b in pairwise([-1, *offsets]) if b > a + 1)


FIRST, END = gap()
PATHS = {
    "behind the end": ("orders-0/offset/5000..6000", ORDERS),
    "at the end": ("orders-0/offset/1000..", ORDERS),
    "of no offset": ("orders-0/offset/5..5", ORDERS),
    "before the start": ("trimmed-0/offset/0..1", TRIMMED),
    "of an empty log": ("empty-0/offset/0..10", EMPTY),
    "before the first time": ("orders-0/time/1999", ORDERS),
    "behind the last time": ("orders-0/time/2099-01-01..2099-02-01", ORDERS),
    "of all partitions": ("time/1999", " partitions"),
}
FILES = {
    **{name: each for name, each in PATHS.items() if "/offset/" in each[0]},
    "in a gap": (f"compacted-0/offset/{FIRST}..{END}", COMPACTED),
    "records of a period": ("orders-0/time/1999/records.jsonl", ORDERS),
    "exact records of a period": ("orders-0/time/2099/exact.jsonl", ORDERS),
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def assert_told(done: Result, place: str, there: str, status: int = 1) -> None:
    assert (done.exit_code, done.stdout) == (status, "")
    assert done.stderr.startswith(f"kafkafs: there are no records in {place}; ")
    assert there in done.stderr
    assert done.stderr.count("there are no records") == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("form", [(), ("--format", "%o\\n")], ids=["lines", "texts"])
def test_cat(name: str, form: tuple[str, ...]) -> None:
    path, there = FILES[name]
    if not form or "jsonl" not in path:
        assert_told(run("cat", CURRENT, path, *form), path, there)


def test_cat_writes_the_other_paths() -> None:
    done = run("cat", CURRENT, "orders-0/offset/5000..", "orders-0/offset/3.value")
    assert (done.exit_code, done.stdout_bytes) == (
        1,
        truth_records("current", "orders-0")[3].value,
    )


@pytest.mark.parametrize("name", [*PATHS, "in a gap"])
def test_cp_makes_nothing(name: str, tmp_path: Path) -> None:
    path, there = (PATHS | FILES)[name]
    assert_told(run("cp", CURRENT, path, str(tmp_path / "copy")), path, there)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", PATHS)
def test_ls(name: str) -> None:
    path, there = PATHS[name]
    for flags in ((), ("-l",), ("-d",), ("--json",)):
        assert_told(run("ls", *flags, CURRENT, path), path, there)


@pytest.mark.parametrize("name", PATHS)
def test_grep(name: str) -> None:
    path, there = PATHS[name]
    assert_told(run("grep", "", CURRENT, path), path, there)


@pytest.mark.parametrize(
    "extent", [("--from", "5000"), ("--from", "2099-01-01"), ("--to", "1999-01-01"), ("--to", "0")]
)
def test_ranges_of_options(extent: tuple[str, ...], tmp_path: Path) -> None:
    words = ("-p", "orders-0", *extent)
    assert_told(run("cat", CURRENT, *words), "the range", ORDERS)
    assert_told(run("grep", "", CURRENT, *words), "the range", ORDERS)
    assert_told(run("export", CURRENT, str(tmp_path / "t"), *words), "the range", ORDERS, status=2)
    done = run("rebuild", CURRENT, str(tmp_path / "t"), *words)
    assert (done.exit_code, "--allow-empty" in done.stderr) == (2, True)
    folder = f"{CURRENT}/orders-0"
    done = run("dump", folder, *extent)
    said = f"{folder}: no record is in the range; its log has offsets 0 to 999\n"
    assert (done.exit_code, done.stderr) == (3, said)
    assert not os.listdir(tmp_path)


def test_grep_of_an_empty_log_and_of_a_range_in_a_path() -> None:
    assert_told(run("grep", "", CURRENT, "-p", "empty-0"), "the chosen partitions", EMPTY)
    done = run("grep", "", CURRENT, "orders-0", "--from", "5000")
    assert_told(done, "the range in orders-0", ORDERS)


def test_many_partitions_are_counted() -> None:
    done = run("cat", CURRENT, "--from", "2099-01-01")
    sentence = done.stderr.splitlines()[0]
    assert sentence.count(" holds ") == 3
    assert sentence.endswith(" more partitions")


def test_in_the_tree_such_a_range_is_an_empty_file() -> None:
    with closing(open_source(CURRENT)) as source:
        node = Tree(source).resolve("orders-0/offset/5000..6000")
        assert isinstance(node, File)
        with closing(node.open()) as content:
            assert content.size == 0
