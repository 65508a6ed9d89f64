"""What a log does when it is created, renamed, closed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import StateError
from engine.units import EpochEntry
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import log_delete_dir_name
from tests.clocks import MockScheduler, MockTask
from tests.conformance.unified_log_steps import LogBench, append_plain, of_producer, producer, rec
from tests.crash.recording import RecordingDisk

MINUTE_MS = 60_000
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"


class Watched(MockScheduler):
    """Keeps all tasks; those for now wait until they are asked for."""

    def __init__(self, bench: LogBench) -> None:
        super().__init__(bench.clock)
        self.tasks: dict[str, MockTask] = {}
        self.times: dict[str, tuple[int, int]] = {}

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1
    ) -> MockTask:
        self.times[name] = delay_ms, period_ms
        self.tasks[name] = made = MockTask(name, task, period_ms)
        return made

    @property
    def expiration(self) -> MockTask:
        return self.tasks["PeriodicProducerExpirationCheck"]


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    made = LogBench(tmp_path)
    made.scheduler = Watched(made)
    return made


@pytest.fixture
def scheduler(bench: LogBench) -> Watched:
    assert isinstance(bench.scheduler, Watched)
    return bench.scheduler


def with_defaults(bench: LogBench, **options: bool) -> UnifiedLog:
    return UnifiedLog.create(
        bench.folder, LogConfig(), bench.scheduler, clock=bench.clock, **options
    )


def test_producers_are_checked_for_expiration_every_ten_minutes(
    bench: LogBench, scheduler: Watched
) -> None:
    log = with_defaults(bench)
    interval = 10 * MINUTE_MS
    assert scheduler.times["PeriodicProducerExpirationCheck"] == (interval, interval)
    scheduler.times.clear()
    UnifiedLog(log.local_log, log.leader_epoch_cache, log.producer_state, 0)
    assert scheduler.times["PeriodicProducerExpirationCheck"] == (interval, interval)


def test_a_transaction_is_late_five_minutes_after_the_default_timeout(bench: LogBench) -> None:
    log = with_defaults(bench)
    producer(log, 1, 0, bench.now)(1)
    late = bench.now + (15 + 5) * MINUTE_MS
    assert not log.producer_state.has_late_transaction(late)
    assert log.producer_state.has_late_transaction(late + 1)


def test_without_a_checkpoint_nothing_counts_as_flushed_after_a_crash(bench: LogBench) -> None:
    with with_defaults(bench) as log:
        append_plain(log, 3)
    assert with_defaults(bench).recovery_point == 3
    assert with_defaults(bench, last_shutdown_clean=False).recovery_point == 0


def test_expired_producers_are_forgotten(bench: LogBench, scheduler: Watched) -> None:
    log = bench.open(producer_id_expiration_ms=MINUTE_MS)
    log.append_as_leader(of_producer(1, 0, rec("a", bench.now)), 0)
    bench.clock.sleep(MINUTE_MS - 1)
    scheduler.expiration.run()
    assert log.producer_state.last_entry(1) is not None
    bench.clock.sleep(1)
    scheduler.expiration.run()
    assert log.producer_state.last_entry(1) is None


@pytest.mark.parametrize("end", [UnifiedLog.close, UnifiedLog.close_handlers, UnifiedLog.delete])
def test_a_log_that_has_ended_expires_no_producers(
    bench: LogBench, scheduler: Watched, end: Callable[[UnifiedLog], None]
) -> None:
    log = bench.open()
    assert not scheduler.expiration.is_cancelled
    end(log)
    assert scheduler.expiration.is_cancelled


@pytest.mark.parametrize(
    "act",
    [
        UnifiedLog.close,
        lambda log: append_plain(log, 1),
        lambda log: log.rename_folder("topic-7"),
    ],
)
def test_a_topic_id_that_waits_is_written_first(
    bench: LogBench, act: Callable[[UnifiedLog], object]
) -> None:
    log = bench.open()
    log.assign_topic_id(TOPIC_ID)
    assert not (Path(log.folder) / "partition.metadata").exists()
    act(log)
    assert TOPIC_ID in (Path(log.folder) / "partition.metadata").read_text()


def test_the_snapshot_of_a_closed_log_has_its_name_on_the_device(bench: LogBench) -> None:
    disk = RecordingDisk(bench.log_dir)
    log = bench.open(disk=disk)
    append_plain(log, 1)
    log.close()
    calls = disk.recording.calls
    assert "sync folder topic-0" in calls[calls.index(f"make {1:020}.snapshot") :]


def test_a_log_closed_without_a_flush_is_neither_closed_again_nor_deleted(
    bench: LogBench,
) -> None:
    log = bench.open()
    append_plain(log, 1)
    log.close_handlers()
    names = bench.names("")
    for act in (log.close, log.delete, lambda: log.read(0, 1), lambda: log.truncate_to(0)):
        with pytest.raises(StateError, match="closed"):
            act()
    assert bench.names("") == names


def test_a_folder_that_is_renamed_to_its_own_name_keeps_its_epochs(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 1)
    epochs = log.leader_epoch_cache
    log.rename_folder("topic-0", should_reinitialize=False)
    assert log.leader_epoch_cache is epochs
    assert epochs.epoch_entries == [EpochEntry(0, 0)]
    log.assign_topic_id(TOPIC_ID)
    assert log.topic_identity.file is not None


def test_a_renamed_log_writes_epochs_and_snapshots_into_the_renamed_folder(
    bench: LogBench,
) -> None:
    log = bench.open()
    append_plain(log, 1)
    log.rename_folder("topic-7")
    log.append_as_leader(of_producer(1, 0, rec("a")), 5)
    log.close()
    folder = bench.log_dir / "topic-7"
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n5 1\n"
    assert (folder / f"{2:020}.snapshot").exists()
    assert not bench.folder.exists()


def test_a_log_that_is_deleted_or_will_be_has_no_epochs(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 1)
    log.rename_folder(log_delete_dir_name(log.topic_partition), should_reinitialize=False)
    assert log.leader_epoch_cache.epoch_entries == []
    other = bench.open()
    append_plain(other, 1)
    other.delete()
    assert other.leader_epoch_cache.epoch_entries == []
    assert not bench.folder.exists()
