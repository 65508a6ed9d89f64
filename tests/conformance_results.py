"""Pytest plugin that counts, for each row of Kafka's tests, the cases that passed, failed and were skipped.

Load it with `-p tests.conformance_results --conformance-results FILE`; `scripts/conformance` does.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

FIELDS = ("class", "test", "ours", "passed", "failed", "skipped")
WORST_FIRST = ("failed", "skipped", "passed")


class CaseCounts:
    """Outcomes of the cases of each row; a case is one run of a test with one set of parameters.

    Attributes:
        outcomes: by row and test of ours, how often each outcome was.
    """

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._phases: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "setup":
            self._phases = set()
        self._phases.add(report.outcome)
        if report.when == "teardown":
            worst = next(outcome for outcome in WORST_FIRST if outcome in self._phases)
            for mark in item.iter_markers("conformance"):
                self.outcomes[mark.args[0], self._name(item)][worst] += 1
        return report

    @staticmethod
    def _name(item: pytest.Item) -> str:
        """File and function, without the parameters."""
        return item.nodeid.partition("[")[0].removeprefix("tests/conformance/")

    def write(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(FIELDS)
            for (row, ours), counts in sorted(self.outcomes.items()):
                counted = (counts[outcome] for outcome in FIELDS[3:])
                writer.writerow([*row.split("."), ours, *counted])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance-results", metavar="FILE", help="count the cases of each row in FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--conformance-results"):
        config.pluginmanager.register(CaseCounts(), "conformance-results")


def pytest_sessionfinish(session: pytest.Session) -> None:
    counts = session.config.pluginmanager.get_plugin("conformance-results")
    if isinstance(counts, CaseCounts):
        counts.write(Path(session.config.getoption("--conformance-results")))
