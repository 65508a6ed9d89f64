"""What Kafka's LogRecoveryTest asks of the checkpoint of high watermarks, without a cluster.

Kafka's test runs two brokers, a controller and a producer. Here a LogManager stands for each broker (see
`replica_pair`), a shutdown and a new manager for a broker's restart, an append for the producer,
`replicate` for the follower's fetcher and the in-sync replicas, `change_leader` for the controller.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.log_managers import CONFIG, Managers
from tests.conformance.replica_pair import ReplicaPair


@pytest.fixture
def pair(managers: Managers, tmp_path: Path) -> ReplicaPair:
    return ReplicaPair(managers, tmp_path)


@pytest.fixture
def of_small_segments(managers: Managers, tmp_path: Path) -> ReplicaPair:
    return ReplicaPair(managers, tmp_path, replace(CONFIG, segment_size=200))


def checkpointed(pair: ReplicaPair) -> tuple[int, int]:
    return pair.first.checkpointed, pair.second.checkpointed


@pytest.mark.conformance("LogRecoveryTest.testHWCheckpointNoFailuresSingleLogSegment")
def test_hw_checkpoint_no_failures_single_log_segment(pair: ReplicaPair) -> None:
    pair.produce(2)
    pair.replicate()
    assert len(pair.leader.log.segments) == 1
    for replica in (pair.leader, pair.follower):
        replica.manager.checkpoints.write_high_watermarks()
    assert checkpointed(pair) == (2, 2)


@pytest.mark.conformance("LogRecoveryTest.testHWCheckpointWithFailuresSingleLogSegment")
def test_hw_checkpoint_with_failures_single_log_segment(pair: ReplicaPair) -> None:
    assert checkpointed(pair) == (0, 0)
    pair.produce(1)
    pair.replicate()
    pair.first.stop()
    assert pair.first.checkpointed == 1
    pair.change_leader()
    pair.first.start()
    assert pair.first.checkpointed == 1
    assert pair.first.log.high_watermark == 1
    pair.replicate()
    pair.second.stop()
    assert pair.second.checkpointed == 1
    pair.second.start()
    pair.change_leader()
    pair.produce(1)
    pair.replicate()
    for replica in (pair.first, pair.second):
        replica.stop()
    assert checkpointed(pair) == (2, 2)


@pytest.mark.conformance("LogRecoveryTest.testHWCheckpointNoFailuresMultipleLogSegments")
def test_hw_checkpoint_no_failures_multiple_log_segments(of_small_segments: ReplicaPair) -> None:
    pair = of_small_segments
    pair.produce(20)
    pair.replicate()
    assert len(pair.leader.log.segments) > 1
    for replica in (pair.first, pair.second):
        replica.stop()
    assert checkpointed(pair) == (20, 20)


@pytest.mark.conformance("LogRecoveryTest.testHWCheckpointWithFailuresMultipleLogSegments")
def test_hw_checkpoint_with_failures_multiple_log_segments(of_small_segments: ReplicaPair) -> None:
    pair = of_small_segments
    pair.produce(2)
    pair.replicate()
    for replica in (pair.first, pair.second):
        replica.stop()
    assert checkpointed(pair) == (2, 2)
    pair.second.start()
    pair.change_leader()
    assert checkpointed(pair) == (2, 2)
    pair.first.start()
    assert [replica.log.high_watermark for replica in (pair.first, pair.second)] == [2, 2]
    pair.produce(2)
    pair.replicate()
    for replica in (pair.first, pair.second):
        replica.stop()
    assert checkpointed(pair) == (4, 4)
