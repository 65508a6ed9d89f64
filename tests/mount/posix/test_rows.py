"""The table of the files of pjdfstest and xfstests: each has a test of ours, or a reason."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTING = HERE.parents[2] / "kafkafs/docs/testing.md"
FILES = {"pjdfstest": 238, "xfstests": 787 + 1342}
"""Test files of each suite: those of xfstests for any file system, and those for one."""
OUTCOMES = ("same", "part", "refused", "no")


@cache
def rows() -> list[dict[str, str]]:
    with (HERE / "rows.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, dialect="excel-tab"))


@cache
def cases(file: str) -> dict[str, set[str]]:
    """The tests of a file, each with the parts that its marks put into brackets."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, HERE / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for name, function in vars(module).items():
        if name.startswith("test_"):
            marks = [
                each for each in getattr(function, "pytestmark", ()) if each.name == "parametrize"
            ]
            values = [mark.kwargs.get("ids") or mark.args[1] for mark in marks]
            found[name] = {"-".join(map(str, each)) for each in itertools.product(*values)}
    return found


def counts(suite: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows():
        if row["suite"] == suite:
            found[row["applies"]] += int(row["files"])
    return found


def test_each_file_of_the_suites_is_counted_once() -> None:
    names = [(row["suite"], row["test"]) for row in rows()]
    assert len(names) == len(set(names))
    assert {suite: counts(suite).total() for suite in FILES} == FILES
    assert {row["applies"] for row in rows()} == set(OUTCOMES)


@pytest.mark.parametrize("applies", ["same", "part", "refused"])
def test_what_applies_has_tests_that_exist(applies: str) -> None:
    chosen = [row for row in rows() if row["applies"] == applies]
    assert chosen
    for row in chosen:
        for ours in re.split(r" (?=\S+\.py::)", row["ours or reason"]):
            file, name, case = re.fullmatch(r"(.+)::(\w+)(?:\[(.+)\])?", ours).groups()  # type: ignore[union-attr]
            assert name in cases(file), (row["test"], ours)
            assert case is None or case in cases(file)[name], (row["test"], ours)


def test_what_does_not_apply_has_a_reason() -> None:
    for row in rows():
        if row["applies"] == "no":
            assert len(row["ours or reason"].split()) >= 3, row["test"]
            assert "::" not in row["ours or reason"], row["test"]


@pytest.mark.parametrize("suite", list(FILES))
def test_the_page_about_tests_has_the_counts(suite: str) -> None:
    found = counts(suite)
    line = f"| {suite} | {FILES[suite]:,} | " + " | ".join(f"{found[each]:,}" for each in OUTCOMES)
    assert line in TESTING.read_text(encoding="utf-8")
