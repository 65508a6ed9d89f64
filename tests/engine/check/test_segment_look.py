"""Segments that were looked at one by one, elsewhere and earlier, give the check of the whole the same findings."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.segment_look import Checked, Look
from engine.log.log_directory import open_source
from engine.units import Offset
from engine.workers import Workers
from tests import fixtures_data
from tests.engine.check.logs import Clock, bad, change, found, log_of, look, of_rule, plain, write
from tests.engine.check.test_log_check import CASES, Case
from tests.hurt_folders import Hurt

Looks = list[tuple[Offset, bytes]]


class Parts:
    """The check of a source in two steps, each with an opening of its own, as on two machines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: dict[str, Looks] = {}

    def _check(self) -> SourceCheck:
        return SourceCheck(open_source(str(self.path)), CheckOptions(clock=Clock()))

    def look(self) -> None:
        """Look at every segment, the last first; what was seen is pickled."""
        check = self._check()
        for name, log in check.source.partitions().items():
            looks = []
            for base in reversed(log.view().base_offsets):
                one = [(base, pickle.dumps(each)) for each in _readable(check.segment(log, base))]
                looks = one + looks
            self.seen[name] = looks

    def conclude(self) -> tuple[list[Finding], list[PartitionSummary]]:
        """The check of each partition from what was seen."""
        check = self._check()
        events = list(check.beside())
        with Workers(1) as workers:
            for name, log in check.source.partitions().items():
                seen = ((base, pickle.loads(each)) for base, each in self.seen[name])
                events += check.partition(log, workers, seen)
        findings = [event for event in events if isinstance(event, Finding)]
        return findings, [event for event in events if isinstance(event, PartitionSummary)]


def _readable(looks: Iterator[Look]) -> Iterator[Look]:
    try:
        yield from looks
    except OSError:
        return


def in_parts(path: Path) -> tuple[list[Finding], list[PartitionSummary]]:
    """What both steps find."""
    parts = Parts(path)
    parts.look()
    return parts.conclude()


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_each_log_dir_gives_the_same_findings_and_summaries(kind: str) -> None:
    path = fixtures_data.log_dir(kind)
    whole = look(path)
    assert in_parts(path) == whole
    assert whole[1], "nothing was checked"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name or case.rule)
def test_each_broken_rule_is_found_in_parts_too(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    case.make(folder)
    assert in_parts(folder) == look(folder)
    assert of_rule(in_parts(folder)[0], case.rule)


@pytest.mark.parametrize("seed", range(60))
def test_damage_of_every_kind_gives_the_same_findings(seed: int, tmp_path: Path) -> None:
    source = fixtures_data.log_dir("current")
    names = _several_segments(source)
    name = names[seed % len(names)]
    folder = tmp_path / name
    shutil.copytree(source / name, folder)
    acts = Hurt(seed, folder).hurt()
    assert in_parts(folder) == look(folder), acts


def _several_segments(log_dir: Path) -> list[str]:
    return [
        name
        for name in sorted(entry.name for entry in log_dir.iterdir() if entry.is_dir())
        if len(list((log_dir / name).glob("*.log"))) > 1
    ]


def _append(folder: Path) -> None:
    with log_of(folder, 10).open("ab") as file:
        file.write(plain(15))


def _roll(folder: Path) -> None:
    _append(folder)
    write(folder, {20: [plain(20)]})


def _delete_the_first(folder: Path) -> None:
    for file in folder.glob("00000000000000000000.*"):
        file.unlink()


def _truncate(folder: Path) -> None:
    change(log_of(folder, 10), lambda data: data.__delitem__(slice(len(plain(10)), None)))


def _damage_the_tail(folder: Path) -> None:
    with log_of(folder, 10).open("ab") as file:
        file.write(plain(15)[:-9])


def _vanish(folder: Path) -> None:
    for file in folder.glob("*.log"):
        file.unlink()


@pytest.mark.parametrize(
    "happens", [_append, _roll, _delete_the_first, _truncate, _damage_the_tail, _vanish]
)
def test_a_log_that_changed_between_the_looks_is_checked_as_it_is_then(
    happens: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = write(tmp_path / "orders-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    parts = Parts(folder)
    parts.look()
    happens(folder)
    findings, summaries = parts.conclude()
    now, summaries_now = look(folder)
    assert [each.identity for each in findings] == [each.identity for each in now]
    assert summaries == summaries_now


def test_segments_that_did_not_change_are_not_read_a_second_time(tmp_path: Path) -> None:
    folder = write(tmp_path / "orders-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    parts = Parts(folder)
    parts.look()
    assert not bad(found(folder))
    change(log_of(folder), lambda data: data.__setitem__(70, data[70] ^ 1))
    assert bad(found(folder))
    assert not bad(parts.conclude()[0])


def test_the_bytes_of_the_records_are_not_handed_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "orders-0", {0: [plain(0, 500)]})
    parts = Parts(folder)
    parts.look()
    looks = [pickle.loads(each) for _, each in parts.seen["orders-0"]]
    assert any(isinstance(each, Checked) for each in looks)
    assert sum(len(each) for _, each in parts.seen["orders-0"]) < log_of(folder).stat().st_size / 5
