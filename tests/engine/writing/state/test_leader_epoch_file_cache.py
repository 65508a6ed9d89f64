"""When the leader epochs of a log are written to their file, and which lost epochs are reported."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from engine.units import EpochEntry, TopicPartition
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache

ENTRIES = [EpochEntry(2, 6), EpochEntry(3, 8), EpochEntry(4, 11)]


class CountedCheckpoint:
    """A checkpoint in memory that remembers each write."""

    def __init__(self) -> None:
        self.writes: list[list[EpochEntry]] = []

    def read(self) -> list[EpochEntry]:
        return list(ENTRIES)

    def write(self, entries: Iterable[EpochEntry]) -> None:
        self.writes.append(list(entries))

    write_if_dir_exists = write


@pytest.fixture
def checkpoint() -> CountedCheckpoint:
    return CountedCheckpoint()


@pytest.fixture
def cache(checkpoint: CountedCheckpoint) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(TopicPartition("topic", 0), checkpoint, None)


@pytest.mark.parametrize(
    ("end", "written"),
    [(-1, None), (0, []), (6, []), (7, [2]), (8, [2]), (11, [2, 3]), (12, None), (99, None)],
)
def test_a_cut_end_is_written_only_if_an_epoch_is_gone(
    cache: LeaderEpochFileCache,
    checkpoint: CountedCheckpoint,
    end: int,
    written: list[int] | None,
) -> None:
    cache.truncate_from_end_async_flush(end)
    found = [[entry.epoch for entry in entries] for entries in checkpoint.writes]
    assert found == ([] if written is None else [written])


@pytest.mark.parametrize(
    ("start", "written"),
    [
        (5, None),
        (6, ENTRIES),
        (7, [(2, 7), *ENTRIES[1:]]),
        (8, ENTRIES[1:]),
        (12, [(4, 12)]),
    ],
)
def test_a_new_log_start_is_written_unless_it_is_below_all_epochs(
    cache: LeaderEpochFileCache,
    checkpoint: CountedCheckpoint,
    start: int,
    written: list[EpochEntry] | None,
) -> None:
    cache.truncate_from_start_async_flush(start)
    assert checkpoint.writes == ([] if written is None else [written])


@pytest.mark.parametrize(
    ("epoch", "offset", "is_reported"),
    [(5, 20, False), (5, 11, False), (5, 10, True), (5, 9, True), (5, 8, True), (3, 8, False)],
)
def test_epochs_with_records_that_are_lost_are_reported(
    cache: LeaderEpochFileCache,
    caplog: pytest.LogCaptureFixture,
    epoch: int,
    offset: int,
    is_reported: bool,
) -> None:
    if epoch == 3:
        cache.truncate_from_end_async_flush(11)
    cache.assign(epoch, offset)
    assert ("removed" in caplog.text) == is_reported


def test_epochs_are_written_once_and_only_when_they_change(
    cache: LeaderEpochFileCache, checkpoint: CountedCheckpoint
) -> None:
    assert not cache.assign(4, 11)
    assert not cache.assign(4, 15)
    cache.assign_all([])
    assert checkpoint.writes == []
    assert cache.assign(5, 20)
    assert checkpoint.writes == [[*ENTRIES, (5, 20)]]
    cache.assign_all([EpochEntry(6, 21), EpochEntry(7, 22)])
    assert len(checkpoint.writes) == 2
    with pytest.raises(ValueError, match="no epoch entry"):
        cache.assign_all([EpochEntry(8, 23), EpochEntry(9, -1)])
    assert cache.latest_epoch == 7
