"""Commits over time, since when a group stands still, and how old the next record is."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.replay.groups.commits import StandingStill, StoredCommit, commits
from engine.replay.groups.lag_times import lag_time
from engine.replay.internal_logs import InternalLogs
from engine.topics.topic_names import CONSUMER_OFFSETS
from tests.builders import Producer, Rec, batch, end_marker
from tests.replayed_bytes import NOW, commit, in_batches, write_partition

OFFSETS = "__consumer_offsets-0"


def commits_in(home: Path, batches: list[bytes], *names: str) -> list[StoredCommit]:
    write_partition(home, OFFSETS, batches)
    source = open_source(str(home))
    logs = InternalLogs(source).of(CONSUMER_OFFSETS)
    found = list(commits(logs, lambda name: not names or name in names))
    source.close()
    return found


def test_each_commit_is_told_in_its_order_with_its_time(tmp_path: Path) -> None:
    records = [commit("g", "t", 0, 5, NOW), commit("h", "t", 0, 1, NOW + 1)]
    records += [commit("g", "t", 1, 7, NOW + 2), commit("g", "t", 0, 9, NOW + 3)]
    found = commits_in(tmp_path, in_batches(records), "g")
    assert [(each.partition, each.offset, each.timestamp) for each in found] == [
        (0, 5, NOW),
        (1, 7, NOW + 2),
        (0, 9, NOW + 3),
    ]


@pytest.mark.parametrize(("ending", "expected"), [(True, [10, 20]), (False, [10]), (None, [10])])
def test_a_commit_in_a_transaction_is_told_once_that_is_committed(
    tmp_path: Path, ending: bool | None, expected: list[int]
) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    batches = in_batches([commit("g", "t", 0, 10)])
    batches.append(batch([commit("g", "t", 0, 20)], 1, producer=writer, transactional=True))
    if ending is not None:
        batches.append(end_marker(2, writer, commit=ending))
    assert [each.offset for each in commits_in(tmp_path, batches)] == expected


def test_a_group_stands_still_since_the_first_commit_of_the_same_offset() -> None:
    def at(offset: int | None, time: int) -> StoredCommit:
        return StoredCommit("g", "t", 0, offset, time, 0)

    assert StandingStill([at(1, 10), at(2, 20), at(2, 30), at(2, 40)]).since("g", "t", 0) == 20
    assert StandingStill([at(2, 20), at(1, 30), at(2, 40)]).since("g", "t", 0) == 40
    assert StandingStill([at(2, 20), at(None, 30), at(2, 40)]).since("g", "t", 0) == 40
    assert StandingStill([at(2, 20), at(None, 30)]).since("g", "t", 0) is None
    assert StandingStill([]).since("g", "t", 0) is None


@pytest.mark.parametrize(
    ("committed", "offset", "behind", "age"),
    [(0, 0, 4000, 5000), (3, 3, 1000, 2000), (2, 2, 2000, 3000), (5, None, 0, None)],
)
def test_the_next_record_tells_how_far_behind_a_group_is(
    tmp_path: Path, committed: int, offset: int | None, behind: int, age: int | None
) -> None:
    write_partition(
        tmp_path, "t-0", in_batches([Rec(b"v", None, NOW + 1000 * n) for n in range(5)])
    )
    source = open_source(str(tmp_path))
    found = lag_time(source.partitions()["t-0"].view(), committed)
    source.close()
    assert (found.next_offset, found.behind, found.age(NOW + 5000)) == (offset, behind, age)
    assert not found.is_below_log_start


def test_markers_are_no_next_record_and_removed_offsets_are_passed_over(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    first = batch([Rec(b"v", None, NOW)], 0, producer=writer, transactional=True)
    later = batch([Rec(b"v", None, NOW + 700)], 9)
    write_partition(tmp_path, "t-0", [first, end_marker(1, writer, commit=True), later])
    source = open_source(str(tmp_path))
    view = source.partitions()["t-0"].view()
    assert [lag_time(view, each).next_offset for each in (0, 1, 2, 9, 10)] == [0, 9, 9, 9, None]
    source.close()
