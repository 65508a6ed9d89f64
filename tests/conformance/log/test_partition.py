"""What Kafka's PartitionTest asks of a leader's log: whether a follower's log agrees with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.replica_fetches import LogReadInfo, fetch_records
from engine.errors import OffsetOutOfRangeError
from engine.record.encoding.building import records_of
from tests.conformance.unified_log_steps import LogBench, rec


def append(log: UnifiedLog, epoch: int, count: int) -> None:
    records = [rec(str(number)) for number in range(1, count + 1)]
    log.append_as_leader(records_of(*records, partition_leader_epoch=epoch), epoch)


@pytest.mark.conformance("PartitionTest.testLastFetchedOffsetValidation")
def test_last_fetched_offset_validation(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    for epoch, count in ((0, 2), (3, 3), (3, 3), (4, 5), (7, 1), (9, 3)):
        append(log, epoch, count)
    assert log.log_end_offset == 17
    log.leader_epoch_cache.assign(10, log.log_end_offset)  # as a new leader does

    def read(epoch: int, offset: int) -> LogReadInfo:
        return fetch_records(log, offset, 1024 * 1024, last_fetched_epoch=epoch)

    def assert_divergence(expected: tuple[int, int], found: LogReadInfo) -> None:
        assert found.diverging_epoch == expected
        assert found.fetched.records.size == 0

    assert_divergence((0, 2), read(2, 5))
    assert_divergence((0, 2), read(0, 4))
    assert_divergence((4, 13), read(6, 6))
    assert_divergence((4, 13), read(5, 9))
    assert_divergence((10, 17), read(10, 18))
    for epoch, offset in ((0, 2), (7, 14), (9, 17), (10, 17)):
        assert read(epoch, offset).diverging_epoch is None
    with pytest.raises(OffsetOutOfRangeError):
        read(11, 5)  # an epoch that the leader does not know

    # The log start is in the middle of epoch 3.
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(5, "records are deleted")
    assert_divergence((2, 5), read(2, 8))
    assert read(0, 5).diverging_epoch is None
    assert read(3, 5).diverging_epoch is None
    with pytest.raises(OffsetOutOfRangeError):
        read(0, 0)

    log.maybe_increment_log_start_offset(10, "records are deleted")
    for epoch in (5, 3):  # below the log start, whether or not the logs diverge
        with pytest.raises(OffsetOutOfRangeError):
            read(epoch, 6)
