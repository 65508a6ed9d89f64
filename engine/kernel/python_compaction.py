"""The kernel in pure Python, continued: functions for log compaction."""

from __future__ import annotations

from engine.arrays import np
from engine.coding.checksums import crc32c
from engine.coding.compression import CompressionType, compress
from engine.coding.hashed_slots import (
    BYTES_PER_SLOT,
    DIGEST_SIZE,
    EMPTY,
    digest_of,
    find_slot,
    read_slot,
    write_slot,
)
from engine.coding.layout import Buffer
from engine.coding.varint import encode_varint, encode_varlong, to_int32, to_int64
from engine.columns.batch_table import KEPT_ROW
from engine.columns.columns import Column, Columns
from engine.errors import UnsupportedCodecError
from engine.record.attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CRC_POSITION,
    CURRENT_MAGIC,
    HEADER,
    LOG_OVERHEAD,
)
from engine.units import MAX_INT32, NO_PRODUCER_ID, NO_TIMESTAMP, Offset, Position, Timestamp

_KNOWN_ATTRIBUTES = COMPRESSION_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


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


def move_slots(slots: bytearray, to: bytearray) -> None:
    """Move the used slots of a table of `hashed_slots` to an empty one.

    Raises:
        ValueError: it has no room for them.
    """
    for place in range(0, len(slots), BYTES_PER_SLOT):
        digest = bytes(slots[place : place + DIGEST_SIZE])
        if digest == EMPTY:
            continue
        found = find_slot(to, digest)
        if found is None:
            raise ValueError("the table has no room for the slots")
        write_slot(to, found[0], digest, read_slot(slots, place))


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


def keep_records(
    buffer: Buffer,
    table: Column,
    first_row: int,
    last_row: int,
    columns: Columns,
    kept: Column,
    *,
    start_position: Position,
    delete_horizon: Timestamp,
    upper_bound: Offset,
) -> tuple[bytes, Column, int]:
    """Return batches of magic 2 with the records that are kept; one that loses none stays as it is.

    Args:
        buffer: bytes of a file.
        table: one row of BATCH_ROW per batch.
        first_row, last_row: batches to write.
        columns: all records of these batches, and no others.
        kept: one bool per record, whether to keep it.
        start_position: position of the buffer's first byte in the file.
        delete_horizon: horizon of a batch that keeps a tombstone and has none.
        upper_bound: end of the offsets that are cleaned.

    Returns:
        the bytes, a row of KEPT_ROW per batch, and the first row that the caller must do, or
        `last_row`: a batch to compress again but by LZ4, or one without kept records that may have to stay.

    Raises:
        ValueError: the table, the columns and the buffer do not fit together.
    """
    if len(kept) != len(columns):
        raise ValueError(f"{len(kept)} marks for {len(columns)} records")
    made, at = bytearray(), 0
    rows: list[tuple[Timestamp, Offset, int, int]] = []
    for row in range(first_row, last_row):
        facts = table[row]
        end = at + int(facts["record_count"])
        start = int(facts["position"]) - start_position
        if end > len(columns) or start < 0 or start + facts["size"] > len(buffer):
            raise ValueError("a row is outside the buffer, or a field outside the arena")
        part = Columns(columns.table[at:end], columns.arena, [], 0)
        batch = _kept_batch(
            buffer[start : start + int(facts["size"])],
            facts,
            part,
            kept[at:end].astype(bool),
            delete_horizon,
            upper_bound,
        )
        if batch is None:
            return bytes(made), np.array(rows, KEPT_ROW.dtype), row
        made += batch[0]
        rows.append(batch[1])
        at = end
    return bytes(made), np.array(rows, KEPT_ROW.dtype), last_row


def _kept_batch(
    batch: Buffer,
    facts: np.void,
    columns: Columns,
    kept: Column,
    delete_horizon: Timestamp,
    upper_bound: Offset,
) -> tuple[Buffer, tuple[Timestamp, Offset, int, int]] | None:
    """Return what is left of a batch and its row, None if the caller must do it."""
    header = HEADER.unpack(batch)
    last_offset, count = int(facts["last_offset"]), int(np.count_nonzero(kept))
    if count == 0:
        may_stay = header.producer_id != NO_PRODUCER_ID or last_offset + 1 == upper_bound
        return None if may_stay else (b"", (0, 0, 0, 0))
    has_horizon = bool(header.attributes & DELETE_HORIZON_MASK)
    needs_horizon = not has_horizon and bool((columns.value_size[kept] < 0).any())
    if count == len(columns) and not needs_horizon:
        return batch, (header.max_timestamp, last_offset, len(batch), count)
    codec = header.attributes & COMPRESSION_MASK
    if codec not in (CompressionType.NONE, CompressionType.LZ4):
        return None
    timestamps = columns.timestamp[kept]
    base = delete_horizon if needs_horizon else int(timestamps[0])
    if has_horizon:
        base = header.base_timestamp
    newest = max(NO_TIMESTAMP, int(timestamps.max()))
    if header.attributes & TIMESTAMP_TYPE_MASK:
        newest = header.max_timestamp
    records = encode_records(columns, kept, header.base_offset, base)
    if codec == CompressionType.LZ4:
        try:
            records = compress(CompressionType.LZ4, records)
        except UnsupportedCodecError:
            return None
    size = HEADER.size + len(records)
    if size > MAX_INT32:
        return None
    horizon_bit = DELETE_HORIZON_MASK if has_horizon or needs_horizon else 0
    made = bytearray(
        HEADER.pack(
            header._replace(
                length=size - LOG_OVERHEAD,
                attributes=header.attributes & _KNOWN_ATTRIBUTES | horizon_bit,
                base_timestamp=base,
                max_timestamp=newest,
                record_count=count,
            )
        )
    )
    made += records
    place = CRC_POSITION[CURRENT_MAGIC]
    crc = crc32c(memoryview(made)[CRC_COVERS_FROM[CURRENT_MAGIC] :])
    made[place : place + 4] = crc.to_bytes(4, "big")
    return made, (newest, int(columns.offset[kept][-1]), size, count)
