"""Decoded records as columns: a row of 64 bytes for each record, which points to the record's bytes.

The kernel and its Python twin fill the rows. `Reason` numbers the decoding errors; this module has
their words.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from engine.arrays import npt
from engine.coding.layout import Int32, Int64, Layout
from engine.coding.varint import read_varint
from engine.columns.batch_table import BatchProblem, Problem
from engine.record.record import Header


class RecordRow(NamedTuple):
    """A decoded record; the kernel maps a C struct with the fields in this order onto its 64 bytes."""

    offset: Int64
    timestamp: Int64
    key_start: Int64
    value_start: Int64
    headers_start: Int64  # after the headers' count
    key_size: Int32  # -1: null
    value_size: Int32  # -1: null
    headers_size: Int32
    headers_count: Int32
    sequence: Int32  # -1: none
    row: Int32  # of the batch table


RECORD_ROW: Final = Layout(RecordRow, "=")

Column: TypeAlias = "npt.NDArray[Any]"


class Reason(IntEnum):
    """Reasons why bytes do not decode; the kernel's C code has the same numbers."""

    BAD_VARINT = 1
    RECORD_SIZE = 2
    KEY_SIZE = 3
    VALUE_SIZE = 4
    HEADER_COUNT = 5
    HEADER_KEY_SIZE = 6
    HEADER_VALUE_SIZE = 7
    FIELDS_SIZE = 8
    COUNT_TOO_HIGH = 9
    LEFTOVER = 10
    COUNT_NEGATIVE = 11
    LAST_OFFSET = 12
    RECORD_LIMIT = 13
    HEADER_LIMIT = 14
    CODEC_UNKNOWN = 15
    WRAPPER_NULL = 16
    WRAPPER_EMPTY = 17
    WRAPPER_OFFSET = 18
    WRAPPER_CODEC = 19
    INNER_MAGIC = 20
    INNER_SIZE = 21
    INNER_COMPRESSED = 22


_INVALID = Problem.INVALID_RECORD
_WORDS: dict[Reason, tuple[Problem, str]] = {
    Reason.BAD_VARINT: (_INVALID, "a variable-length integer is too long or cut off"),
    Reason.RECORD_SIZE: (_INVALID, "a record of {0} bytes, where {1} are left"),
    Reason.KEY_SIZE: (_INVALID, "a key of {0} bytes, where {1} are left in the record"),
    Reason.VALUE_SIZE: (_INVALID, "a value of {0} bytes, where {1} are left in the record"),
    Reason.HEADER_COUNT: (_INVALID, "{0} headers, where {1} bytes are left in the record"),
    Reason.HEADER_KEY_SIZE: (
        _INVALID,
        "a header key of {0} bytes, where {1} are left in the record",
    ),
    Reason.HEADER_VALUE_SIZE: (
        _INVALID,
        "a header value of {0} bytes, where {1} are left in the record",
    ),
    Reason.FIELDS_SIZE: (_INVALID, "a record states {0} bytes, its fields take {1}"),
    Reason.COUNT_TOO_HIGH: (Problem.RECORD_COUNT, "the batch states {0} records and holds {1}"),
    Reason.LEFTOVER: (Problem.LEFTOVER_BYTES, "{0} bytes follow the last record"),
    Reason.COUNT_NEGATIVE: (Problem.INVALID_HEADER, "the batch states {0} records"),
    Reason.LAST_OFFSET: (
        Problem.INVALID_HEADER,
        "the last offset {0} is below the base offset {1}",
    ),
    Reason.RECORD_LIMIT: (Problem.LIMIT, "the batch states {0} records, the budget is {1}"),
    Reason.HEADER_LIMIT: (Problem.LIMIT, "a record states {0} headers, the budget is {1}"),
    Reason.CODEC_UNKNOWN: (Problem.UNKNOWN_CODEC, "unknown codec {0}"),
    Reason.WRAPPER_NULL: (_INVALID, "a compressed message has a null value"),
    Reason.WRAPPER_EMPTY: (_INVALID, "a compressed message holds no messages"),
    Reason.WRAPPER_OFFSET: (
        _INVALID,
        "a compressed message has offset {0}, its last inner message {1}",
    ),
    Reason.WRAPPER_CODEC: (_INVALID, "codec {0} in a message that is older than it"),
    Reason.INNER_MAGIC: (_INVALID, "an inner message of magic {0} in one of magic {1}"),
    Reason.INNER_SIZE: (_INVALID, "an inner message of {0} bytes, the smallest has {1}"),
    Reason.INNER_COMPRESSED: (_INVALID, "an inner message is compressed itself (codec {0})"),
}


def describe(row: int, reason: int, index: int, stated: int, found: int) -> BatchProblem:
    """Return the problem of a batch in words, after `index` records were decoded."""
    code, words = _WORDS[Reason(reason)]
    return BatchProblem(row, code, index, words.format(stated, found))


class Columns:
    """Records of a run of batches, in the order of the file.

    Attributes:
        table: array of RECORD_ROW, one row per record; the properties are its columns.
        arena: bytes that the `_start` columns point into; for uncompressed batches the buffer that
            was decoded.
        problems: batches that were not decoded whole; their records before the problem are in the table.
        next_row: first row of the batch table that was not decoded. It is below `last_row` when the
            records would exceed the memory limit: call again with this row.
    """

    __slots__ = ("arena", "next_row", "problems", "table")

    def __init__(
        self, table: Column, arena: memoryview, problems: list[BatchProblem], next_row: int
    ) -> None:
        self.table = table
        self.arena = arena
        self.problems = problems
        self.next_row = next_row

    def __len__(self) -> int:
        return len(self.table)

    @property
    def offset(self) -> Column:
        """Offsets, int64."""
        return self.table["offset"]

    @property
    def timestamp(self) -> Column:
        """Milliseconds since 1970, int64; -1 without a timestamp."""
        return self.table["timestamp"]

    @property
    def sequence(self) -> Column:
        """Producers' sequence numbers, int32; -1 for none."""
        return self.table["sequence"]

    @property
    def row(self) -> Column:
        """Row of each record's batch in the batch table, int32."""
        return self.table["row"]

    @property
    def key_start(self) -> Column:
        """Positions of keys in the arena, int64."""
        return self.table["key_start"]

    @property
    def key_size(self) -> Column:
        """Sizes of keys in bytes, int32; -1 for null."""
        return self.table["key_size"]

    @property
    def value_start(self) -> Column:
        """Positions of values in the arena, int64."""
        return self.table["value_start"]

    @property
    def value_size(self) -> Column:
        """Sizes of values in bytes, int32; -1 for null."""
        return self.table["value_size"]

    @property
    def headers_start(self) -> Column:
        """Positions of the first headers in the arena, int64."""
        return self.table["headers_start"]

    @property
    def headers_size(self) -> Column:
        """Sizes of all headers of a record in bytes, int32."""
        return self.table["headers_size"]

    @property
    def headers_count(self) -> Column:
        """Numbers of headers, int32."""
        return self.table["headers_count"]

    def key(self, index: int) -> bytes | None:
        """Return the key of one record; None for null."""
        return self._field(index, "key_start", "key_size")

    def value(self, index: int) -> bytes | None:
        """Return the value of one record; None for null."""
        return self._field(index, "value_start", "value_size")

    def headers(self, index: int) -> tuple[Header, ...]:
        """Return the headers of one record, in order."""
        record = self.table[index]
        return read_headers(self.arena, int(record["headers_start"]), int(record["headers_count"]))

    def _field(self, index: int, start: str, size: str) -> bytes | None:
        record = self.table[index]
        length = int(record[size])
        if length < 0:
            return None
        at = int(record[start])
        return bytes(self.arena[at : at + length])


def read_headers(buffer: memoryview, position: int, count: int) -> tuple[Header, ...]:
    """Return `count` headers of a record that was decoded before, so that no checks are needed."""
    headers = []
    for _ in range(count):
        size, position = read_varint(buffer, position)
        key = bytes(buffer[position : position + size])
        position += size
        size, position = read_varint(buffer, position)
        value = None if size < 0 else bytes(buffer[position : position + size])
        position += max(size, 0)
        headers.append(Header(key, value))
    return tuple(headers)
