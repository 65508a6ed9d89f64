"""The kernel in pure Python, continued: functions for log compaction."""

from __future__ import annotations

import numpy as np

from engine.coding.hashed_slots import digest_of, find_slot, read_slot, write_slot
from engine.coding.varint import encode_varint, encode_varlong, to_int32, to_int64
from engine.columns.columns import Column, Columns
from engine.units import Offset, Timestamp


def put_keys(
    slots: bytearray, taken: int, limit: int, columns: Columns, start_offset: Offset
) -> tuple[int, int, Offset]:
    """Put the keys and offsets of records from an offset on into a table of `hashed_slots`.

    Args:
        slots: the table.
        taken: number of its used slots.
        limit: most slots that may be used; at the limit no further key is put.
        columns: records, in the order of their offsets.
        start_offset: records before it are skipped, as are null keys.

    Returns:
        number of records processed, used slots, and the offset put last or -1.
    """
    latest = -1
    table = columns.table
    fields = (table[name].tolist() for name in ("offset", "key_start", "key_size"))
    for place, (offset, start, size) in enumerate(zip(*fields, strict=True)):
        if size < 0 or offset < start_offset:
            continue
        digest = digest_of(columns.arena[start : start + size])
        slot = find_slot(slots, digest) if taken < limit else None
        if slot is None:
            return place, taken, latest
        taken += not slot[1]
        write_slot(slots, slot[0], digest, offset)
        latest = offset
    return len(columns), taken, latest


def offsets_of(slots: bytearray, columns: Columns) -> Column:
    """Return each record's number in a table of `hashed_slots`, int64; -1 for null and missing keys."""
    found = np.full(len(columns), -1, np.int64)
    places = zip(columns.key_start.tolist(), columns.key_size.tolist(), strict=True)
    for row, (start, size) in enumerate(places):
        if size >= 0:
            slot = find_slot(slots, digest_of(columns.arena[start : start + size]))
            if slot is not None and slot[1]:
                found[row] = read_slot(slots, slot[0])
    return found


def encode_records(
    columns: Columns, kept: Column, base_offset: Offset, base_timestamp: Timestamp
) -> bytes:
    """Return records of magic 2 as bytes.

    Args:
        columns: records to choose from.
        kept: one bool per record, whether to encode it.
        base_offset, base_timestamp: of the batch that the records are for.
    """
    if len(kept) != len(columns):
        raise ValueError(f"{len(kept)} marks for {len(columns)} records")
    made = bytearray()
    for record in columns.table[kept.astype(bool)].tolist():
        offset, timestamp, key_at, value_at, headers_at = record[:5]
        key_size, value_size, headers_size, headers_count = record[5:9]
        body = b"".join(
            (
                b"\0",
                encode_varlong(to_int64(timestamp - base_timestamp)),
                encode_varint(to_int32(offset - base_offset)),
                encode_varint(key_size),
                columns.arena[key_at : key_at + max(0, key_size)],
                encode_varint(value_size),
                columns.arena[value_at : value_at + max(0, value_size)],
                encode_varint(headers_count),
                columns.arena[headers_at : headers_at + max(0, headers_size)],
            )
        )
        made += encode_varint(len(body)) + body
    return bytes(made)
