"""The table of Kafka's rows is counted from a run, and refused when it is older than the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest

@pytest.mark.conformance("FirstTest.testCases")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_cases(number):
    if number == 3:
        pytest.skip("not today")
    assert number != 4

@pytest.mark.conformance("FirstTest.testTeardown")
def test_teardown(request):
    request.addfinalizer(lambda: 1 / 0)

def test_of_no_row():
    pass
"""


def test_each_case_of_a_row_is_counted_with_its_worst_outcome(tmp_path: Path) -> None:
    (tmp_path / "test_rows.py").write_text(TESTS)
    counted = tmp_path / "results.tsv"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "tests.conformance_results", "-p", "no:randomly",
        f"--conformance-results={counted}", f"--rootdir={tmp_path}", str(tmp_path),
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert counted.read_text().splitlines() == [
        "class\ttest\tours\tpassed\tfailed\tskipped",
        "FirstTest\ttestCases\ttest_rows.py::test_cases\t2\t1\t1",
        "FirstTest\ttestTeardown\ttest_rows.py::test_teardown\t0\t1\t0",
    ]


class Copy:
    """The script in a folder of its own, with one row, its test and a result."""

    def __init__(self, folder: Path) -> None:
        self.tables = folder / "tests" / "conformance"
        self.script = folder / "scripts" / "conformance"
        for path in (self.tables, self.script.parent, folder / "engine"):
            path.mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "conformance", self.script)
        self.write("rows.tsv", "class\ttest\ttier\tmeaning", "ATest\ttestIt\tR\tit")
        self.write("left_out.tsv", "class\ttest\treason")
        self.write("kafka_cases.tsv", "class\ttest\tcases\telsewhere")
        self.write("test_a.py", '@pytest.mark.conformance("ATest.testIt")\ndef test_it(): pass')
        self.result("test_a.py::test_it", 1)

    def write(self, name: str, *lines: str) -> None:
        (self.tables / name).write_text("\n".join(lines) + "\n")

    def result(self, ours: str, passed: int, failed: int = 0) -> None:
        head = "class\ttest\tours\tpassed\tfailed\tskipped"
        self.write("results.tsv", head, f"ATest\ttestIt\t{ours}\t{passed}\t{failed}\t0")

    def says(self, *arguments: str) -> str:
        command = [sys.executable, str(self.script), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode == 0) == (ran.stderr == "")
        return ran.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    made = Copy(tmp_path)
    assert made.says() == made.says("--check") == ""
    return made


def test_a_row_whose_test_was_not_in_the_last_run_is_refused(copy: Copy) -> None:
    copy.result("test_b.py::test_it", 1)
    assert "ATest.testIt was not in the last run" in copy.says("--check")


def test_a_row_with_a_case_that_failed_is_refused(copy: Copy) -> None:
    copy.result("test_a.py::test_it", 2, failed=1)
    assert "ATest.testIt did not pass in the last run" in copy.says("--check")


def test_a_page_with_other_counts_is_stale(copy: Copy) -> None:
    copy.result("test_a.py::test_it", 2)
    assert "engine/CONFORMANCE.md is stale" in copy.says("--check")


def test_cases_of_kafkas_that_are_none_of_ours_need_a_place(copy: Copy) -> None:
    copy.write("kafka_cases.tsv", "class\ttest\tcases\telsewhere", "ATest\ttestIt\t2\t")
    assert "does not say where Kafka's other cases are" in copy.says()


def test_a_run_with_other_cases_than_the_results_is_refused(copy: Copy) -> None:
    other = copy.tables / "other.tsv"
    shutil.copy(copy.tables / "results.tsv", other)
    assert copy.says("--compare", str(other)) == ""
    copy.result("test_a.py::test_it", 2)
    copy.says()
    assert f"ATest.testIt has 1 cases in {other}, not 2" in copy.says("--compare", str(other))
