"""What an append tells its caller, and what it leaves out or refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.append.validation_result import RecordValidationStats
from engine.coding.compression import CompressionType
from engine.errors import (
    InvalidProducerEpochError,
    OffsetOverflowError,
    UnexpectedAppendOffsetError,
)
from engine.record.control_records import ControlRecordType
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from tests.conformance.unified_log_steps import (
    ABORT,
    COMMIT,
    LogBench,
    end_txn,
    joined,
    of_producer,
    one,
    producer,
    rec,
    with_epoch,
)


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def stats_of(info: LogAppendInfo) -> RecordValidationStats:
    assert isinstance(info.validation_stats, RecordValidationStats)
    return info.validation_stats


def test_a_leader_tells_how_many_bytes_it_inflated(bench: LogBench) -> None:
    log = bench.open()
    plain = one("a" * 500, bench.now)
    packed = records_of(rec("a" * 500, bench.now), compression=CompressionType.LZ4)
    assert stats_of(log.append_as_leader(plain, 0)).temporary_memory_bytes == 0
    inflated = stats_of(log.append_as_leader(packed, 0)).temporary_memory_bytes
    assert inflated == plain.size, "a header and the records, as Kafka counts"


def test_a_leader_tells_how_many_records_it_converted(bench: LogBench) -> None:
    log = bench.log(compression_type="lz4")
    old = records_of(rec("a"), rec("b"), magic=1)
    assert stats_of(log.append_as_leader(old, 0)).records_converted == 2


def test_a_leader_leaves_out_what_is_not_whole_at_the_end(bench: LogBench) -> None:
    log = bench.open()
    whole = bytes(one("a", bench.now).buffer)
    info = log.append_as_leader(MemoryRecords(whole + whole[:-1]), 0)
    assert info.valid_bytes == len(whole) == log.size
    assert (info.first_offset, info.last_offset, log.log_end_offset) == (0, 0, 1)


def test_a_follower_is_told_which_offset_lies_below_the_log_end(bench: LogBench) -> None:
    log = bench.open()
    log.append_as_follower(records_of(rec("a"), rec("b"), partition_leader_epoch=0), 0)
    with pytest.raises(UnexpectedAppendOffsetError, match=r"^the first offset .* is 0, ") as caught:
        log.append_as_follower(records_of(rec("a"), partition_leader_epoch=0), 0)
    assert (caught.value.first_offset, caught.value.last_offset) == (0, 0)
    old = records_of(rec("a"), rec("b"), magic=1, compression=CompressionType.GZIP)
    with pytest.raises(UnexpectedAppendOffsetError, match=r"^the last offset .* is 1, ") as caught:
        log.append_as_follower(old, 0)
    assert (caught.value.first_offset, caught.value.last_offset) == (0, 1)


def test_batches_too_far_apart_for_one_segment_are_refused_together(bench: LogBench) -> None:
    log = bench.open()
    far = (
        records_of(rec("a"), base_offset=base, partition_leader_epoch=0) for base in (0, 2**31 + 5)
    )
    with pytest.raises(OffsetOverflowError):
        log.append_as_follower(joined(*far), 0)
    assert (log.log_end_offset, log.size) == (0, 0)
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_transaction_in_a_part_of_a_buffer_begins_at_its_place_in_the_segment(
    bench: LogBench,
) -> None:
    log = bench.open()
    log.append_as_follower(records_of(rec("a"), partition_leader_epoch=0), 0)
    begins = of_producer(1, 0, rec("c"), is_transactional=True, base_offset=2)
    both = joined(records_of(rec("bb"), base_offset=1), with_epoch(begins, 0))
    part = both.slice(both.size - begins.size, begins.size)
    assert part.start > 0
    before = log.size
    log.append_as_follower(part, 0)
    log.update_high_watermark(3)
    assert log.watermarks.last_stable_metadata() == (2, 0, before)


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_batch_or_marker_of_an_old_epoch_is_refused_by_a_leader(
    bench: LogBench, kind: ControlRecordType
) -> None:
    log = bench.open()
    producer(log, 1, 5, bench.now)(1)
    with pytest.raises(InvalidProducerEpochError):
        producer(log, 1, 4, bench.now)(1)
    with pytest.raises(InvalidProducerEpochError):
        end_txn(log, 1, 4, kind, bench.now)
    assert log.log_end_offset == 1
