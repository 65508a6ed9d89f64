"""Look-ups of times where batches carry no timestamps, or others than their records."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.log_reader import EARLIEST_TIMESTAMP, MAX_TIMESTAMP
from engine.coding.compression import CompressionType
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from engine.units import FoundTimestamp
from tests.builders import batch, values
from tests.conformance.unified_log_steps import LogBench, rec


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def test_records_of_magic_0_have_no_largest_timestamp(bench: LogBench) -> None:
    log = bench.open()
    log.append_as_follower(records_of(rec("a"), rec("b"), magic=0), 0)
    assert log.fetch_offset_by_timestamp(MAX_TIMESTAMP) is None


@pytest.mark.parametrize("magic", [1, 2])
def test_the_record_with_the_largest_timestamp_is_found_inside_its_batch(
    bench: LogBench, magic: int
) -> None:
    log = bench.open()
    records = records_of(
        *(rec("a", 5), rec("b", 9), rec("c", 7)),
        magic=magic,
        compression=CompressionType.GZIP,
        partition_leader_epoch=4,
    )
    log.append_as_follower(records, 4)
    epoch = 4 if magic == 2 else -1
    assert log.fetch_offset_by_timestamp(MAX_TIMESTAMP) == FoundTimestamp(9, 1, epoch)


def test_a_largest_timestamp_that_no_record_has_is_not_found(bench: LogBench) -> None:
    log = bench.open()
    log.append_as_follower(
        MemoryRecords(batch(values("a", "b", timestamp=5), max_timestamp=8, leader_epoch=0)), 0
    )
    assert log.fetch_offset_by_timestamp(MAX_TIMESTAMP) is None


def test_the_log_start_has_the_epoch_that_begins_there(bench: LogBench) -> None:
    log = bench.open()
    log.truncate_fully_and_start_at(4)
    log.append_as_follower(records_of(rec("a"), base_offset=4, partition_leader_epoch=3), 3)
    assert log.fetch_offset_by_timestamp(EARLIEST_TIMESTAMP) == FoundTimestamp(-1, 4, 3)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (-1, FoundTimestamp(-1, 2, 3)),
        (-2, FoundTimestamp(-1, 0, 3)),
        (-3, FoundTimestamp(9, 1, 3)),
        (-4, FoundTimestamp(-1, 0, 3)),
        (-5, FoundTimestamp(-1, -1, -1)),
        (-6, FoundTimestamp(-1, -1, -1)),
        (-7, FoundTimestamp(5, 0, 3)),
        (0, FoundTimestamp(5, 0, 3)),
        (4, FoundTimestamp(5, 0, 3)),
        (6, FoundTimestamp(9, 1, 3)),
    ],
)
def test_special_times_have_the_numbers_of_a_list_offsets_request(
    bench: LogBench, number: int, expected: FoundTimestamp
) -> None:
    log = bench.open()
    log.append_as_leader(records_of(rec("a", 5), rec("b", 9)), 3)
    assert log.fetch_offset_by_timestamp(number) == expected
