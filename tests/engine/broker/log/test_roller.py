"""What reaches the device when a log rolls, and what a flush moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.writing.log_config import LogConfig
from tests.clocks import MockScheduler, MockTask
from tests.conformance.unified_log_steps import LogBench, append_plain, producer
from tests.crash.recording import RecordingDisk


class Waiting(MockScheduler):
    """Keeps the flushes of rolled segments until they are asked for."""

    def __init__(self, bench: LogBench) -> None:
        super().__init__(bench.clock)
        self.flushes: list[Callable[[], object]] = []

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1
    ) -> MockTask:
        if name == "flush-log":
            self.flushes.append(task)
            return MockTask(name, task, -1)
        return super().schedule(name, task, delay_ms, period_ms)


class Rolled:
    """A log with a record of a producer, that has rolled, and whose flush waits."""

    def __init__(self, tmp_path: Path) -> None:
        bench = LogBench(tmp_path)
        self.disk = RecordingDisk(tmp_path)
        self.calls = self.disk.recording.calls
        scheduler = Waiting(bench)
        self.log = UnifiedLog.create(
            bench.folder, LogConfig(), scheduler, clock=bench.clock, disk=self.disk
        )
        producer(self.log, 1, 0, bench.now)(1)
        self.log.roll()
        (self.flush,) = scheduler.flushes
        self.snapshot = bench.folder / f"{1:020}.snapshot"
        assert self.snapshot.exists()

    @property
    def synced(self) -> list[str]:
        return [call.removeprefix("sync ") for call in self.calls if call.startswith("sync ")]


@pytest.fixture
def rolled(tmp_path: Path) -> Rolled:
    return Rolled(tmp_path)


def test_the_snapshot_of_a_roll_is_on_the_device_before_the_segment(rolled: Rolled) -> None:
    assert rolled.snapshot.name not in rolled.synced, "the roll itself does not wait for the device"
    rolled.calls.clear()
    assert rolled.log.recovery_point == 0
    rolled.flush()
    assert rolled.synced[0] == rolled.snapshot.name
    assert f"{0:020}.log" in rolled.synced
    assert rolled.log.recovery_point == 1


def test_a_snapshot_that_is_deleted_before_its_flush_is_not_missed(rolled: Rolled) -> None:
    rolled.disk.remove(rolled.snapshot)
    rolled.flush()
    assert rolled.log.recovery_point == 1
    folder = rolled.log.log_folder
    assert not folder.channel.has_offline_log_dir(folder.log_dir)


@pytest.mark.parametrize(("is_forced", "synced"), [(False, False), (True, True)])
def test_only_a_forced_flush_syncs_an_empty_active_segment(
    rolled: Rolled, is_forced: bool, synced: bool
) -> None:
    rolled.flush()
    rolled.calls.clear()
    if is_forced:
        rolled.log.flush(force_active_segment=True)
    else:
        rolled.log.flush()
    assert (f"{1:020}.log" in rolled.synced) == synced
    assert rolled.log.recovery_point == 1


def test_a_forced_flush_ends_at_the_log_end(rolled: Rolled) -> None:
    rolled.flush()
    rolled.log.local_log.roll(2)
    rolled.calls.clear()
    rolled.log.flush(force_active_segment=True)
    assert f"{1:020}.log" in rolled.synced
    assert f"{2:020}.log" not in rolled.synced


def test_a_flush_with_nothing_to_flush_does_not_ask_whether_the_log_is_open(
    rolled: Rolled,
) -> None:
    rolled.log.flush()
    rolled.log.close_handlers()
    rolled.log.flush()
    assert rolled.log.recovery_point == 1


def test_a_high_watermark_at_the_log_end_follows_it_into_the_new_segment(rolled: Rolled) -> None:
    log = rolled.log
    append_plain(log, 2)
    log.update_high_watermark(3)
    log.roll()
    assert log.watermarks.high_watermark_metadata() == (3, 3, 0)
