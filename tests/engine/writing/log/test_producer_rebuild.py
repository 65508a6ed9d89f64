"""Which batches decide the producers of a log that is loaded or cut, and where snapshots of them are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.writing.log.producer_rebuild import rebuild_producer_state
from engine.writing.state.producer_state_manager import ProducerStateManager
from tests.conformance.unified_log_steps import (
    COMMIT,
    LogBench,
    append_plain,
    end_txn,
    of_producer,
    producer,
    rec,
)


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def six_producers(bench: LogBench) -> UnifiedLog:
    """A record of each of the producers 0 to 5; two in a segment."""
    log = bench.open()
    for number in range(6):
        log.append_as_leader(of_producer(number, 0, rec("a", bench.now)), 0)
        if number % 2:
            log.roll()
    return log


def rebuilt(bench: LogBench, log: UnifiedLog, end: int, start: int = 0) -> list[int]:
    """The producers of the batches below an offset."""
    for name in bench.names(".snapshot"):
        (bench.folder / name).unlink()
    manager = ProducerStateManager(log.topic_partition, bench.folder, 1000, clock=bench.clock)
    rebuild_producer_state(
        manager,
        log.local_log.segments,
        start,
        end,
        bench.clock,
        reload_from_clean_shutdown=False,
    )
    assert manager.map_end_offset == end
    return [number for number in range(6) if manager.last_entry(number) is not None]


@pytest.mark.parametrize("end", [1, 2, 3, 4, 5, 6])
def test_batches_up_to_the_last_offset_count(bench: LogBench, end: int) -> None:
    assert rebuilt(bench, six_producers(bench), end) == list(range(end))


@pytest.mark.parametrize("start", [1, 2, 3])
def test_batches_from_the_log_start_on_count(bench: LogBench, start: int) -> None:
    assert rebuilt(bench, six_producers(bench), 6, start) == list(range(start, 6))


def test_snapshots_are_kept_of_the_last_two_segments_and_of_the_end(bench: LogBench) -> None:
    log = six_producers(bench)
    append_plain(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    rebuilt(bench, log, 7)
    assert bench.snapshot_offsets == [4, 6, 7]


def test_a_log_that_was_closed_without_snapshots_counts_as_one_without_producers(
    bench: LogBench,
) -> None:
    log = six_producers(bench)
    append_plain(log, 1)
    log.close()
    for name in bench.names(".snapshot"):
        (bench.folder / name).unlink()
    with bench.open() as log:
        assert log.producer_state.is_empty
        assert bench.snapshot_offsets == [4, 6, 7]


def test_transactions_that_began_and_ended_after_the_snapshot_are_not_open(
    bench: LogBench,
) -> None:
    log = bench.open()
    producer(log, 1, 0, bench.now)(1)
    end_txn(log, 1, 0, COMMIT, bench.now)
    producer(log, 2, 0, bench.now)(1)
    append_plain(log, 1)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    log.truncate_to(3)
    assert (log.last_stable_offset, log.watermarks.first_unstable_offset) == (2, 2)
    log.truncate_to(2)
    assert (log.last_stable_offset, log.watermarks.first_unstable_offset) == (2, None)
