"""Rewrite a batch of magic 2 with some of its records, without decoding them.

In an encoded record only the timestamp delta and the offset delta depend on the batch. The base
offset stays, so a record is copied with at most another timestamp delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.compression import CompressionType, compress
from engine.coding.layout import Buffer
from engine.coding.varint import encode_varint, encode_varlong, read_varint, read_varlong, to_int64
from engine.record.attributes import DELETE_HORIZON_MASK, TimestampType, compute_attributes
from engine.record.default_records import DefaultRecordBatch
from engine.record.encoding.batch_encoding import check_producer, encode_batch
from engine.units import NO_TIMESTAMP, Timestamp


class Rewritten(NamedTuple):
    """The new batch, and the largest timestamp of its records."""

    data: bytearray
    max_timestamp: Timestamp


def rewrite_batch(
    batch: DefaultRecordBatch,
    kept: Sequence[bool],
    horizon: Timestamp | None,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> Rewritten:
    """Return the batch with the kept records, at least one; offsets, producer and codec stay.

    Args:
        batch: batch that was decoded before, so that its records are not checked here.
        kept: one bool per record, whether to keep it.
        horizon: delete horizon of the new batch, or None.
        budgets: limit of the inflated batch.

    Raises:
        ValueError: as in a builder: offsets do not ascend, a timestamp is negative and not -1, or
            no batch can have the producer state.
        The errors of `DefaultRecordBatch.inflated`.
    """
    check_producer(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )
    section = batch.inflated(budgets)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    fixed = batch.max_timestamp if is_append_time else None
    records, base, newest = _copy(section, kept, batch.base_timestamp, horizon, fixed)
    codec = batch.compression
    header = batch.header._replace(
        attributes=compute_attributes(
            codec,
            batch.timestamp_type,
            transactional=batch.is_transactional,
            control=batch.is_control,
        )
        | (0 if horizon is None else DELETE_HORIZON_MASK),
        base_timestamp=base,
        max_timestamp=newest,
        record_count=sum(kept),
    )
    packed: Buffer = records if codec is CompressionType.NONE else compress(codec, records)
    return Rewritten(encode_batch(header, packed), newest)


def _copy(
    section: memoryview,
    kept: Sequence[bool],
    old_base: Timestamp,
    horizon: Timestamp | None,
    fixed: Timestamp | None,
) -> tuple[bytearray, Timestamp, Timestamp]:
    """Return the kept encoded records, the base of their timestamp deltas, and the largest timestamp.

    `fixed` is the timestamp of all records with LOG_APPEND_TIME, otherwise None.
    """
    out = bytearray()
    base, newest, last = horizon, NO_TIMESTAMP, -1 << 31
    end = 0
    for stays in kept:
        position = end
        size, start = read_varint(section, position)
        end = start + size
        if not stays:
            continue
        old_delta, rest = read_varlong(section, start + 1)
        timestamp = to_int64(old_base + old_delta) if fixed is None else fixed
        offset_delta, _ = read_varint(section, rest)
        if offset_delta <= last or timestamp < NO_TIMESTAMP:
            raise ValueError(
                f"the record {offset_delta} behind the batch's base follows {last}, at {timestamp}"
            )
        last = offset_delta
        if base is None:
            base = timestamp
        newest = max(newest, timestamp)
        delta = timestamp - base
        if delta == old_delta and section[start] == 0:
            out += section[position:end]
        else:
            encoded = encode_varlong(to_int64(delta))
            out += encode_varint(1 + len(encoded) + end - rest) + b"\0" + encoded
            out += section[rest:end]
    return out, NO_TIMESTAMP if base is None else base, newest
