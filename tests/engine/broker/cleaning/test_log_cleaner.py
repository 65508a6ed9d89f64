"""A cleaner by call and in threads: what fails stays alone, what is stopped leaves its log as it was."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.broker.cleaning.log_cleaner import CleanerConfig, LogCleaner
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import Disk, WritableFile
from engine.units import TopicPartition
from tests.clocks import MockClock
from tests.conformance.log_cleaning import CleaningBench, keys_in, record

SMALL = CleanerConfig(dedupe_buffer_size=24 * 1000, io_buffer_size=2048, backoff_ms=5)
PARTITIONS = [TopicPartition("log", number) for number in range(2)]


@pytest.fixture
def bench(tmp_path: Path) -> CleaningBench:
    return CleaningBench(tmp_path)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def filthy(bench: CleaningBench, name: str, **config: object) -> UnifiedLog:
    """A log in which each of ten keys was written often."""
    log = bench.open(bench.config(**config), folder=bench.log_dir / name)
    number = 0
    while len(log.segments) < 5:
        log.append_as_leader(record(number % 10, number), 0)
        number += 1
    log.update_high_watermark(log.log_end_offset)
    return log


def cleaner_of(bench: CleaningBench, *logs: UnifiedLog, **options: Disk) -> LogCleaner:
    named = {log.topic_partition: log for log in logs}
    return LogCleaner([bench.log_dir], named, SMALL, clock=bench.clock, **options)


def is_clean(log: UnifiedLog) -> bool:
    cleaned = [found.key for segment in log.segments[:-1] for found in segment.log.records()]
    return len(cleaned) == len(set(cleaned)) == 10


def test_each_call_cleans_one_log_and_says_whether_there_was_one(bench: CleaningBench) -> None:
    logs = [filthy(bench, "log-0"), filthy(bench, "log-1")]
    cleaner = cleaner_of(bench, *logs)
    assert [cleaner.clean_once() for _ in range(3)] == [True, True, False]
    assert all(map(is_clean, logs))
    ends = {log.topic_partition: log.active_segment.base_offset for log in logs}
    assert cleaner.state.checkpoints.all() == ends
    stats = cleaner.last_stats
    assert stats.messages_read > stats.messages_written == 10
    assert stats.map_messages_read == stats.messages_read
    assert stats.bytes_written < stats.bytes_read == stats.map_bytes_read
    assert stats.buffer_utilization == 10 / 1000
    assert stats.end_time >= stats.map_complete_time >= stats.start_time > 0


def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned(bench: CleaningBench) -> None:
    damaged, good = filthy(bench, "log-0"), filthy(bench, "log-1")
    path = Path(damaged.segments[1].log.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    cleaner = cleaner_of(bench, damaged, good)
    while cleaner.state.uncleanable_partitions(str(bench.log_dir)) == set():
        cleaner.clean_once()
    cleaner.clean_once()
    assert cleaner.state.uncleanable_partitions(str(bench.log_dir)) == {PARTITIONS[0]}
    assert path.read_bytes() == bytes(data)
    assert is_clean(good)
    assert cleaner.clean_once() is False


class FullDisk(Disk):
    """No .cleaned file can be written."""

    def open(self, path, **options) -> WritableFile:
        if ".cleaned" in str(path):
            raise OSError(28, "No space left on device")
        return super().open(path, **options)


def test_a_failing_disk_takes_the_log_dir_offline_and_the_log_stays(bench: CleaningBench) -> None:
    log = filthy(bench, "log-0")
    keys = keys_in(log)
    log.log_folder.disk = FullDisk()
    cleaner = cleaner_of(bench, log)
    cleaner.clean_once()
    assert log.log_folder.channel.has_offline_log_dir(str(bench.log_dir))
    assert keys_in(log) == keys
    assert cleaner.state.checkpoints.all() == {PARTITIONS[0]: 0}
    cleaner.state.checkpoints.forget(bench.log_dir)
    assert cleaner.state.checkpoints.all() == {}


def test_threads_clean_what_gets_dirty_and_stop_when_told(bench: CleaningBench) -> None:
    log = filthy(bench, "log-0")
    with cleaner_of(bench, log) as cleaner:
        assert cleaner.await_cleaned(PARTITIONS[0], log.active_segment.base_offset, 30_000)
        log.append_as_leader(record(1, 1), 0)
        log.roll()
        log.append_as_leader(record(1, 2), 0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    assert not [each for each in threading.enumerate() if each.name.startswith("log-cleaner")]
    assert not cleaner.await_cleaned(PARTITIONS[0], log.log_end_offset + 1, 20)


class Stopping:
    """Stops a cleaner in the midst of a cleaning, from within its own calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop) -> None:
        from engine.broker.cleaning import cleaner

        self.was_called = False
        filter_chunk = cleaner.filter_chunk

        def stopping(*arguments):
            self.was_called = True
            stop()
            return filter_chunk(*arguments)

        monkeypatch.setattr(cleaner, "filter_chunk", stopping)


def test_a_cleaning_that_is_aborted_leaves_the_log_and_the_checkpoint(
    bench: CleaningBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filthy(bench, "log-0")
    keys = keys_in(log)
    cleaner = cleaner_of(bench, log)
    aborting: list[threading.Thread] = []

    def abort() -> None:
        if not aborting:
            aborting.append(
                threading.Thread(
                    target=cleaner.state.abort_and_pause_cleaning, args=(PARTITIONS[0],)
                )
            )
            aborting[0].start()
            while str(cleaner.state.cleaning_state(PARTITIONS[0])) != "Cleaning.ABORTED":
                aborting[0].join(0.001)

    assert not Stopping(monkeypatch, abort).was_called
    assert cleaner.clean_once() is True
    aborting[0].join(10)
    assert keys_in(log) == keys
    assert cleaner.state.checkpoints.all() == {}
    assert not bench.names(".cleaned")
    assert cleaner.clean_once() is False
    cleaner.state.resume_cleaning(PARTITIONS[:1])
    assert cleaner.clean_once() is True
    assert is_clean(log)


def test_a_shutdown_in_the_midst_of_a_cleaning_leaves_the_log(
    bench: CleaningBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filthy(bench, "log-0")
    keys = keys_in(log)
    cleaner = cleaner_of(bench, log)
    reached, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        reached.set()
        go_on.wait(10)

    stopping = Stopping(monkeypatch, pause)
    cleaner.start()
    assert reached.wait(10)
    shutdown = threading.Thread(target=cleaner.shutdown)
    shutdown.start()
    shutdown.join(0.05)
    go_on.set()
    shutdown.join(10)
    assert stopping.was_called
    assert keys_in(log) == keys
    assert not bench.names(".cleaned")
    assert cleaner.clean_once() is True
    assert is_clean(log)


def test_old_segments_of_compacted_logs_are_deleted_on_the_way(bench: CleaningBench) -> None:
    log = filthy(bench, "log-0", delete=True, retention_ms=1000)
    cleaner = cleaner_of(bench, log)
    for segment in log.segments:
        segment.files.set_last_modified(bench.now - 5000)
    cleaner.clean_once()
    cleaner.clean_once()
    assert log.log_start_offset == log.active_segment.base_offset
    assert cleaner.state.cleaning_state(PARTITIONS[0]) is None


def test_a_map_for_no_key_is_refused(bench: CleaningBench) -> None:
    with pytest.raises(ValueError, match="holds no key"):
        bench.cleaner(1)


def test_a_throttler_sleeps_off_what_was_too_much() -> None:
    clock = MockClock(0)
    throttler = Throttler(1000.0, clock, check_interval_ms=100)
    throttler.maybe_throttle(500)
    assert clock.ms == 0
    clock.sleep(200)
    throttler.maybe_throttle(300)
    assert clock.ms == 800
    # The next period begins with nothing.
    clock.sleep(200)
    throttler.maybe_throttle(100)
    assert clock.ms == 1000
