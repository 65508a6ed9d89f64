"""A log dir and its tiered past are one log; tests/data/README.md says where they are from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kafkafs
from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.log.log_directory import open_source
from engine.log.tiered.data_keys import VARIABLE
from engine.log.view.listed_offset import listed_offset
from engine.rebuild.rebuilding import rebuild
from engine.replicas.cluster_source import open_cluster
from tests.engine.log.tiered.test_aiven import digest
from tests.fixtures_data import DATA
from tests.tiered_folders import KEYS

LOCAL, PAST = DATA / "aiven/rotated/data", DATA / "aiven/rotated/backup"
TRUTH = json.loads((DATA / "aiven/union.json").read_text())


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    files = (f"key-{number}={KEYS}/key-{number}.private.pem" for number in (1, 2))
    monkeypatch.setenv(VARIABLE, ",".join(files))


@pytest.mark.parametrize("paths", [(LOCAL, PAST), (PAST, LOCAL)])
def test_a_reader_gets_the_whole_log_in_whatever_order_its_parts_are_named(
    paths: tuple[Path, Path],
) -> None:
    with kafkafs.open(*paths) as source:
        (partition,) = source.partitions()
        assert (partition.start, partition.end) == (0, TRUTH["end"])
        assert digest(partition.records()) == TRUTH["sha256"]
        committed = partition.records(isolation="read_committed")
        assert digest(committed) == TRUTH["sha256.committed"]


def test_look_ups_by_time_are_the_brokers() -> None:
    view = open_cluster([str(LOCAL), str(PAST)]).partitions()["orders-0"].view()
    for time, offset in TRUTH["forTimes"].items():
        found = view.offset_for_time(int(time))
        assert (-1 if found is None else found.offset) == offset


def test_the_local_part_wins_where_both_have_it(tmp_path: Path) -> None:
    view = open_cluster([str(LOCAL), str(PAST)]).partitions()["orders-0"].view()
    roots = {base: view.segment_at(at).file.path for at, base in enumerate(view.base_offsets)}
    assert [base for base, path in roots.items() if path.startswith(str(LOCAL))] == [
        1889,
        2370,
        2832,
    ]
    assert [base for base, path in roots.items() if path.startswith(str(PAST))] == [
        0,
        481,
        944,
        1406,
    ]


@pytest.mark.parametrize(
    ("code", "offset"), [(-1, 3000), (-2, 0), (-4, 1889), (-5, 2831), (-6, 2832)]
)
def test_the_ends_of_both_parts_are_those_that_a_broker_lists(code: int, offset: int) -> None:
    view = open_cluster([str(LOCAL), str(PAST)]).partitions()["orders-0"].view()
    found = listed_offset(view, code, committed=False)
    assert found is not None
    assert found.offset == offset


def test_the_check_takes_neither_part_for_a_second_copy() -> None:
    events = SourceCheck(open_source([str(LOCAL), str(PAST)])).run()
    found = {event.rule for event in events if isinstance(event, Finding)}
    assert "folder-twice" not in found


def test_a_rebuild_brings_the_whole_log_back(tmp_path: Path) -> None:
    target = tmp_path / "whole"
    rebuild(str(LOCAL), str(target), merge=[str(PAST)])
    with kafkafs.open(target) as source:
        assert digest(source["orders"][0].records()) == TRUTH["sha256"]
    stated = (target / "orders-0" / "partition.metadata").read_text()
    assert stated.split()[-1] in next(PAST.iterdir()).name


def test_a_past_of_another_topic_of_the_same_name_is_not_joined(tmp_path: Path) -> None:
    other = tmp_path / f"orders-{'A' * 21}Q"
    shutil.copytree(next(PAST.iterdir()), other)
    view = open_cluster([str(LOCAL), str(tmp_path)]).partitions()["orders-0"].view()
    assert view.base_offsets == (1889, 2370, 2832)
