"""What Kafka's LeaderEpochFileCacheTest asks of assigning, looking up and keeping epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from tests.clocks import MockClock, MockScheduler

PARTITION = TopicPartition("TestTopic", 5)


@pytest.fixture
def checkpoint(tmp_path: Path) -> LeaderEpochCheckpointFile:
    return LeaderEpochCheckpointFile(tmp_path / "leader-epoch-checkpoint")


@pytest.fixture
def cache(checkpoint: LeaderEpochCheckpointFile) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(PARTITION, checkpoint, MockScheduler(MockClock()))


def assign(cache: LeaderEpochFileCache, *entries: tuple[int, int]) -> None:
    for epoch, offset in entries:
        cache.assign(epoch, offset)


@pytest.mark.conformance("LeaderEpochFileCacheTest.testPreviousEpoch")
def test_previous_epoch(cache: LeaderEpochFileCache) -> None:
    assert cache.previous_epoch() is None
    cache.assign(2, 10)
    assert cache.previous_epoch() is None
    cache.assign(4, 15)
    assert cache.previous_epoch() == 2
    cache.assign(10, 20)
    assert cache.previous_epoch() == 4
    cache.truncate_from_end_async_flush(18)
    assert cache.previous_epoch() == 2


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldAddEpochAndMessageOffsetToCache")
def test_should_add_epoch_and_message_offset_to_cache(cache: LeaderEpochFileCache) -> None:
    cache.assign(2, 10)
    assert cache.latest_epoch == 2
    assert cache.epoch_entries[0] == EpochEntry(2, 10)
    assert cache.end_offset_for(2, 11) == (2, 11)


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldReturnLogEndOffsetIfLatestEpochRequested")
def test_should_return_log_end_offset_if_latest_epoch_requested(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 11), (2, 12))
    assert cache.end_offset_for(2, 14) == (2, 14)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldReturnUndefinedOffsetIfUndefinedEpochRequested"
)
def test_should_return_undefined_offset_if_undefined_epoch_requested(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 11), (3, 12))
    assert cache.end_offset_for(-1, 0) is None


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldNotOverwriteLogEndOffsetForALeaderEpochOnceItHasBeenAssigned"
)
def test_should_not_overwrite_log_end_offset_for_a_leader_epoch_once_it_has_been_assigned(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 9), (2, 10))
    assert cache.epoch_entries == [EpochEntry(2, 9)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingStartOffsets"
)
def test_should_enforce_monotonically_increasing_start_offsets(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 9), (3, 9))
    assert cache.epoch_entries == [EpochEntry(3, 9)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldNotOverwriteOffsetForALeaderEpochOnceItHasBeenAssigned"
)
def test_should_not_overwrite_offset_for_a_leader_epoch_once_it_has_been_assigned(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 6), (2, 10))
    assert cache.epoch_entries[0].start_offset == 6


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldReturnUnsupportedIfNoEpochRecorded")
def test_should_return_unsupported_if_no_epoch_recorded(cache: LeaderEpochFileCache) -> None:
    assert cache.end_offset_for(0, 0) is None


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldReturnUnsupportedIfNoEpochRecordedAndUndefinedEpochRequested"
)
def test_should_return_unsupported_if_no_epoch_recorded_and_undefined_epoch_requested(
    cache: LeaderEpochFileCache,
) -> None:
    assert cache.end_offset_for(-1, 73) is None


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldReturnFirstEpochIfRequestedEpochLessThanFirstEpoch"
)
def test_should_return_first_epoch_if_requested_epoch_less_than_first_epoch(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (5, 11), (6, 12), (7, 13))
    assert cache.end_offset_for(4, 0) == (4, 11)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldTruncateIfMatchingEpochButEarlierStartingOffset"
)
def test_should_truncate_if_matching_epoch_but_earlier_starting_offset(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (5, 11), (6, 12), (7, 13), (7, 12))
    assert cache.end_offset_for(5, 0) == (5, 12)
    assert cache.end_offset_for(6, 0) == (5, 12)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest"
    ".shouldGetFirstOffsetOfSubsequentEpochWhenOffsetRequestedForPreviousEpoch"
)
def test_should_get_first_offset_of_subsequent_epoch_when_offset_requested_for_previous_epoch(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16))
    assert cache.end_offset_for(2, 17) == (2, 15)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested"
)
def test_should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (0, 10), (2, 13), (4, 17))
    assert cache.end_offset_for(1, 0) == (0, 13)
    assert cache.end_offset_for(2, 0) == (2, 17)
    assert cache.end_offset_for(3, 0) == (2, 17)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldNotUpdateEpochAndStartOffsetIfItDidNotChange"
)
def test_should_not_update_epoch_and_start_offset_if_it_did_not_change(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (2, 6), (2, 7))
    assert cache.epoch_entries == [EpochEntry(2, 6)]


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldReturnInvalidOffsetIfEpochIsRequestedWhichIsNotCurrentlyTracked"
)
def test_should_return_invalid_offset_if_epoch_is_requested_which_is_not_currently_tracked(
    cache: LeaderEpochFileCache,
) -> None:
    cache.assign(2, 100)
    assert cache.end_offset_for(3, 100) is None


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldSupportEpochsThatDoNotStartFromZero")
def test_should_support_epochs_that_do_not_start_from_zero(cache: LeaderEpochFileCache) -> None:
    cache.assign(2, 6)
    assert cache.end_offset_for(2, 7) == (2, 7)
    assert cache.epoch_entries == [EpochEntry(2, 6)]


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldPersistEpochsBetweenInstances")
def test_should_persist_epochs_between_instances(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    LeaderEpochFileCache(
        PARTITION, LeaderEpochCheckpointFile(path), MockScheduler(MockClock())
    ).assign(2, 6)
    second = LeaderEpochFileCache(
        PARTITION, LeaderEpochCheckpointFile(path), MockScheduler(MockClock())
    )
    assert second.epoch_entries == [EpochEntry(2, 6)]


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingEpochs")
def test_should_enforce_monotonically_increasing_epochs(cache: LeaderEpochFileCache) -> None:
    assign(cache, (1, 5), (2, 6), (1, 7))
    assert cache.latest_epoch == 1
    assert cache.end_offset_for(1, 8) == (1, 8)
    assert cache.end_offset_for(2, 8) is None
    assert cache.epoch_entries[0] == EpochEntry(1, 7)


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldEnforceOffsetsIncreaseMonotonically")
def test_should_enforce_offsets_increase_monotonically(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 6), (3, 5))
    assert cache.epoch_entries[0] == EpochEntry(3, 5)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes"
)
def test_should_increase_and_track_epochs_as_leaders_change_many_times(
    cache: LeaderEpochFileCache,
) -> None:
    assign(cache, (0, 0), (1, 0))
    assert cache.latest_epoch == 1
    assert cache.end_offset_for(1, 0) == (1, 0)
    assert cache.end_offset_for(0, 0) == (0, 0)
    assert cache.end_offset_for(1, 5) == (1, 5)
    assert cache.end_offset_for(0, 5) == (0, 0)
    cache.assign(2, 5)
    assert cache.end_offset_for(2, 10) == (2, 10)
    assert cache.end_offset_for(1, 10) == (1, 5)
    assert cache.end_offset_for(0, 10) == (0, 0)


@pytest.mark.conformance(
    "LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages"
)
def test_should_increase_and_track_epochs_as_follower_receives_many_messages(
    cache: LeaderEpochFileCache,
) -> None:
    for epoch, end in ((0, 3), (1, 6), (2, 9)):
        assign(cache, *((epoch, offset) for offset in range(end - 3, end)))
        assert cache.latest_epoch == epoch
        assert cache.end_offset_for(epoch, end) == (epoch, end)
    assert cache.end_offset_for(0, 9) == (0, 3)
    assert cache.end_offset_for(1, 9) == (1, 6)


@pytest.mark.conformance("LeaderEpochFileCacheTest.testFindPreviousEpoch")
def test_find_previous_epoch(cache: LeaderEpochFileCache) -> None:
    assert cache.previous_epoch(2) is None
    cache.assign(2, 10)
    assert cache.previous_epoch(2) is None
    cache.assign(4, 15)
    assert cache.previous_epoch(4) == 2
    cache.assign(10, 20)
    assert cache.previous_epoch(10) == 4
    cache.truncate_from_end_async_flush(18)
    assert cache.latest_epoch == 4
    assert cache.previous_epoch(4) == 2


@pytest.mark.conformance("LeaderEpochFileCacheTest.testFindPreviousEntry")
def test_find_previous_entry(cache: LeaderEpochFileCache) -> None:
    assert cache.previous_entry(2) is None
    cache.assign(2, 10)
    assert cache.previous_entry(2) is None
    cache.assign(4, 15)
    assert cache.previous_entry(4) == EpochEntry(2, 10)
    cache.assign(10, 20)
    assert cache.previous_entry(10) == EpochEntry(4, 15)
    cache.truncate_from_end_async_flush(18)
    assert cache.latest_epoch == 4
    assert cache.previous_entry(4) == EpochEntry(2, 10)


@pytest.mark.conformance("LeaderEpochFileCacheTest.testFindNextEpoch")
def test_find_next_epoch(cache: LeaderEpochFileCache) -> None:
    assign(cache, (0, 0), (1, 100), (2, 200))
    assert [cache.next_epoch(each) for each in (-1, 0, 1, 2, 100)] == [0, 1, 2, None, None]


@pytest.mark.conformance("LeaderEpochFileCacheTest.testGetEpochEntry")
def test_get_epoch_entry(cache: LeaderEpochFileCache) -> None:
    entries = [EpochEntry(2, 100), EpochEntry(3, 500), EpochEntry(5, 1000)]
    assign(cache, *entries)
    assert [cache.epoch_entry(each.epoch) for each in entries] == entries


@pytest.mark.conformance("LeaderEpochFileCacheTest.shouldFetchEpochForGivenOffset")
def test_should_fetch_epoch_for_given_offset(cache: LeaderEpochFileCache) -> None:
    assign(cache, (0, 10), (1, 20), (5, 30))
    found = [cache.epoch_for_offset(offset) for offset in (25, 20, 30, 50, 5)]
    assert found == [1, 1, 5, 5, None]
