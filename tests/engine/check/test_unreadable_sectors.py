"""Sectors that the device cannot read: one finding for each place, and nothing that only repeats it."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.log.log_directory import open_source
from tests.fixtures_data import copy_of
from tests.unreadable import SECTOR, sector, unreadable_bytes

LOGS = ["orders-0", "codec-gzip-0", "compacted-0", "txn-0", "__transaction_state-1"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_of("current", tmp_path, LOGS)


def checked(
    source: Path, bad: Mapping[Path, list[tuple[int, int]]]
) -> tuple[list[Finding], dict[str, PartitionSummary]]:
    with unreadable_bytes(bad), closing(open_source(str(source))) as opened:
        events = list(SourceCheck(opened).run())
    findings = [each for each in events if isinstance(each, Finding)]
    return findings, {each.partition: each for each in events if isinstance(each, PartitionSummary)}


def new_ones(source: Path, bad: Mapping[Path, list[tuple[int, int]]]) -> list[Finding]:
    """What is found with these bytes unreadable and not without."""
    before = {each.identity for each in checked(source, {})[0]}
    return [each for each in checked(source, bad)[0] if each.identity not in before]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("segment", [0, -1])
def test_a_sector_is_one_finding_with_file_position_length_and_offsets(
    source: Path, place: str, segment: int
) -> None:
    path = sorted((source / "orders-0").glob("*.log"))[segment]
    size = path.stat().st_size
    position = {"first": 0, "middle": size // 2, "last": size - 1}[place]
    start, end = sector(position)
    (found,) = new_ones(source, {path: [(start, end)]})
    assert (found.rule, found.severity.value, found.file) == ("unreadable", "error", str(path))
    assert found.facts["unreadable"] == [{"position": start, "length": min(end, size) - start}]
    assert found.position is not None
    assert found.length is not None
    assert found.position <= start
    assert found.position + found.length >= min(end, size)
    assert found.first_offset is not None
    assert found.next_offset is not None or (place, segment) == ("last", -1)


def test_no_random_sector_has_findings_that_only_repeat_it(source: Path) -> None:
    random = Random(12)
    before = {each.identity for each in checked(source, {})[0]}
    for _ in range(12):
        paths = sorted(each for each in source.glob("*/*.log") if each.stat().st_size)
        path = random.choice(paths)
        bad = sector(random.randrange(path.stat().st_size))
        findings, summaries = checked(source, {path: [bad]})
        rules = {each.rule for each in findings if each.identity not in before}
        assert rules == {"unreadable"}, (path, bad)
        assert summaries[path.parent.name].holes, (path, bad)


@pytest.mark.parametrize(
    "name",
    [
        "orders-0/00000000000000000395.index",
        "orders-0/00000000000000000395.timeindex",
        "orders-0/00000000000000001000.snapshot",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        "recovery-point-offset-checkpoint",
        "meta.properties",
    ],
)
def test_an_unreadable_side_file_is_a_finding_of_its_own(source: Path, name: str) -> None:
    path = source / name
    found = new_ones(source, {path: [(0, SECTOR)]})
    assert {each.file for each in found if each.rule == "file-unreadable"} == {str(path)}
    of_it = next(each for each in found if each.rule == "file-unreadable")
    assert (of_it.position, of_it.length) == (0, path.stat().st_size)
    assert of_it.is_of_device
    assert not [each for each in found if each.rule == "unreadable"]
