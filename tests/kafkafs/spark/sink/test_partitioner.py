"""Keys go to the partition that every Kafka client would choose."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from engine.coding.checksums import murmur2

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from kafkafs.spark.sink.partitioner import murmur2_of, partitions_by_key  # noqa: E402

KNOWN = {  # of Kafka's own tests
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hashes_are_kafkas() -> None:
    hashes = murmur2_of(pa.array(KNOWN, pa.binary())).view("int32")
    assert hashes.tolist() == list(KNOWN.values())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=250, max_size=300))),
    st.integers(0, 5),
)
def test_a_column_hashes_as_each_of_its_keys(keys: list[bytes | None], start: int) -> None:
    column = pa.array(keys, pa.binary()).slice(start)
    expected = [murmur2(key or b"") for key in keys[start:]]
    found = murmur2_of(column).view("int32").tolist()
    kept = [place for place, key in enumerate(keys[start:]) if key is not None]
    assert [found[place] for place in kept] == [expected[place] for place in kept]


def test_null_keys_spread_by_value_and_the_same_way_each_time() -> None:
    keys = pa.nulls(500, pa.binary())
    values = pa.array([str(number).encode() for number in range(499)] + [None], pa.binary())
    found = partitions_by_key(keys, values, 7)
    assert set(found.tolist()) == set(range(7))
    assert found.tolist() == partitions_by_key(keys, values, 7).tolist()


def test_a_negative_hash_gives_a_partition_too() -> None:
    keys = pa.array([b"21", b"foobar"], pa.binary())
    found = partitions_by_key(keys, keys, 10)
    assert found.tolist() == [(-973932308 & 0x7FFFFFFF) % 10, (-790332482 & 0x7FFFFFFF) % 10]
