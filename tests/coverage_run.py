"""The command scripts/coverage: lines and branches of the engine that a run of the tests reaches.

Python modules are measured by coverage.py, the compiled kernel by gcov: it is built without optimization into a folder
of its own, and the tests use that build. A line counts as reached when any test runs it. The tests run folder by
folder; --resume leaves out the folders that passed in a run that was stopped, or that failed, while the engine is the
same. --save writes the sums of each group of modules to tests/coverage.tsv.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tests.checkout import ROOT, commit, now
from tests.soak import sanitized

SAVED = ROOT / "tests" / "coverage.tsv"
KEPT = ROOT / "build" / "coverage"
SETTINGS = KEPT / "settings"
DATA = KEPT / "data"
JSON = KEPT / "python.json"
PASSED = KEPT / "passed.json"
TESTS = (
    "tests/engine",
    "tests/conformance",
    "tests/damage",
    "tests/kafkafs/tree",
    "tests/kafkafs/decode",
)
GROUPS = {
    "formats": ("engine/record", "engine/coding"),
    "indexes": ("engine/index",),
    "checkpoints": ("engine/checkpoint",),
    "messages": ("engine/topics",),
    "state": ("engine/state", "engine/writing/state"),
    "log, reading": ("engine/log",),
    "log, writing": (
        "engine/writing/log",
        "engine/writing/segment",
        "engine/broker/append",
        "engine/broker/log",
    ),
    "kernel in Python": ("engine/kernel",),
    "the engine": ("engine",),
}
KERNEL_IN_C = "kernel in C"
FLAGS = (
    "-shared",
    "-fPIC",
    "-O0",
    "-g",
    "-std=gnu11",
    "-w",
    "--coverage",
    "-fprofile-update=atomic",
)
RULES = f"""\
[run]
branch = true
source = engine
data_file = {DATA}
concurrency = thread
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    def __repr__
    raise AssertionError
    ^ +\\.\\.\\.$
"""


@dataclass(frozen=True)
class Reached:
    """How much of a group of modules the tests reach.

    Attributes:
        group: its name.
        lines, lines_reached, branches, branches_reached: how many.
        commit, date: of what, and when.
    """

    group: str
    lines: int
    lines_reached: int
    branches: int
    branches_reached: int
    commit: str
    date: str

    def __str__(self) -> str:
        lines = self.lines_reached / max(self.lines, 1)
        branches = self.branches_reached / max(self.branches, 1)
        return (
            f"{self.group:18} {lines:7.2%} of {self.lines:6,} lines"
            f"  {branches:7.2%} of {self.branches:6,} branches"
        )


def main() -> int:
    """Run the tests, and print what they reach."""
    options = _options()
    KEPT.mkdir(parents=True, exist_ok=True)
    SETTINGS.write_text(RULES)
    library = sanitized.build(sanitized.SOURCES[sanitized.KERNEL], FLAGS)
    coverage = [sys.executable, "-m", "coverage"]
    rules = f"--rcfile={SETTINGS}"
    engine = _digest_of_engine()
    passed = _passed(engine) if options.resume else []
    if not passed:
        for old in (DATA, *library.parent.glob("*.gcda")):
            old.unlink(missing_ok=True)
    environment = {**os.environ, "KAFKAFS_MEASURED_KERNEL": str(library)}
    run = [*coverage, "run", rules, "--append", "-m", "pytest", "-p", "tests.measured_kernel", "-q"]
    wanted = list(parts(options.tests))
    for tests in wanted:
        if tests in passed:
            continue
        status = subprocess.run([*run, *tests], cwd=ROOT, env=environment, check=False).returncode
        if not status:
            passed.append(tests)
            PASSED.write_text(json.dumps({"engine": engine, "passed": passed}))
    if any(tests not in passed for tests in wanted):
        print("tests failed: nothing is saved; --resume runs their folders again", file=sys.stderr)
        return 1
    subprocess.run([*coverage, "json", rules, "-q", "-o", str(JSON)], cwd=ROOT, check=True)
    python = json.loads(JSON.read_text())["files"]
    found = [_of_python(group, folders, python) for group, folders in GROUPS.items()]
    found.append(_of_c(library))
    print(*found, sep="\n")
    if options.missing:
        report = [*coverage, "report", rules, "-m", "--skip-covered"]
        subprocess.run(report, cwd=ROOT, check=True)
    if options.save:
        with SAVED.open("w", newline="") as out:
            table = csv.writer(out, delimiter="\t", lineterminator="\n")
            table.writerow(each.name for each in fields(Reached))
            table.writerows(map(astuple, found))
    return 0


def parts(tests: Sequence[str]) -> Iterator[list[str]]:
    """Yield what is run at a time: each folder in a folder of tests, and the test files beside these folders."""
    for path in tests:
        folders = [
            each for each in sorted((ROOT / path).glob("*/")) if any(each.rglob("test_*.py"))
        ]
        files = sorted((ROOT / path).glob("test_*.py"))
        yield from ([f"{path}/{each.name}"] for each in folders)
        if files or not folders:
            yield [f"{path}/{each.name}" for each in files] or [path]


def _passed(engine: str) -> list[list[str]]:
    """Return the parts of earlier runs that passed with the same engine."""
    kept = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    return list(kept["passed"]) if kept.get("engine") == engine else []


def _digest_of_engine() -> str:
    found = hashlib.sha256()
    for path in sorted((ROOT / "engine").rglob("*.*")):
        if path.suffix in (".py", ".pyx", ".pxd", ".h"):
            found.update(path.read_bytes())
    return found.hexdigest()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/coverage", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument(
        "tests", nargs="*", default=TESTS, help=f"what pytest runs [{' '.join(TESTS)}]"
    )
    parser.add_argument(
        "--missing", action="store_true", help="list the lines that no test reaches"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out folders that passed with the same engine"
    )
    parser.add_argument("--save", action="store_true", help=f"write {SAVED.relative_to(ROOT)}")
    return parser.parse_args()


def _of_python(
    group: str, folders: tuple[str, ...], files: dict[str, dict[str, dict[str, int]]]
) -> Reached:
    sums = [
        each["summary"]
        for path, each in files.items()
        if any(path.startswith(f"{folder}/") for folder in folders)
    ]
    counted = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return Reached(group, *(sum(each[name] for each in sums) for name in counted), commit(), now())


def _of_c(library: Path) -> Reached:
    """What gcov counts in the kernel's headers; a line that several functions have inlined counts once."""
    lines: dict[tuple[str, int], bool] = {}
    branches: dict[tuple[str, int, int], bool] = {}
    for counted in library.parent.glob("*.gcda"):
        command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", str(counted)]
        ran = subprocess.run(
            command, cwd=library.parent, capture_output=True, text=True, check=True
        )
        for text in ran.stdout.splitlines():
            for file in json.loads(text)["files"]:
                if "/kernel/c/" not in file["file"] and not file["file"].startswith("c/"):
                    continue
                for line in file["lines"]:
                    place = Path(file["file"]).name, line["line_number"]
                    lines[place] = lines.get(place, False) or line["count"] > 0
                    for number, branch in enumerate(line["branches"]):
                        taken = branches.get((*place, number), False) or branch["count"] > 0
                        branches[(*place, number)] = taken
    return Reached(
        *(KERNEL_IN_C, len(lines), sum(lines.values()), len(branches), sum(branches.values())),
        *(commit(), now()),
    )


if __name__ == "__main__":
    sys.exit(main())
