"""Batches in Python: walked, found by bytes, by offset and by index; part of the kernel's twin."""

from __future__ import annotations

import os
import struct
from typing import TypeAlias

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.checksums import crc32, crc32c
from engine.coding.compression import LAST_CODEC
from engine.coding.fixed_width import read_int32, read_int64, read_uint32
from engine.coding.layout import Buffer
from engine.coding.varint import to_int64
from engine.columns.batch_table import BATCH_ROW, HeaderStop, Stop, Table, as_table
from engine.columns.framing import frame_error
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.attributes import COMPRESSION_MASK, is_control
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CRC_POSITION,
    CURRENT_MAGIC,
    HEAD,
    HEADER,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_HEADERS,
    RECORD_COUNT_POSITION,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.units import MAX_INT64, Offset, Position, Slot

Location: TypeAlias = tuple[Position, int, Offset, Offset, int, int]
"""File position, size, base offset, last offset, magic, and index in the scratch buffer or -1."""

_COUNTED = HEADER.subset(
    "base_offset", "length", "magic", "attributes", "last_offset_delta", "record_count"
)
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_LARGEST = DEFAULT_BUDGETS.batch_bytes


def walk(
    buffer: Buffer,
    table: Table | Buffer,
    start: int,
    file_position: Position,
    check_crc: bool,
    *,
    largest: int = _LARGEST,
) -> tuple[int, int, int]:
    """Fill `table` with the whole batches from buffer[start] on.

    Args:
        buffer: bytes of a file.
        table: rows of BATCH_ROW to fill, or as many bytes.
        start: position of the first batch in the buffer.
        file_position: position of buffer[start] in the file.
        check_crc: fill `crc_ok`, which is 0 otherwise.
        largest: size of the largest batch to take.

    Returns:
        number of rows filled, bytes of their batches, and why the walk ended (a `Stop`).
    """
    view = memoryview(buffer)
    if not 0 <= start <= len(view):
        raise ValueError(f"byte {start} is not in the buffer")
    position, row = start, 0
    rows = as_table(table)
    while row < len(rows):
        size, stop = _frame(view, position, largest)
        if stop is not None:
            return row, position - start, stop
        rows[row] = _row_of(view, position, size, file_position + position - start, check_crc)
        row += 1
        position += size
    return row, position - start, Stop.TABLE_FULL


def _frame(view: memoryview, position: int, largest: int) -> tuple[int, Stop | None]:
    """Return the size of the batch at a position (0 when unknown) and, if it cannot be taken, the reason."""
    left = len(view) - position
    if left < UP_TO_MAGIC:
        return 0, Stop.NEED_MORE
    _, length, _, magic = HEAD.unpack_from(view, position)
    if length < SMALLEST_LENGTH:
        return 0, Stop.LENGTH_TOO_SMALL
    if magic not in SMALLEST_BATCH:
        return 0, Stop.UNKNOWN_MAGIC
    size = length + LOG_OVERHEAD
    if size < SMALLEST_BATCH[magic]:
        return 0, Stop.LENGTH_TOO_SMALL
    if size > largest:
        return 0, Stop.TOO_LARGE
    return size, Stop.NEED_MORE if size > left else None


def _crc(view: memoryview, position: int, size: int, magic: int) -> int:
    covered = view[position + CRC_COVERS_FROM[magic] : position + size]
    return crc32c(covered) if magic == 2 else crc32(covered)


def _last_offset(view: memoryview, position: int) -> Offset:
    base: Offset = read_int64(view, position)
    if view[position + MAGIC_POSITION] != 2:
        return base
    return to_int64(base + read_int32(view, position + LAST_OFFSET_DELTA_POSITION))


def _row_of(
    view: memoryview, position: int, size: int, file_position: Position, check_crc: bool
) -> tuple[int, ...]:
    """Return the fields of BATCH_ROW, in order."""
    magic = view[position + MAGIC_POSITION]
    producer_id = producer_epoch = base_sequence = count = epoch = -1
    if magic == 2:
        fields = HEADER.plain.unpack_from(view, position)
        base, _, epoch, _, crc, attributes, _, first, last = fields[:9]
        producer_id, producer_epoch, base_sequence, count = fields[9:]
    else:
        base, _, crc, _, attributes = MESSAGE_HEADERS[0].plain.unpack_from(view, position)
        attributes &= 0xFF
        first = last = read_int64(view, position + MESSAGE_HEADERS[0].size) if magic else -1
    good = int(check_crc and _crc(view, position, size, magic) == crc)
    last_offset = _last_offset(view, position)
    return (
        *(file_position, base, last_offset, first, last, producer_id),
        *(size, epoch, base_sequence, count, crc, attributes, producer_epoch),
        *(magic, good, 0, 0),
    )


def good_rows(table: Table | Buffer, first_row: int, last_row: int) -> int:
    """Return the end of the good batches from `first_row` on with ascending offsets.

    A batch is good if its checksum is right and its offsets are possible.
    """
    rows = as_table(table)
    if not 0 <= first_row <= last_row <= len(rows):
        raise ValueError(f"rows {first_row} to {last_row} are not in the batch table")
    for row in range(first_row, last_row):
        base, last = int(rows["base_offset"][row]), int(rows["last_offset"][row])
        if not (rows["crc_ok"][row] and 0 <= base <= last < MAX_INT64):
            return row
        if row > first_row and base <= rows["last_offset"][row - 1]:
            return row
    return last_row


def find_batch(
    buffer: Buffer,
    start: int,
    file_position: Position,
    min_offset: Offset,
    *,
    largest: int = _LARGEST,
) -> int:
    """Return the index of the next provable batch from `start` on; -1 without one.

    A batch is proven if it is whole in the buffer, its header makes sense, its checksum is valid
    and its base offset is at least `min_offset`. `file_position` is the position of buffer[start]
    in the file.
    """
    view = memoryview(buffer)
    if start < 0:
        raise ValueError(f"byte {start} is not in the buffer")
    for position in range(start, len(view) - min(SMALLEST_BATCH.values()) + 1):
        if view[position + MAGIC_POSITION] > 2 or view[position] > 127:
            continue
        size, stop = _frame(view, position, largest)
        if stop is not None or read_int64(view, position) < min_offset:
            continue
        magic = view[position + MAGIC_POSITION]
        if (
            magic == 2
            and (
                view[position + LAST_OFFSET_DELTA_POSITION] | view[position + RECORD_COUNT_POSITION]
            )
            > 127
        ):
            continue  # one of the two is negative
        stored = read_uint32(view, position + CRC_POSITION[magic])
        if _crc(view, position, size, magic) == stored:
            return position
    return -1


def locate(
    fd: int,
    position: Position,
    end: Position,
    target: Offset,
    scratch: bytearray | memoryview,
    *,
    largest: int = _LARGEST,
) -> Location | None:
    """Locate the first batch from `position` on with a last offset at or above `target`.

    Args:
        fd: descriptor of the records file.
        position: position of a batch.
        end: end of the batches; a batch that would end behind it does not count.
        scratch: buffer of 256 bytes or more for reads.

    Returns:
        file position, size, base offset, last offset, magic, and the index of the batch in `scratch`, or
        -1 when it is not whole there; None when no batch up to `end` reaches the target.

    Raises:
        CorruptRecordError: a frame is impossible.
        LimitExceededError: a batch is larger than `largest`.
    """
    room = memoryview(scratch)
    if len(room) < 256:
        raise ValueError("the scratch buffer needs 256 bytes or more")
    while position < end:
        header = os.pread(fd, min(HEADER.size, end - position), position)
        view = memoryview(header)
        size, stop = _frame(view, 0, largest)
        if stop == Stop.NEED_MORE and len(header) < HEADER.size:
            return None
        _, length, _, magic = HEAD.unpack_from(header)
        if stop == Stop.TOO_LARGE and position + length + LOG_OVERHEAD > end:
            return None
        if stop is not None and stop != Stop.NEED_MORE:
            raise frame_error(stop, position, length, magic)
        if position + size > end:
            return None
        last = _last_offset(view, 0)
        if last >= target:
            got = os.preadv(fd, [room[:size]], position) if size <= len(room) else 0
            base = read_int64(header)
            return position, size, base, last, magic, 0 if got == size else -1
        position += size
    return None


def count_headers(
    fd: int,
    position: Position,
    end: Position,
    following: Offset,
    part_stop: Offset,
    wanted: tuple[Offset, Offset],
    odd: int,
    most: int,
    *,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> tuple[int, int, Position, Offset, int]:
    """Count records of batches of magic 2 by their headers, without the bytes between them.

    Args:
        fd: descriptor of the records file.
        position: position of the first batch.
        end: end of the batches.
        following: lowest offset that the first batch may have.
        part_stop: offset behind the last one that a batch may have.
        wanted: offsets to count, from the first to below the second.
        odd: bits of the attributes of batches that end the walk.
        most: number of batches to walk.

    Returns:
        number of batches, of their records without those of control batches, position and lowest next
        offset behind these batches, and why the walk ended there (a `HeaderStop`).
    """
    batches = records = 0
    start, stop = wanted
    while position < end and batches < most:
        try:
            data = os.pread(fd, HEADER.size, position)
        except OSError:
            return batches, records, position, following, HeaderStop.ODD
        if len(data) < HEADER.size:
            return batches, records, position, following, HeaderStop.ODD
        base, length, magic, attributes, delta, count = _COUNTED.unpack(data)
        size, last = LOG_OVERHEAD + length, base + delta
        is_possible = (
            magic == CURRENT_MAGIC
            and HEADER.size <= size <= min(budgets.batch_bytes, end - position)
            and following <= base <= last < part_stop
            and 0 <= count <= min(delta + 1, budgets.records_per_batch)
            and attributes & COMPRESSION_MASK <= LAST_CODEC
        )
        if not is_possible or attributes & odd:
            return batches, records, position, following, HeaderStop.ODD
        if not is_control(magic, attributes) and base < stop and last >= start:
            if base < start or last >= stop:
                return batches, records, position, following, HeaderStop.CROSSES
            records += count
        batches += 1
        position += size
        following = last + 1
    return batches, records, position, following, HeaderStop.DONE


def floor_slot(
    buffer: Buffer,
    count: int,
    entry_size: int,
    key_offset_in_entry: int,
    key_is_i64: bool,
    target: int,
) -> Slot:
    """Return the largest slot with a key at or below `target`, or -1.

    Args:
        buffer: `count` entries of `entry_size` bytes, sorted by key.
        key_offset_in_entry: position of the big-endian signed key in an entry.
        key_is_i64: whether the key has 8 bytes; otherwise 4.
    """
    view = memoryview(buffer)
    key = _INT64 if key_is_i64 else _INT32
    if not 0 <= key_offset_in_entry <= entry_size - key.size or count > len(view) // entry_size:
        raise ValueError("the slots are outside the buffer")

    def is_below(slot: Slot) -> bool:
        found: int = key.unpack_from(view, slot * entry_size + key_offset_in_entry)[0]
        return found <= target

    low, high = -1, count - 1
    warm = high - 8192 // entry_size
    if warm > 0:
        low, high = (warm, high) if is_below(warm) else (low, warm - 1)
    while low < high:
        middle = low + (high - low + 1) // 2
        low, high = (middle, high) if is_below(middle) else (low, middle - 1)
    return low


def read_batch(
    fd: int, position: Position, end: Position, offset: Offset, *, largest: int = _LARGEST
) -> tuple[bytes, Position, bytes] | None:
    """Return the first batch that reaches an offset: its bytes, their position in the file, and its row.

    None without such a batch, or if it is damaged or starts above the offset. A returned compressed
    batch of magic 0 or 1 may start above the offset: its header does not state the base offset.

    Args:
        fd, position, end, largest: as for `locate`.
    """
    try:
        found = locate(fd, position, end, offset, bytearray(256), largest=largest)
        if found is None:
            return None
        data = os.pread(fd, found[1], found[0])
    except (OSError, CorruptRecordError, LimitExceededError):
        return None
    row = bytearray(BATCH_ROW.size)
    rows, size, _ = walk(data, row, 0, found[0], True, largest=largest)
    header = BATCH_ROW.unpack(row)
    is_past = header.magic == 2 and header.base_offset > offset
    if not rows or not header.crc_ok or is_past or header.last_offset < offset:
        return None
    return data[:size], found[0], bytes(row)
