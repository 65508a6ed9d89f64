"""Keys are counted exactly while they are few, and within the stated errors above."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.log.log_directory import open_source
from kafkafs.decode.key_counts import KEPT_HASHES, KEPT_KEYS, KeyCounts, count_keys
from tests.builders import Producer, Rec, batch, end_marker
from tests.fixtures_data import WITH_TRUTH, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import BuiltLog


def counted(path: Path, name: str, jobs: int = 1) -> tuple[KeyCounts, int]:
    """The keys of a partition, and the number of damaged places."""
    source = open_source(str(path))
    sums, places = KeyCounts(), 0
    try:
        for item in count_keys(source.partitions()[name], jobs):
            if isinstance(item, KeyCounts):
                sums.add(item)
            places += isinstance(item, dict)
    finally:
        source.close()
    return sums, places


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_few_keys_are_those_that_a_consumer_got(kind: str, jobs: int) -> None:
    for name in truth_partitions(kind):
        keys = Counter(each.key for each in truth_records(kind, name, False))
        nulls = keys.pop(None, 0)
        found, places = counted(log_dir(kind), name, jobs)
        assert (found.records, found.without_key) == (sum(keys.values()) + nulls, nulls)
        assert (found.distinct, found.is_exact, found.error, places) == (len(keys), True, 0, 0)
        assert dict(found.most_frequent(KEPT_KEYS)) == {
            key[:64]: number for key, number in keys.items() if key is not None
        }


def test_many_keys_are_counted_within_the_stated_errors(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    numbers = random.zipf(1.2, 60_000) % 1_000_000
    log = BuiltLog(tmp_path)
    log.segment(
        [
            batch([Rec(b"", key=b"%d" % n) for n in numbers[first : first + 5000]], first)
            for first in range(0, len(numbers), 5000)
        ],
        0,
    )
    keys = Counter(b"%d" % n for n in numbers.tolist())
    found, _ = counted(tmp_path, "orders-0")
    assert len(keys) > 2 * KEPT_HASHES
    assert not found.is_exact
    assert abs(found.distinct / len(keys) - 1) < 4 / np.sqrt(KEPT_HASHES - 2)
    assert len(found.frequent) <= KEPT_KEYS
    assert 0 < found.error <= len(numbers) / (KEPT_KEYS + 1)
    assert all(
        keys[key] - found.error <= number <= keys[key] for key, number in found.frequent.items()
    )
    assert all(key in found.frequent for key, number in keys.items() if number > found.error)
    assert found.most_frequent(1)[0][0] == keys.most_common(1)[0][0]


def test_long_keys_that_begin_alike_are_different_keys(tmp_path: Path) -> None:
    keys = [b"k" * 1000 + b"%d" % (n % 3) for n in range(10)]
    BuiltLog(tmp_path).segment([batch([Rec(b"", key=key) for key in keys])], 0)
    found, _ = counted(tmp_path, "orders-0")
    assert found.distinct == 3
    assert found.most_frequent(9) == [(b"k" * 64, 4), (b"k" * 64, 3), (b"k" * 64, 3)]


def test_control_records_and_records_below_the_log_start_are_not_counted(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    producer = Producer(id=1, sequence=0)
    sent = batch(
        [Rec(b"v", key=b"old"), Rec(b"v", key=b"new")], 0, producer=producer, transactional=True
    )
    log.segment([sent, end_marker(2, producer=producer, commit=True)], 0)
    log.start_at(1)
    found, _ = counted(tmp_path, "orders-0")
    assert found.most_frequent(9) == [(b"new", 1)]
    assert (found.records, found.without_key) == (1, 0)


def test_damage_is_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    broken = bytearray(batch([Rec(b"v", key=b"a")], 0))
    broken[-1] ^= 1
    BuiltLog(tmp_path).segment([bytes(broken), batch([Rec(b"v", key=b"b")], 1)], 0)
    found, places = counted(tmp_path, "orders-0")
    assert (found.distinct, places) == (1, 1)
