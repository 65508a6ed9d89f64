"""Kafka's default partitioner over Arrow columns, for records without a partition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.coding.checksums import crc32, murmur2
from kafkafs.spark.sink.arrow_spans import Column, spans_of

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_LONGEST = 256
"""Bytes of the longest key that is hashed in columns, a word at a time."""
_POSITIVE = 0x7FFFFFFF


def partitions_by_key(keys: pa.Array, values: pa.Array, count: int) -> Column:
    """Return the partition of each record, int32.

    It is chosen by the murmur2 of the key, as by every Kafka client. A null key, for which a client may choose freely,
    takes the CRC-32 of the value, so that a repeated task chooses the same.

    Args:
        keys, values: binary columns.
        count: number of partitions.
    """
    hashes = murmur2_of(keys)
    if keys.null_count:
        nulls = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        hashes[nulls] = [crc32(value or b"") for value in values.take(pa.array(nulls)).to_pylist()]
    return ((hashes & np.uint32(_POSITIVE)) % np.uint32(count)).astype(np.int32)


def positive_murmur2(keys: pa.Array) -> pa.Array:
    """Return the murmur2 of each key without its sign bit, as a partitioner divides it; int64."""
    return pa.array((murmur2_of(keys) & np.uint32(_POSITIVE)).astype(np.int64))


def murmur2_of(keys: pa.Array) -> Column:
    """Return Kafka's murmur2 of each key, uint32; null hashes as no bytes."""
    offsets, data = spans_of(keys)
    sizes = np.diff(offsets)
    hashes = _SEED ^ sizes.astype(np.uint32)
    for row in np.flatnonzero(sizes > _LONGEST).tolist():
        hashes[row] = murmur2(bytes(data[offsets[row] : offsets[row + 1]])) & 0xFFFFFFFF
    short = np.flatnonzero(sizes <= _LONGEST)
    if len(short):
        hashes[short] = _by_words(data, offsets[short], sizes[short], hashes[short])
    return hashes


def _by_words(data: Column, starts: Column, sizes: Column, hashes: Column) -> Column:
    """Return the hashes of keys; each step adds one word of all keys."""
    words = sizes // 4
    for step in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > step)
        at = starts[rows] + 4 * step
        k = np.zeros(len(rows), np.uint32)
        for place in range(4):
            k |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
        k *= _M
        k ^= k >> np.uint32(24)
        k *= _M
        hashes[rows] = hashes[rows] * _M ^ k
    rest = sizes % 4
    for place in (2, 1, 0):
        rows = np.flatnonzero(rest > place)
        at = starts[rows] + 4 * words[rows] + place
        hashes[rows] ^= data[at].astype(np.uint32) << np.uint32(8 * place)
    rows = np.flatnonzero(rest)
    hashes[rows] *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes
