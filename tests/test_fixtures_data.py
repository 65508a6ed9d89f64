"""The test data itself: that it is whole, and small enough for a repository."""

from __future__ import annotations

import pytest

from tests import fixtures_data as data

SHAPES = {
    "current": ["append-time-0", "compacted-0", "empty-0", "mixed.codecs_in-one-7-0", "open-txn-0", "orders-0", "out-of-order-0",
                "retained-0", "trimmed-0", "txn-0", "weird-0", "n" * 249 + "-0", "__cluster_metadata-0", "__consumer_offsets-0",
                *[f"{how}-{codec}-0" for how in ("codec", "recoded") for codec in ("gzip", "snappy", "lz4", "zstd")]],
    "legacy": ["upgraded-0", "v1-compacted-0", "v1-append-time-0",
               *[f"v{magic}-{codec}-0" for magic in range(3) for codec in ("none", "gzip", "snappy", "lz4")]],
    "live": ["orders-0", "txn-0", "open-txn-0", "empty-0"],
    "crashed": ["crash-0"],
    "sample": ["orders-0", "orders-1", "txn-0"],
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_is_there(kind):
    assert set(SHAPES[kind]) <= set(data.partitions(kind))


def test_the_checkout_stays_small():
    files = [path for path in data.DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 9_500_000


@pytest.mark.parametrize("kind", data.WITH_TRUTH)
def test_the_truth_of_each_partition_agrees_with_its_offsets(kind):
    known = data.truth_partitions(kind)
    assert known
    for name in known:
        offsets = data.truth_offsets(kind)[name]
        records = data.truth_records(kind, name)
        seen = [record.offset for record in records]
        assert seen == sorted(set(seen))
        assert all(offsets["earliest"] <= offset < offsets["latest"] for offset in seen)
        committed = {record.offset for record in data.truth_records(kind, name, committed=True)}
        assert committed <= set(seen)
        assert all(offset < offsets["latest_committed"] for offset in committed)


def test_a_copy_has_the_same_files(tmp_path):
    copy = data.copy_of("crashed", tmp_path)
    source = data.log_dir("crashed")
    names = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    assert all((copy / name).read_bytes() == (source / name).read_bytes() for name in names)
