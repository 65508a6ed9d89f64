"""Decode payloads to rows of RECORD_ROW in Python: the reference for the compiled kernel.

Accepts the same bytes as Kafka's DefaultRecord.readFrom and AbstractLegacyRecordBatch; refuses
others with a `Reason` and the two numbers that contradict each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from engine.arrays import np, npt
from engine.budgets import Budgets
from engine.coding.compression import LAST_CODEC, CompressionType
from engine.coding.fixed_width import read_int32, read_int64
from engine.coding.layout import Buffer
from engine.coding.varint import read_varint, read_varlong, to_int32, to_int64
from engine.columns.batch_table import BatchProblem, Problem
from engine.columns.columns import Reason, describe
from engine.columns.payload import inflate
from engine.record.attributes import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK
from engine.record.batch_frame import (
    HEADER,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_HEADERS,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.units import MAX_INT32, Position

Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int]
"""Fields of RECORD_ROW, in order."""

Table: TypeAlias = "npt.NDArray[Any]"
Trouble: TypeAlias = tuple[Problem, str] | None

_FRAME = HEADER.up_to("length")
# Positions in a message count from the end of its offset and size fields.
_MAGIC = MAGIC_POSITION - LOG_OVERHEAD
_ATTRIBUTES = MESSAGE_HEADERS[1].position_of("attributes") - LOG_OVERHEAD
_TIMESTAMP = MESSAGE_HEADERS[1].position_of("timestamp") - LOG_OVERHEAD
_KEY = tuple(header.size - LOG_OVERHEAD for header in MESSAGE_HEADERS)


class Refusal(Exception):
    """Error for bytes that break the format: the reason, and the two numbers that contradict each other."""

    def __init__(self, reason: Reason, stated: int = 0, found: int = 0) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.stated = stated
        self.found = found
        self.index = 0


def sequence_of(base: int, delta: int) -> int:
    """Return a record's sequence number; it wraps from 2^31-1 to 0, and overflows as in Java for absurd deltas."""
    if base < 0:
        return -1
    if base > to_int32(MAX_INT32 - delta):
        return to_int32(to_int32(delta - to_int32(MAX_INT32 - base)) - 1)
    return to_int32(base + delta)


def read_payload(
    batch: np.void, row: int, payload: memoryview, base: int, budgets: Budgets, out: list[Row]
) -> None:
    """Append the records of a payload of magic 2, which starts at `base` in the arena.

    Args:
        batch: row of the batch table.
        row: number of that row.

    Raises:
        Refusal: with `index`; the records before it are in `out`.
    """
    count, position, index = int(batch["record_count"]), 0, 0
    try:
        while index < min(count, budgets.records_per_batch):
            if position == len(payload):
                raise Refusal(Reason.COUNT_TOO_HIGH, count, index)
            start = position
            try:
                size, position = read_varint(payload, position)
            except (ValueError, IndexError):
                raise Refusal(Reason.BAD_VARINT) from None
            if not 0 <= size <= len(payload) - position:
                raise Refusal(Reason.RECORD_SIZE, size, len(payload) - position)
            body = payload[position : position + size]
            out.append(_read_record(batch, row, body, base + position, budgets))
            assert position > start
            position += size
            index += 1
        if index < count:
            raise Refusal(Reason.RECORD_LIMIT, count, budgets.records_per_batch)
        if position < len(payload):
            raise Refusal(Reason.LEFTOVER, len(payload) - position)
    except Refusal as refusal:
        refusal.index = index
        raise


def _read_record(batch: np.void, row: int, body: memoryview, base: int, budgets: Budgets) -> Row:
    try:
        elapsed, at = read_varlong(body, 1)
        delta, at = read_varint(body, at)
        key_at, key_size, at = _field(body, at, Reason.KEY_SIZE)
        value_at, value_size, at = _field(body, at, Reason.VALUE_SIZE)
        count, headers_at = read_varint(body, at)
        at = _skip_headers(body, headers_at, count, budgets)
    except (ValueError, IndexError):
        raise Refusal(Reason.BAD_VARINT) from None
    if at != len(body):
        raise Refusal(Reason.FIELDS_SIZE, len(body), at)
    if int(batch["attributes"]) & TIMESTAMP_TYPE_MASK:
        timestamp = int(batch["max_timestamp"])
    else:
        timestamp = to_int64(int(batch["base_timestamp"]) + elapsed)
    return (
        to_int64(int(batch["base_offset"]) + delta),
        timestamp,
        base + key_at,
        base + value_at,
        base + headers_at,
        key_size,
        value_size,
        at - headers_at,
        count,
        sequence_of(int(batch["base_sequence"]), delta),
        row,
    )


def _field(body: memoryview, at: int, reason: Reason) -> tuple[int, int, int]:
    """Return the position and size (-1: null) of a key or value, and the position after it."""
    size, at = read_varint(body, at)
    if size > len(body) - at:
        raise Refusal(reason, size, len(body) - at)
    return at, max(size, -1), at + max(size, 0)


def _skip_headers(body: memoryview, at: int, count: int, budgets: Budgets) -> int:
    if not 0 <= count <= len(body) - at:
        raise Refusal(Reason.HEADER_COUNT, count, len(body) - at)
    if count > budgets.headers_per_record:
        raise Refusal(Reason.HEADER_LIMIT, count, budgets.headers_per_record)
    for _ in range(count):
        size, at = read_varint(body, at)
        if not 0 <= size <= len(body) - at:
            raise Refusal(Reason.HEADER_KEY_SIZE, size, len(body) - at)
        size, at = read_varint(body, at + size)
        if size > len(body) - at:
            raise Refusal(Reason.HEADER_VALUE_SIZE, size, len(body) - at)
        at += max(size, 0)
    return at


def read_message(message: memoryview, base: int, offset: int, row: int) -> Row:
    """Return the row of a message of magic 0 or 1.

    `message` starts after the 12 bytes of offset and size, at `base` in the arena.
    """
    fixed = _KEY[message[_MAGIC] != 0]
    if len(message) < fixed + 8:
        raise Refusal(Reason.RECORD_SIZE, fixed + 8, len(message))
    timestamp = -1 if message[_MAGIC] == 0 else read_int64(message, _TIMESTAMP)
    key_at, key_size, at = _sized(message, fixed, Reason.KEY_SIZE)
    value_at, value_size, at = _sized(message, at, Reason.VALUE_SIZE)
    return (
        offset,
        timestamp,
        base + key_at,
        base + value_at,
        base + at,
        key_size,
        value_size,
        0,
        0,
        -1,
        row,
    )


def _sized(message: memoryview, at: int, reason: Reason) -> tuple[int, int, int]:
    if len(message) - at < 4:
        raise Refusal(reason, 4, len(message) - at)
    size = read_int32(message, at)
    at += 4
    if size > len(message) - at:
        raise Refusal(reason, size, len(message) - at)
    return at, max(size, -1), at + max(size, 0)


def read_message_set(
    batch: np.void,
    row: int,
    payload: memoryview,
    base: int,
    budgets: Budgets,
    out: list[Row],
    *,
    partial: bool = False,
) -> None:
    """Append the inner messages of a compressed message, with the offsets that Kafka gives them.

    `partial`: the end of the payload was lost. Offsets of magic 1 count back from the last inner
    message, so then none of them can be computed.

    Raises:
        Refusal: with `index`; the records before it with a known offset are in `out`.
    """
    inner: list[Row] = []
    refusal: Refusal | None = None
    magic, wrapper_offset = int(batch["magic"]), int(batch["base_offset"])
    try:
        _read_inner(batch, row, payload, base, budgets, inner)
    except Refusal as error:
        refusal = error
        refusal.index = len(inner)
    if magic == 1:
        if refusal is not None or partial:
            inner.clear()
            if refusal is not None:
                refusal.index = 0
        elif inner and wrapper_offset:
            last = inner[-1][0]
            if wrapper_offset < last:
                raise Refusal(Reason.WRAPPER_OFFSET, wrapper_offset, last)
            inner = [(to_int64(r[0] + wrapper_offset - last), *r[1:]) for r in inner]
    out += inner
    if refusal is not None:
        raise refusal
    if not inner and not partial:
        raise Refusal(Reason.WRAPPER_EMPTY)


def _read_inner(
    batch: np.void, row: int, payload: memoryview, base: int, budgets: Budgets, inner: list[Row]
) -> None:
    magic = int(batch["magic"])
    append_time = magic == 1 and int(batch["attributes"]) & TIMESTAMP_TYPE_MASK
    position = 0
    while len(payload) - position >= LOG_OVERHEAD:
        offset, length = _FRAME.unpack_from(payload, position)
        if length < SMALLEST_LENGTH:
            raise Refusal(Reason.INNER_SIZE, length, SMALLEST_LENGTH)
        position += LOG_OVERHEAD
        if length > len(payload) - position:
            return  # as Kafka does with a message that is cut off at the end of a set
        if len(inner) == budgets.records_per_batch:
            raise Refusal(Reason.RECORD_LIMIT, len(inner) + 1, budgets.records_per_batch)
        message = payload[position : position + length]
        # Kafka reads inner messages of the other legacy magic: an old cleaner wrote them
        # (KAFKA-4298).
        if message[_MAGIC] > 1:
            raise Refusal(Reason.INNER_MAGIC, message[_MAGIC], magic)
        if message[_ATTRIBUTES] & COMPRESSION_MASK:
            raise Refusal(Reason.INNER_COMPRESSED, message[_ATTRIBUTES] & COMPRESSION_MASK)
        record = read_message(message, base + position, offset, row)
        if append_time and message[_MAGIC] == 1:
            record = (offset, int(batch["max_timestamp"]), *record[2:])
        inner.append(record)
        position += length


class Needle(NamedTuple):
    """Bytes to look for; with `fold`, capital and small ASCII letters are the same."""

    content: bytes
    fold: bool = False

    def is_in(self, hay: Buffer) -> bool:
        """Return whether some bytes hold the needle."""
        if self.fold:
            return self.content.lower() in bytes(hay).lower()
        return self.content in bytes(hay)


class Decoder:
    """Decoder from rows of a batch table to columns."""

    def __init__(
        self,
        buffer: Buffer,
        table: Table,
        start_position: Position,
        budgets: Budgets,
        *,
        copy: bool,
        needle: Needle | None = None,
    ) -> None:
        self.view = memoryview(buffer)
        self.table = table
        self.start_position = start_position
        self.budgets = budgets
        self.copy = copy
        self.needle = needle
        self.arena = bytearray()
        self.records: list[Row] = []
        self.problems: list[BatchProblem] = []

    def decode(self, row: int) -> None:
        """Append a batch's records; add a problem to `problems` if the batch is not decoded whole."""
        before = len(self.records)
        try:
            trouble = self._read(row)
        except Refusal as refusal:
            self.problems.append(
                describe(row, refusal.reason, refusal.index, refusal.stated, refusal.found)
            )
        else:
            if trouble is not None:
                code, detail = trouble
                self.problems.append(BatchProblem(row, code, len(self.records) - before, detail))

    def arena_of(self, row: int) -> memoryview:
        """Return the bytes that a row's records point into, when nothing was decoded with `copy`."""
        compressed = int(self.table["attributes"][row]) & COMPRESSION_MASK
        return memoryview(self.arena) if compressed else self.view

    def batch_bytes(self, row: int) -> tuple[memoryview, int]:
        """Return the bytes of a batch and their position in the buffer."""
        batch = self.table[row]
        at, size, magic = (
            int(batch["position"]) - self.start_position,
            int(batch["size"]),
            int(batch["magic"]),
        )
        if at < 0 or size < SMALLEST_BATCH.get(magic, 1 << 31) or at + size > len(self.view):
            raise ValueError(f"row {row} of the batch table is outside the buffer")
        return self.view[at : at + size], at

    def _read(self, row: int) -> Trouble:
        data, at = self.batch_bytes(row)
        batch = self.table[row]
        magic, codec = int(batch["magic"]), int(batch["attributes"]) & COMPRESSION_MASK
        records = data[HEADER.size if magic == 2 else UP_TO_MAGIC :]
        if not codec and self.needle is not None and not self.needle.is_in(records):
            return None
        if magic == 2:
            if not self._check_header(batch, len(data)):
                return None
            payload = data[HEADER.size :]
        if codec:
            compressed = payload if magic == 2 else self._wrapped(data, row, codec)
            return self._read_compressed(row, compressed, codec, magic)
        if self.copy:
            at = len(self.arena)
            self.arena += data
        if magic == 2:
            read_payload(batch, row, payload, at + HEADER.size, self.budgets, self.records)
        else:
            message = data[LOG_OVERHEAD:]
            offset = int(batch["base_offset"])
            self.records.append(read_message(message, at + LOG_OVERHEAD, offset, row))
        return None

    @staticmethod
    def _check_header(batch: np.void, size: int) -> bool:
        """Return whether the batch has records to read."""
        last, base, count = (
            int(batch["last_offset"]),
            int(batch["base_offset"]),
            int(batch["record_count"]),
        )
        if last < base:
            raise Refusal(Reason.LAST_OFFSET, last, base)
        if count < 0:
            raise Refusal(Reason.COUNT_NEGATIVE, count)
        if count == 0 and size > HEADER.size:
            raise Refusal(Reason.LEFTOVER, size - HEADER.size)
        return count > 0

    @staticmethod
    def _wrapped(data: memoryview, row: int, codec: int) -> memoryview:
        """Return the value of a compressed message of magic 0 or 1."""
        if codec > LAST_CODEC:
            raise Refusal(Reason.CODEC_UNKNOWN, codec)
        if codec >= CompressionType.ZSTD:
            raise Refusal(Reason.WRAPPER_CODEC, codec)
        wrapper = read_message(data[LOG_OVERHEAD:], LOG_OVERHEAD, 0, row)
        start, size = wrapper[3], wrapper[6]
        if size < 0:
            raise Refusal(Reason.WRAPPER_NULL)
        return data[start : start + size]

    def may_hold(self, row: int, needle: Needle) -> bool:
        """Return whether the needle is in the bytes of a batch's records; also True if they do not inflate."""
        data, _ = self.batch_bytes(row)
        batch = self.table[row]
        magic, codec = int(batch["magic"]), int(batch["attributes"]) & COMPRESSION_MASK
        payload = data[HEADER.size :] if magic == 2 else data[UP_TO_MAGIC:]
        if not codec:
            return needle.is_in(payload)
        if codec > LAST_CODEC:
            return True
        try:
            compressed = payload if magic == 2 else self._wrapped(data, row, codec)
        except Refusal:
            return True
        limit = self.budgets.inflated_bytes
        inflated, trouble = inflate(codec, compressed, limit=limit, magic=magic)
        return trouble is not None or needle.is_in(inflated)

    def _read_compressed(self, row: int, compressed: memoryview, codec: int, magic: int) -> Trouble:
        if codec > LAST_CODEC:
            raise Refusal(Reason.CODEC_UNKNOWN, codec)
        limit = self.budgets.inflated_bytes
        inflated, trouble = inflate(codec, compressed, limit=limit, magic=magic)
        if trouble is None and self.needle is not None and not self.needle.is_in(inflated):
            return None
        base = len(self.arena)
        self.arena += inflated
        payload, batch = memoryview(inflated), self.table[row]
        try:
            if magic == 2:
                read_payload(batch, row, payload, base, self.budgets, self.records)
            else:
                read_message_set(
                    batch,
                    row,
                    payload,
                    base,
                    self.budgets,
                    self.records,
                    partial=trouble is not None,
                )
        except Refusal:
            if trouble is None:
                raise
        return trouble
