"""What Kafka's LeaderEpochFileCacheTest asks of truncating and clearing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from tests.clocks import MockClock, MockScheduler

PARTITION = TopicPartition("TestTopic", 5)
ENTRIES = [EpochEntry(2, 6), EpochEntry(3, 8), EpochEntry(4, 11)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> LeaderEpochCheckpointFile:
    return LeaderEpochCheckpointFile(tmp_path / "leader-epoch-checkpoint")


@pytest.fixture
def empty(checkpoint: LeaderEpochCheckpointFile) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(PARTITION, checkpoint, MockScheduler(MockClock()))


@pytest.fixture
def cache(empty: LeaderEpochFileCache) -> LeaderEpochFileCache:
    for epoch, offset in ENTRIES:
        empty.assign(epoch, offset)
    return empty


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldDropEntriesOnEpochBoundaryWhenRemovingLatestEntries"
)
def test_should_drop_entries_on_epoch_boundary_when_removing_latest_entries(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_end_async_flush(8)
    assert cache.epoch_entries == [EpochEntry(2, 6)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldPreserveResetOffsetOnClearEarliestIfOneExists"
)
def test_should_preserve_reset_offset_on_clear_earliest_if_one_exists(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_start_async_flush(8)
    assert cache.epoch_entries == [EpochEntry(3, 8), EpochEntry(4, 11)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldUpdateSavedOffsetWhenOffsetToClearToIsBetweenEpochs"
)
def test_should_update_saved_offset_when_offset_to_clear_to_is_between_epochs(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_start_async_flush(9)
    assert cache.epoch_entries == [EpochEntry(3, 9), EpochEntry(4, 11)]


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToEarly")
def test_should_not_clear_anything_if_offset_to_early(cache: LeaderEpochFileCache) -> None:
    cache.truncate_from_start_async_flush(1)
    assert cache.epoch_entries == ENTRIES


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToFirstOffset")
def test_should_not_clear_anything_if_offset_to_first_offset(cache: LeaderEpochFileCache) -> None:
    cache.truncate_from_start_async_flush(6)
    assert cache.epoch_entries == ENTRIES


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliest")
def test_should_retain_latest_epoch_on_clear_all_earliest(cache: LeaderEpochFileCache) -> None:
    cache.truncate_from_start_async_flush(11)
    assert cache.epoch_entries == [EpochEntry(4, 11)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest"
)
def test_should_update_offset_between_epoch_boundaries_on_clear_earliest(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_start_async_flush(9)
    assert cache.epoch_entries == [EpochEntry(3, 9), EpochEntry(4, 11)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest2"
)
def test_should_update_offset_between_epoch_boundaries_on_clear_earliest_2(
    empty: LeaderEpochFileCache,
) -> None:
    for epoch, offset in ((0, 0), (1, 7), (2, 10)):
        empty.assign(epoch, offset)
    empty.truncate_from_start_async_flush(5)
    assert empty.epoch_entries == [EpochEntry(0, 5), EpochEntry(1, 7), EpochEntry(2, 10)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliestAndUpdateItsOffset"
)
def test_should_retain_latest_epoch_on_clear_all_earliest_and_update_its_offset(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_start_async_flush(15)
    assert cache.epoch_entries == [EpochEntry(4, 15)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldDropEntriesBetweenEpochBoundaryWhenRemovingNewest"
)
def test_should_drop_entries_between_epoch_boundary_when_removing_newest(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_end_async_flush(9)
    assert cache.latest_epoch == 3
    assert cache.epoch_entries == ENTRIES[:2]


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldClearAllEntries")
def test_should_clear_all_entries(cache: LeaderEpochFileCache) -> None:
    cache.clear_and_flush()
    assert cache.epoch_entries == []
    assert cache.is_empty


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldNotResetEpochHistoryHeadIfUndefinedPassed")
def test_should_not_reset_epoch_history_head_if_undefined_passed(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_start_async_flush(-1)
    assert len(cache.epoch_entries) == 3


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldNotResetEpochHistoryTailIfUndefinedPassed")
def test_should_not_reset_epoch_history_tail_if_undefined_passed(
    cache: LeaderEpochFileCache,
) -> None:
    cache.truncate_from_end_async_flush(-1)
    assert len(cache.epoch_entries) == 3


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldFetchLatestEpochOfEmptyCache")
def test_should_fetch_latest_epoch_of_empty_cache(empty: LeaderEpochFileCache) -> None:
    assert empty.latest_epoch is None


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldFetchEndOffsetOfEmptyCache")
def test_should_fetch_end_offset_of_empty_cache(empty: LeaderEpochFileCache) -> None:
    assert empty.end_offset_for(7, 0) is None


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldClearEarliestOnEmptyCache")
def test_should_clear_earliest_on_empty_cache(empty: LeaderEpochFileCache) -> None:
    empty.truncate_from_start_async_flush(7)
    assert empty.is_empty


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldClearLatestOnEmptyCache")
def test_should_clear_latest_on_empty_cache(empty: LeaderEpochFileCache) -> None:
    empty.truncate_from_end_async_flush(7)
    assert empty.is_empty


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldWriteCheckpointOnTruncation")
def test_should_write_checkpoint_on_truncation(
    cache: LeaderEpochFileCache, checkpoint: LeaderEpochCheckpointFile
) -> None:
    cache.truncate_from_end_async_flush(11)
    cache.truncate_from_start_async_flush(8)
    assert checkpoint.read() == [EpochEntry(3, 8)]
