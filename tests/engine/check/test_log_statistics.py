"""The statistics of a check are what consumers saw, counted with the one read of the check."""

from __future__ import annotations

import pickle
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.log_statistics import DAY_MS, HOUR_MS, MINUTE_MS, LogStatistics, TimeCounts
from engine.coding.compression import CompressionType
from engine.log.log_directory import open_source
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import NO_TIMESTAMP_TYPE, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import BuiltLog

NOW = 1_700_000_000_000


def summaries(path: Path, *, counts: bool = True, jobs: int = 1) -> dict[str, PartitionSummary]:
    with closing(open_source(str(path))) as source:
        events = SourceCheck(source, CheckOptions(jobs, counts=counts)).run()
        return {each.partition: each for each in events if isinstance(each, PartitionSummary)}


def statistics(path: Path) -> LogStatistics:
    (summary,) = summaries(path).values()
    assert summary.statistics is not None
    return summary.statistics


@pytest.mark.parametrize("kind", ["current", "legacy"])
def test_they_are_what_a_consumer_saw(kind: str) -> None:
    found = summaries(log_dir(kind))
    compared = 0
    for name in truth_partitions(kind):
        truth, summary = truth_records(kind, name), found[name]
        counted = summary.statistics
        assert counted is not None
        first = counted.segments[0].base_offset if counted.segments else 0
        if not truth or first < summary.log_start_offset:
            continue
        compared += 1
        times = [each.timestamp for each in truth if each.timestamp_type != NO_TIMESTAMP_TYPE]
        assert sum(each.records for each in counted.codecs.values()) == len(truth), name
        assert counted.without_key == sum(each.key is None for each in truth), name
        assert counted.without_time == len(truth) - len(times), name
        assert sum(counted.times.counts.values()) == len(times), name
        span = (min(times), max(times)) if times else (-1, -1)
        assert (counted.first_timestamp, counted.last_timestamp) == span, name
        assert counted.segments[-1].next_offset == summary.log_end_offset, name
        assert sum(each.records for each in counted.segments) == summary.records, name
    assert compared > 10


def test_a_batch_counts_at_the_minute_of_its_newest_record(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    start = NOW - NOW % MINUTE_MS
    late = [Rec(b"v", None, start - MINUTE_MS), Rec(b"v", b"k", start - 10)]
    log.segment([builders.batch([Rec(b"v", b"k", start + 5)] * 3, 0), builders.batch(late, 3)], 0)
    counted = statistics(tmp_path)
    minute = start // MINUTE_MS
    assert counted.times.counts == {minute: 3, minute - 1: 2}
    assert (counted.late_batches, counted.latest) == (1, 15)
    assert (counted.first_timestamp, counted.last_timestamp) == (start - MINUTE_MS, start + 5)
    assert counted.without_key == 1


def test_codecs_have_their_sizes_on_disk_and_without_compression(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    plain = builders.batch([Rec(bytes(5000))], 0)
    packed = builders.batch([Rec(bytes(5000))], 1, CompressionType.ZSTD)
    log.segment([plain, packed], 0)
    codecs = statistics(tmp_path).codecs
    assert codecs["none"].size == codecs["none"].plain == len(plain)
    assert (codecs["zstd"].size, codecs["zstd"].plain) == (len(packed), len(plain))


def test_segments_have_the_size_of_their_files_damage_included(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    batches = [builders.batch([Rec(b"v" * 100, None, NOW)], offset) for offset in range(3)]
    spoiled = bytearray(batches[1])
    spoiled[80] ^= 1
    log.segment([batches[0], bytes(spoiled), batches[2]], 0)
    (segment,) = statistics(tmp_path).segments
    assert (segment.size, segment.batches) == (sum(map(len, batches)), 2)
    assert (segment.base_offset, segment.next_offset, segment.records) == (0, 3, 2)


def test_they_are_the_same_from_other_processes() -> None:
    alone, shared = summaries(log_dir("sample")), summaries(log_dir("sample"), jobs=2)
    assert {name: pickle.dumps(each.statistics) for name, each in alone.items()} == {
        name: pickle.dumps(each.statistics) for name, each in shared.items()
    }


def test_without_a_request_there_are_none() -> None:
    found = summaries(log_dir("sample"), counts=False)
    assert all(each.statistics is None for each in found.values())


def test_times_become_coarser_rather_than_many() -> None:
    times = TimeCounts(most=50)
    for minute in range(48 * 60):
        times.add(np.array([minute * MINUTE_MS, minute * MINUTE_MS + 1]), np.array([2, 3]))
    assert (times.width, sum(times.counts.values())) == (HOUR_MS, 48 * 60 * 5)
    times.add(np.arange(100) * DAY_MS + (1 << 40), np.ones(100, np.int32))
    assert len(times.counts) <= 50
    assert times.width > DAY_MS
    assert sum(times.counts.values()) == 48 * 60 * 5 + 100


def test_any_timestamp_is_counted_in_bounded_memory() -> None:
    times = TimeCounts(most=8)
    times.add(np.array([0, 1, 1 << 40, 1 << 50, (1 << 63) - 1] * 9), np.ones(45, np.int32))
    for power in range(63):
        times.add(np.array([1 << power]), np.array([1]))
    assert len(times.counts) <= 8
    assert sum(times.counts.values()) == 45 + 63


def test_the_times_of_two_partitions_add_up() -> None:
    one, other = TimeCounts(), TimeCounts(most=3)
    one.add(np.array([MINUTE_MS, 61 * MINUTE_MS]), np.array([1, 2]))
    other.add(np.arange(4) * HOUR_MS, np.full(4, 10))
    one.merge(other)
    assert one.width == other.width
    assert sum(one.counts.values()) == 43
