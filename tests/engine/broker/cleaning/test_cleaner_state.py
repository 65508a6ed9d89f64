"""Which log is cleaned next, who waits for whom, and what a bad checkpoint costs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.broker.cleaning.cleaner_state import CleanerState, Cleaning, Paused
from engine.broker.cleaning.cleaner_stats import PreCleanStats
from engine.broker.cleaning.log_to_clean import LogCleaningError, LogToClean
from engine.broker.log.unified_log import UnifiedLog
from engine.errors import LogCleaningAbortedError, StateError
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from tests.conformance.log_cleaning import CleaningBench, append_until, record

PARTITION = TopicPartition("log", 0)
OTHER = TopicPartition("other", 0)


@pytest.fixture
def bench(tmp_path: Path) -> CleaningBench:
    return CleaningBench(tmp_path)


def filthy(bench: CleaningBench, name: str, segments: int = 3, **config: object) -> UnifiedLog:
    """A log that is dirty up to its active segment."""
    log = bench.open(bench.config(**config), folder=bench.log_dir / name)
    append_until(log, segments)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.fixture
def state(bench: CleaningBench) -> CleanerState:
    """One idle log."""
    return CleanerState([bench.log_dir], {PARTITION: filthy(bench, "log-0")})


def test_the_log_with_the_largest_dirty_part_is_grabbed_and_then_the_next(
    bench: CleaningBench,
) -> None:
    logs = {PARTITION: filthy(bench, "log-0", 4), OTHER: filthy(bench, "other-0", 4)}
    state = CleanerState([bench.log_dir], logs)
    half = logs[PARTITION].segments[1].base_offset
    state.checkpoints.update(bench.log_dir, update=(PARTITION, half))
    stats = PreCleanStats()
    first = state.grab_filthiest_compacted_log(bench.now, stats)
    assert first is not None
    assert (first.topic_partition, first.cleanable_ratio) == (OTHER, 1.0)
    assert stats.cleanable_partitions == 2
    assert state.cleaning_state(OTHER) is Cleaning.IN_PROGRESS
    second = state.grab_filthiest_compacted_log(bench.now)
    assert second is not None
    assert second.topic_partition == PARTITION
    assert 0.5 < second.cleanable_ratio < 1
    assert state.grab_filthiest_compacted_log(bench.now) is None


def test_a_log_that_is_hardly_dirty_waits_until_it_was_dirty_for_too_long(
    bench: CleaningBench,
) -> None:
    lag = 1000
    log = bench.open(bench.config(min_cleanable_ratio=1.0, max_compaction_lag_ms=lag))
    log.append_as_leader(record(1, 1), 0)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    state = CleanerState([bench.log_dir], {PARTITION: log})
    assert state.grab_filthiest_compacted_log(bench.now) is None
    later = bench.now + 10 * lag
    stamped = filthy(bench, "other-0", min_cleanable_ratio=1.0, max_compaction_lag_ms=lag)
    stats = PreCleanStats()
    for segment in stamped.segments:
        segment.age.first_timestamp = bench.now
    state = CleanerState([bench.log_dir], {OTHER: stamped})
    grabbed = state.grab_filthiest_compacted_log(later, stats)
    assert grabbed is not None
    assert grabbed.need_compaction_now
    assert stats.max_compaction_delay_ms == 9 * lag
    assert stats.delayed_partitions == 1


def test_an_uncleanable_log_is_left_alone_until_it_is_gone(bench: CleaningBench) -> None:
    logs = {PARTITION: filthy(bench, "log-0")}
    state = CleanerState([bench.log_dir], logs)
    state.mark_uncleanable(str(bench.log_dir), PARTITION)
    assert state.grab_filthiest_compacted_log(bench.now) is None
    assert state.deletable_logs() == {}
    state.maintain_uncleanable_partitions()
    assert state.uncleanable_partitions(str(bench.log_dir)) == {PARTITION}
    del logs[PARTITION]
    state.maintain_uncleanable_partitions()
    assert state.uncleanable_partitions(str(bench.log_dir)) == set()


def test_being_uncleanable_moves_with_the_log(bench: CleaningBench, state: CleanerState) -> None:
    state.mark_uncleanable(str(bench.log_dir), PARTITION)
    state.alter_checkpoint_dir(PARTITION, bench.log_dir, bench.log_dir / "elsewhere")
    assert not state.is_uncleanable(str(bench.log_dir), PARTITION)
    assert state.is_uncleanable(str(bench.log_dir / "elsewhere"), PARTITION)


def test_a_log_that_cannot_be_measured_says_which_and_why(
    bench: CleaningBench, state: CleanerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StateError("no such luck")

    monkeypatch.setattr("engine.broker.cleaning.cleaner_state.compaction_delay", fail)
    with pytest.raises(LogCleaningError, match=r"log-0.*no such luck") as caught:
        state.grab_filthiest_compacted_log(bench.now)
    assert caught.value.log.topic_partition == PARTITION
    assert state.cleaning_state(PARTITION) is None


def test_a_checkpoint_that_does_not_parse_counts_as_none_and_is_replaced(
    bench: CleaningBench, state: CleanerState
) -> None:
    path = bench.log_dir / "cleaner-offset-checkpoint"
    path.write_text("0\nnot a number\n")
    assert state.checkpoints.all() == {}
    grabbed = state.grab_filthiest_compacted_log(bench.now)
    assert grabbed is not None
    assert grabbed.first_dirty_offset == 0
    path.write_text("")
    state.done_cleaning(PARTITION, bench.log_dir, 7)
    assert path.read_text() == "0\n1\nlog 0 7\n"


def test_logs_that_are_gone_leave_the_checkpoint(bench: CleaningBench, state: CleanerState) -> None:
    path = bench.log_dir / "cleaner-offset-checkpoint"
    path.write_text("0\n2\ngone 3 5\nlog 0 1\n")
    state.checkpoints.update(bench.log_dir, update=(PARTITION, 2))
    assert path.read_text() == "0\n1\nlog 0 2\n"


def test_a_failed_log_dir_has_no_checkpoint_any_more(
    bench: CleaningBench, state: CleanerState
) -> None:
    state.checkpoints.update(bench.log_dir, update=(PARTITION, 2))
    state.checkpoints.forget(bench.log_dir)
    assert state.checkpoints.all() == {}
    state.checkpoints.update(bench.log_dir, update=(PARTITION, 3))
    state.checkpoints.maybe_truncate(bench.log_dir, PARTITION, 0)
    assert (bench.log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\nlog 0 2\n"


def test_an_abort_waits_until_the_cleaning_has_stopped(
    bench: CleaningBench, state: CleanerState
) -> None:
    assert state.grab_filthiest_compacted_log(bench.now) is not None
    aborting = threading.Thread(target=state.abort_and_pause_cleaning, args=(PARTITION,))
    aborting.start()
    while state.cleaning_state(PARTITION) is not Cleaning.ABORTED:
        aborting.join(0.001)
    assert aborting.is_alive()
    with pytest.raises(LogCleaningAbortedError):
        state.check_cleaning_aborted(PARTITION)
    with pytest.raises(StateError, match="aborted already"):
        state.abort_and_pause_cleaning(PARTITION)
    state.done_cleaning(PARTITION, bench.log_dir, 5)
    aborting.join(10)
    assert not aborting.is_alive()
    # What an aborted cleaning reached does not count.
    assert state.checkpoints.all() == {}
    assert state.cleaning_state(PARTITION) == Paused(1)


def test_each_pause_has_to_be_resumed(bench: CleaningBench, state: CleanerState) -> None:
    for _ in range(2):
        state.abort_and_pause_cleaning(PARTITION)
    assert state.cleaning_state(PARTITION) == Paused(2)
    state.resume_cleaning([PARTITION])
    assert state.grab_filthiest_compacted_log(bench.now) is None
    state.resume_cleaning([PARTITION])
    assert state.cleaning_state(PARTITION) is None
    with pytest.raises(StateError, match="not paused but idle"):
        state.resume_cleaning([PARTITION])


@pytest.mark.parametrize("busy", [None, Paused(1)])
def test_only_what_is_in_progress_can_be_done(
    bench: CleaningBench, state: CleanerState, busy: Paused | None
) -> None:
    if busy is not None:
        state.abort_and_pause_cleaning(PARTITION)
    with pytest.raises(StateError, match="not in progress"):
        state.done_cleaning(PARTITION, bench.log_dir, 1)
    with pytest.raises(StateError, match="not in progress"):
        state.done_deleting([PARTITION])
    assert state.cleaning_state(PARTITION) == busy
    assert state.checkpoints.all() == {}


def test_the_dirty_ratio_leaves_out_the_active_segment(bench: CleaningBench) -> None:
    log = filthy(bench, "log-0", 6)
    bases = [segment.base_offset for segment in log.segments]
    sizes = [segment.size for segment in log.segments]
    everything = LogToClean.of(log, bases[-1], bases[-1])
    assert everything.total_bytes == sum(sizes[:-1])
    part = LogToClean.of(log, bases[2], bases[4])
    assert part.clean_bytes == sum(sizes[:2])
    assert part.cleanable_bytes == sum(sizes[2:4])
    assert part.cleanable_ratio == sum(sizes[2:4]) / sum(sizes[:4])
    assert part.first_uncleanable_offset == bases[4]
    assert LogToClean.of(log, 0, 0).cleanable_ratio == 0.0


def test_a_log_without_compaction_is_none_of_the_cleaners(bench: CleaningBench) -> None:
    log = bench.open(LogConfig())
    state = CleanerState([bench.log_dir], {PARTITION: log})
    assert state.grab_filthiest_compacted_log(bench.now) is None
    assert state.deletable_logs() == {}
    assert state.pause_cleaning_for_non_compacted_partitions() == {PARTITION: log}
    assert state.pause_cleaning_for_non_compacted_partitions() == {}
