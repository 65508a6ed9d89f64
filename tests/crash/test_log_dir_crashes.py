"""Whenever a manager of a whole log dir crashes, the next one starts, with all that had been promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_dirs import LogManager
from engine.disk.disk import DISK, Disk
from engine.files.file_names import LOCK
from engine.units import TopicPartition
from tests.clocks import MockClock, MockScheduler
from tests.conformance.unified_log_steps import one
from tests.crash.driver import CONFIG
from tests.crash.judge import quiet
from tests.crash.recording import RecordingDisk, State, materialize
from tests.crash.soak import states_of, work_folder

NOW = 10**12
SETTINGS = LogDirSettings(threads_per_log_dir=1)
PARTITIONS = [TopicPartition("t", number) for number in range(3)]


@dataclass(frozen=True)
class Promises:
    """For each partition.

    Attributes:
        stable: the log ends there at least, and holds all records from its start on.
        starts: the log begins there at least, unless it is gone.
        gone: those that were deleted.
        may_go: those that are being deleted.
    """

    stable: dict[TopicPartition, int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    gone: frozenset[TopicPartition] = frozenset()
    may_go: frozenset[TopicPartition] = frozenset()


def manager_of(root: Path, disk: Disk = DISK) -> LogManager:
    clock = MockClock(NOW)
    scheduler = MockScheduler(clock)
    return LogManager([root], scheduler, CONFIG, settings=SETTINGS, clock=clock, disk=disk)


class Life:
    """A manager on a disk that records, and what is promised of its logs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.disk = RecordingDisk(root)
        self.promises = Promises()
        self.start()

    def say(self, promises: Promises) -> None:
        self.promises = promises
        self.disk.recording.mark(promises)

    def start(self) -> None:
        self.manager = manager_of(self.root, self.disk)
        self.manager.startup()

    def log(self, partition: TopicPartition) -> UnifiedLog:
        return self.manager.get_or_create_log(partition)

    def append(self, partition: TopicPartition, count: int) -> None:
        """Records whose values are their offsets."""
        log = self.log(partition)
        for _ in range(count):
            log.append_as_leader(one(f"{partition} {log.log_end_offset}", NOW), 0)
        log.update_high_watermark(log.log_end_offset)

    def flush(self, partition: TopicPartition) -> None:
        log = self.log(partition)
        log.flush()
        self.say(
            replace(self.promises, stable=self.promises.stable | {partition: log.log_end_offset})
        )

    def move_start(self, partition: TopicPartition, to: int) -> None:
        self.log(partition).maybe_increment_log_start_offset(to, "records were deleted")
        self.manager.checkpoints.write_log_start_offsets()
        self.say(replace(self.promises, starts=self.promises.starts | {partition: to}))

    def truncate(self, partition: TopicPartition, to: int) -> None:
        stable = self.promises.stable
        self.say(replace(self.promises, stable=stable | {partition: min(to, stable[partition])}))
        self.manager.removal.truncate_to({partition: to})

    def delete(self, partition: TopicPartition) -> None:
        self.say(replace(self.promises, may_go=frozenset([partition])))
        self.manager.removal.async_delete(partition)
        self.say(replace(self.promises, may_go=frozenset(), gone=frozenset([partition])))

    def restart(self) -> None:
        self.manager.shutdown(3)
        ends = {log.topic_partition: log.log_end_offset for log in self.manager.registry.all}
        self.say(replace(self.promises, stable=ends))
        self.start()

    def crash(self) -> None:
        self.manager.tasks.handle_log_dir_failure(str(self.root))


def live(life: Life, random: Random) -> None:
    """Anything a broker does with its log dir, in some order."""
    first, second, third = PARTITIONS
    for partition in PARTITIONS:
        life.append(partition, 9)
    life.flush(first)
    life.manager.checkpoints.write_recovery_points()
    for step in random.sample(range(6), 6):
        if step == 0:
            life.move_start(first, random.randrange(1, 9))
            life.log(first).delete_old_segments()
        elif step == 1:
            life.restart()
        elif step == 2:
            life.flush(second)
            life.truncate(second, random.randrange(9))
        elif step == 3:
            life.delete(third)
        elif step == 4:
            life.manager.scheduler.clock.sleep(2000)  # type: ignore[attr-defined]
        else:
            life.manager.checkpoints.write_recovery_points()
            life.manager.checkpoints.write_high_watermarks()
            life.append(first, 4)
    life.crash()


@contextmanager
def started(root: Path) -> Iterator[LogManager]:
    manager = manager_of(root)
    try:
        with manager:
            yield manager
    finally:
        manager.shutdown()


def judge(state: State, promises: Promises, work: Path) -> None:
    """Start on what a crash left; again after a proper shutdown, with the same logs."""
    root = work / "found"
    materialize(state.tree, root)
    ends = {}
    for _ in range(2):
        with started(root) as manager:
            assert manager.dirs.offline == []
            found = {log.topic_partition: log for log in manager.registry.all}
            for partition, stable in promises.stable.items():
                if partition in promises.gone | (promises.may_go - found.keys()):
                    continue
                check_log(found[partition], stable, promises.starts.get(partition, 0))
            assert not promises.gone & found.keys()
            now = {partition: log.log_end_offset for partition, log in found.items()}
            assert now == (ends or now)
            ends = now
    assert not (root / LOCK).exists()


def check_log(log: UnifiedLog, stable: int, start: int) -> None:
    assert log.log_start_offset >= start
    assert log.log_end_offset >= stable
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for batch in log.read(offset, 1000).records.batches():
            (record,) = batch.records()
            if record.offset >= offset:
                assert record.offset == offset
                assert record.value == f"{log.topic_partition} {offset}".encode()
                offset += 1


def promises_at(life: Life, crash: int) -> Promises:
    said = life.disk.recording.marks_before(crash)
    last = said[-1] if said else Promises()
    assert isinstance(last, Promises)
    return last


@pytest.mark.parametrize("seed", range(5))
def test_a_manager_that_crashes_at_any_call_leaves_a_log_dir_that_the_next_can_start_on(
    seed: int,
) -> None:
    random = Random(seed)
    work = work_folder()
    with quiet():
        life = Life(work / "made")
        live(life, random)
        for number, state in enumerate(states_of(life.disk.recording, random, 25)):
            place = work / str(number)
            place.mkdir()
            judge(state, promises_at(life, state.crash), place)
