"""What Kafka's UnifiedLogTest asks of a log without remote storage, and of its periodic task."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.log_reader import LATEST_TIERED_TIMESTAMP
from engine.units import FoundTimestamp
from tests.conformance.unified_log_steps import LogBench, one


@pytest.mark.conformance("UnifiedLogTest.testProducerExpireCheckAfterDelete")
def test_producer_expire_check_after_delete(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log()
    checks = []
    remove_expired = log.producer_state.remove_expired_producers
    log.producer_state.remove_expired_producers = lambda now: (  # type: ignore[method-assign]
        checks.append(now),
        remove_expired(now),
    )
    bench.clock.sleep(600_000)
    assert checks == [bench.now]
    log.delete()
    bench.clock.sleep(600_000)
    assert len(checks) == 1


@pytest.mark.conformance("UnifiedLogTest.testNoOpWhenRemoteLogStorageIsDisabled")
def test_no_op_when_remote_log_storage_is_disabled(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    for number in range(100):
        log.append_as_leader(one(f"test{number}"), 0)
    log.update_high_watermark(90)
    log.maybe_increment_log_start_offset(20, "segments were deleted")
    assert log.log_start_offset == 20
    log.close()


@pytest.mark.conformance("UnifiedLogTest.testFetchLatestTieredTimestampNoRemoteStorage")
def test_fetch_latest_tiered_timestamp_no_remote_storage(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=200, index_interval=1)
    nothing = FoundTimestamp(-1, -1, -1)
    assert log.fetch_offset_by_timestamp(LATEST_TIERED_TIMESTAMP) == nothing
    log.append_as_leader(one("0123456789", bench.now), 0)
    log.append_as_leader(one("0123456789", bench.now + 1), 0)
    assert log.fetch_offset_by_timestamp(LATEST_TIERED_TIMESTAMP) == nothing
    log.close()
