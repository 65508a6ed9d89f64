"""What Kafka's LogDirFailureTest asks of a log dir that fails, without a cluster.

Kafka's test runs two brokers with three log dirs each, a controller, a producer and a consumer. Here a
LogManager stands for each broker (see `replica_pair`), with two log dirs on the leader; an append stands
for the producer, whose error is that of the log; `change_leader` stands for the controller, whose
metadata of offline replicas nothing here has; a read stands for the consumer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import LogDirFailureError
from tests.conformance.log_managers import Managers, append, log_of
from tests.conformance.replica_pair import PARTITION, ReplicaPair


@pytest.fixture
def pair(managers: Managers, tmp_path: Path) -> ReplicaPair:
    made = ReplicaPair(managers, tmp_path)
    made.produce()
    made.replicate()
    return made


def roll(pair: ReplicaPair) -> None:
    with pytest.raises(LogDirFailureError):
        pair.leader.log.roll()


def checkpoint(pair: ReplicaPair) -> None:
    pair.leader.manager.checkpoints.write_high_watermarks()


def fail(pair: ReplicaPair, notice: Callable[[ReplicaPair], None]) -> None:
    """A file is where the leader's log dir was; sooner or later that is noticed."""
    log_dir = pair.leader.log_dirs[0]
    shutil.rmtree(log_dir)
    log_dir.touch()
    manager = pair.leader.manager
    notice(pair)
    assert not manager.dirs.is_online(log_dir)
    manager.tasks.handle_failures()
    assert manager.registry.get(PARTITION) is None
    assert manager.dirs.offline == [str(log_dir)]


def assert_producing_is_refused(pair: ReplicaPair) -> None:
    for _ in range(2):
        with pytest.raises(LogDirFailureError) as caught:
            pair.produce()
        assert caught.value.log_dir == str(pair.leader.log_dirs[0])


def assert_others_go_on(pair: ReplicaPair) -> None:
    """The follower leads, and the log dir that has not failed takes new logs."""
    spare = log_of(pair.first.manager, "another-0", is_new=True)
    assert spare.parent_dir == str(pair.first.log_dirs[1])
    append(spare, 1)
    pair.change_leader()
    pair.produce()
    log = pair.leader.log
    assert log is pair.second.log
    read = [log.read(offset, 1000).records.size for offset in (0, 1)]
    assert min(read) > 0
    assert pair.first.manager.dirs.offline == [str(pair.first.log_dirs[0])]


@pytest.mark.conformance("LogDirFailureTest.testProduceErrorFromFailureOnLogRoll")
def test_produce_error_from_failure_on_log_roll(pair: ReplicaPair) -> None:
    fail(pair, roll)
    assert_producing_is_refused(pair)


@pytest.mark.conformance("LogDirFailureTest.testIOExceptionDuringLogRoll")
def test_io_exception_during_log_roll(pair: ReplicaPair) -> None:
    fail(pair, roll)
    assert_others_go_on(pair)


@pytest.mark.conformance("LogDirFailureTest.testProduceErrorFromFailureOnCheckpoint")
def test_produce_error_from_failure_on_checkpoint(pair: ReplicaPair) -> None:
    fail(pair, checkpoint)
    assert_producing_is_refused(pair)


@pytest.mark.conformance("LogDirFailureTest.testIOExceptionDuringCheckpoint")
def test_io_exception_during_checkpoint(pair: ReplicaPair) -> None:
    fail(pair, checkpoint)
    assert_others_go_on(pair)
