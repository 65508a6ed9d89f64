"""Which partition a record goes to that does not say: Kafka's default partitioner, over Arrow columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.coding.checksums import crc32, murmur2
from kafkafs.spark.sink.arrow_spans import Column, spans_of

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_LONGEST = 256
"""Bytes of a key up to which columns of keys are hashed a word at a time."""
_POSITIVE = 0x7FFFFFFF


def partitions_by_key(keys: pa.Array, values: pa.Array, count: int) -> Column:
    """The partition of each record, int32.

    By the murmur2 of its key, as every Kafka client has it. Where a client would choose freely, for a null
    key, by the CRC-32 of its value: a task that is done again gives the same.

    Args:
        keys, values: binary.
        count: how many partitions there are.
    """
    hashes = murmur2_of(keys)
    if keys.null_count:
        nulls = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        hashes[nulls] = [crc32(value or b"") for value in values.take(pa.array(nulls)).to_pylist()]
    return ((hashes & np.uint32(_POSITIVE)) % np.uint32(count)).astype(np.int32)


def positive_murmur2(keys: pa.Array) -> pa.Array:
    """The murmur2 of each key without its sign, as a partitioner divides it; int64."""
    return pa.array((murmur2_of(keys) & np.uint32(_POSITIVE)).astype(np.int64))


def murmur2_of(keys: pa.Array) -> Column:
    """The murmur2 of each key as Kafka computes it, uint32; of null that of no bytes."""
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
    """The hashes of keys, all of them a word further in each step."""
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
