"""Dump text of batches that are too large to format at once: some records, or part of a long field, at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine import kernel
from engine.columns.batch_table import Table
from engine.columns.columns import Columns
from engine.lines.dump_text import DumpShape
from engine.lines.json_text import Values
from engine.memory_gate import LARGE
from engine.units import MAX_INT64, Offset
from kafkafs.decode.batch_lines import field_pieces

_RECORDS = 16 * 1024
_PIECE = 1024 * 1024
_MUCH = 8 * LARGE
_LEAST_OFFSET = -(1 << 63)
_LOOK_BACK = 64
_TAILS = 4


def is_large(columns: Columns) -> bool:
    """Return whether the text of some records would take much memory."""
    if not len(columns):
        return False
    sizes = sizes_of(columns)
    return bool(len(columns) > 4 * _RECORDS or sizes.max() > LARGE or sizes.sum() > _MUCH)


def sizes_of(columns: Columns) -> Table:
    """Return the bytes of each record's key, value and headers."""
    sizes = np.maximum(columns.key_size, 0).astype(np.int64)
    sizes += np.maximum(columns.value_size, 0)
    sizes += columns.headers_size
    return sizes


def dump_pieces(
    table: Table, row: int, columns: Columns, *, shape: int, first: Offset, last: Offset
) -> Iterator[bytes]:
    """Yield the text of `kernel.dump_rows` for one row in pieces: the batch line, if asked for, and its records."""
    if shape & DumpShape.BATCHES:
        text, _ = kernel.dump_rows(table, row, row + 1, None, shape=DumpShape.BATCHES)
        yield text
        shape &= ~DumpShape.BATCHES
    if not shape:
        return
    sizes = sizes_of(columns)
    places = np.flatnonzero(columns.row == row)  # next to each other
    start, stop = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
    while start < stop:
        end = min(start + _RECORDS, stop)
        if sizes[start] > LARGE:
            offset = int(columns.offset[start])
            if first <= offset <= last:
                yield from _large_record(table, row, columns, start, shape)
            start += 1
            continue
        much = np.flatnonzero(np.cumsum(sizes[start:end]) > LARGE)
        end = start + max(int(much[0]), 1) if len(much) else end
        yield _records(table, row, columns, start, end, shape, first, last)
        start = end


def _records(
    table: Table,
    row: int,
    columns: Columns,
    start: int,
    end: int,
    shape: int,
    first: Offset = _LEAST_OFFSET,
    last: Offset = MAX_INT64,
) -> bytes:
    some = Columns(columns.table[start:end], columns.arena, [], row + 1)
    text, _ = kernel.dump_rows(
        table, row, row + 1, some, shape=shape, from_offset=first, upto_offset=last
    )
    return text


def _large_record(
    table: Table, row: int, columns: Columns, index: int, shape: int
) -> Iterator[bytes]:
    """Yield the line of one record, with key and payload in pieces."""
    is_alone = not shape & DumpShape.METADATA
    if not is_alone:
        yield _records(table, row, columns, index, index + 1, DumpShape.METADATA)[:-1]
    if shape & DumpShape.CONTENTS:
        record = columns.table[index]
        for label, name in ((b" key: ", "key"), (b" payload: ", "value")):
            start, size = int(record[f"{name}_start"]), int(record[f"{name}_size"])
            if size < 0:
                continue
            yield b"|" + label if is_alone else label
            is_alone = False
            yield from _java_pieces(table, row, columns, start, size)
    yield b"\n"


def _java_pieces(
    table: Table, row: int, columns: Columns, start: int, size: int
) -> Iterator[bytes]:
    """Yield bytes of the arena as Java shows them, in pieces that end between characters."""
    end = start + size
    bare = columns.table[:1].copy()
    bare["row"], bare["offset"], bare["key_size"], bare["headers_size"] = row, 0, -1, 0
    while start < end:
        stop = _cut(columns.arena, start, min(start + _PIECE, end), end)
        bare["value_start"], bare["value_size"] = start, stop - start
        one = Columns(bare, columns.arena, [], row + 1)
        text = _records(table, row, one, 0, 1, DumpShape.CONTENTS)
        yield text[len(b"| payload: ") : -1]
        start = stop


def _cut(arena: memoryview, start: int, stop: int, end: int) -> int:
    """Return where to cut near `stop`: before the first byte of a character, or at `stop` in bytes that are no text."""
    if stop == end:
        return stop
    for at in range(stop, max(stop - _LOOK_BACK, start + _TAILS), -1):
        if arena[at] & 0xC0 != 0x80:
            return at
    return stop  # no character has so many bytes


def json_field(name: bytes, data: memoryview | None) -> Iterator[bytes]:
    """Yield a field of bytes of a JSON line: text, else base64."""
    for part in field_pieces(name, data, Values.TEXT, lambda: False):
        assert isinstance(part, bytes)
        yield part
