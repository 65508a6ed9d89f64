"""The kernel in pure Python: reference for the compiled kernel, and fallback where that is missing.

Every function has the signature and results of its compiled twin, only slower.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from engine.arrays import np, npt
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.layout import Buffer
from engine.columns.batch_facts import batch_facts as batch_facts
from engine.columns.batch_summary import SUMMARY_ROW, SummaryResult, summary_of
from engine.columns.batch_table import BATCH_ROW, as_table
from engine.columns.binary_columns import gather as gather, gather_headers as gather_headers
from engine.columns.columns import RECORD_ROW, Columns
from engine.columns.decoding import (
    Decoder,
    Needle,
    Table,
)
from engine.columns.matching import matching as matching
from engine.columns.record_facts import record_facts as record_facts
from engine.kernel.python_batches import (
    Location as Location,
    count_headers as count_headers,
    find_batch as find_batch,
    floor_slot as floor_slot,
    good_rows as good_rows,
    locate as locate,
    read_batch as read_batch,
    walk as walk,
)
from engine.kernel.python_compaction import (
    encode_records as encode_records,
    keep_records as keep_records,
    move_slots as move_slots,
    offsets_of as offsets_of,
    put_keys as put_keys,
)
from engine.lines.dump_text import dump_rows as dump_rows
from engine.lines.json_text import how_shown as how_shown, text_piece as text_piece
from engine.lines.line_decoder import Marks
from engine.lines.line_writer import Fates, LineWriter, column_lines as column_lines
from engine.lines.lines_result import NO_BOUND, LinesResult
from engine.lines.record_line import LineOptions
from engine.record.attributes import (
    COMPRESSION_MASK,
    TRANSACTIONAL_MASK,
    has_flag,
    is_control,
)
from engine.topics.message.decoding import CountedBytes, read_message as read_fields
from engine.topics.message.encoding import write_message as write_message
from engine.topics.message.schema import Message
from engine.units import MAX_INT32, Offset, Position, Timestamp

ENOUGH = 64 << 20
"""Decoding stops after the batch that brings arena and rows to this many bytes."""

_LARGEST = DEFAULT_BUDGETS.batch_bytes
_RECORD_SIZE = RECORD_ROW.size


# Records


def _check_rows(table: Table, first_row: int, last_row: int) -> None:
    if not 0 <= first_row <= last_row <= len(table):
        raise ValueError(f"rows {first_row} to {last_row} are not in the batch table")


def decode(
    buffer: Buffer,
    table: Table,
    first_row: int,
    last_row: int,
    *,
    start_position: Position,
    budgets: Budgets = DEFAULT_BUDGETS,
    enough: int = ENOUGH,
    needle: Buffer = b"",
    fold: bool = False,
    marks: Marks | None = None,
) -> Columns:
    """Return the records of rows [first_row, last_row) as columns; the caller has checked the checksums.

    Args:
        buffer: bytes of a file from `start_position` on.
        table: rows of BATCH_ROW, of batches in the buffer.
        budgets: limits of each batch.
        enough: stop after the batch that brings arena and rows to this many bytes; continue with
            the columns' `next_row`.
        needle, fold: decode only batches that may hold the needle, as for `contains`.
        marks: with a needle: decode also batches with a record that looks so.
    """
    _check_rows(table, first_row, last_row)
    copy = bool((table["attributes"][first_row:last_row] & COMPRESSION_MASK).any())
    sought = Needle(bytes(needle), fold) if len(needle) else None
    only_found = sought if marks is None else None
    decoder = Decoder(buffer, table, start_position, budgets, copy=copy, needle=only_found)
    row = first_row
    while row < last_row and len(decoder.arena) + len(decoder.records) * _RECORD_SIZE < enough:
        if marks is not None and sought is not None and not decoder.may_hold(row, sought):
            _decode_marked(decoder, row, marks)
        else:
            decoder.decode(row)
        row += 1
    records = np.array(decoder.records, RECORD_ROW.dtype)
    records.flags.writeable = False
    arena = memoryview(decoder.arena) if copy else decoder.view
    return Columns(records, arena, decoder.problems, row)


def _decode_marked(decoder: Decoder, row: int, marks: Marks) -> None:
    """Append a batch's records if one looks as the marks say, or if the batch is not decoded whole."""
    arena_size, count, problems = len(decoder.arena), len(decoder.records), len(decoder.problems)
    decoder.decode(row)
    if len(decoder.problems) > problems:
        return
    table = np.array(decoder.records[count:], RECORD_ROW.dtype)
    with memoryview(decoder.arena) if decoder.copy else decoder.view[:] as arena:
        found = Columns(table, arena, [], row)
        is_kept = any(
            marks.are_on(found.key(index), found.value(index), found.headers(index))
            for index in range(len(found))
        )
    if not is_kept:
        del decoder.arena[arena_size:], decoder.records[count:]


def summarize(
    buffer: Buffer,
    table: Table,
    *,
    start_position: Position,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> SummaryResult:
    """Return summaries of the records of a table's batches; the caller has checked the checksums.

    Args:
        buffer, table, start_position, budgets: as for `decode`.
    """
    _check_rows(table, 0, len(table))
    decoder = Decoder(buffer, table, start_position, budgets, copy=False)
    rows = np.zeros(len(table), SUMMARY_ROW.dtype)
    for row in range(len(table)):
        decoder.arena.clear()
        decoder.records.clear()
        decoder.decode(row)
        rows[row] = summary_of(decoder.records, len(decoder.arena))
    return SummaryResult(rows, decoder.problems)


def read_record(
    fd: int,
    position: Position,
    end: Position,
    offset: Offset,
    *,
    largest: int = _LARGEST,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> Columns | None:
    """Return the record with exactly this offset, alone, from the first batch that reaches the offset.

    None without such a record, or if its batch is damaged, cannot be read, or is a compressed batch
    of magic 0 or 1.

    Args:
        fd, position, end: as for `locate`.
        largest: largest batch to read, in bytes; also limited by the budgets.
        budgets: limits of the batch.

    Returns:
        columns of one record; their arena begins with its key and ends with its headers.
    """
    found = read_batch(fd, position, end, offset, largest=min(largest, budgets.batch_bytes))
    if found is None:
        return None
    data, at, rows = found
    header = BATCH_ROW.unpack(rows)
    if header.magic < 2 and header.attributes & COMPRESSION_MASK:
        return None
    columns = decode(data, as_table(rows), 0, 1, start_position=at, budgets=budgets)
    places = np.flatnonzero(columns.offset == offset)
    return _alone(columns, int(places[0])) if len(places) else None


def _alone(columns: Columns, place: int) -> Columns:
    """Return one of the records, with only its own bytes."""
    record = columns.table[place : place + 1].copy()
    start = int(record["key_start"][0])
    stop = int(record["headers_start"][0] + record["headers_size"][0])
    for name in ("key_start", "value_start", "headers_start"):
        record[name] -= start
    record.flags.writeable = False
    return Columns(record, memoryview(bytes(columns.arena[start:stop])), [], 1)


def lines(
    buffer: Buffer,
    table: Table | Buffer,
    first_row: int,
    last_row: int,
    *,
    start_position: Position,
    options: LineOptions,
    fates: Fates = None,
    measure: bool = False,
    budgets: Budgets = DEFAULT_BUDGETS,
    enough: int = NO_BOUND,
    first_record: int = 0,
    most: int = 0,
) -> LinesResult:
    """Return the record lines of rows [first_row, last_row), up to the first row with a problem.

    Args:
        buffer, table, start_position, budgets: as for `decode`.
        options: the fields of the lines, and the range of offsets.
        fates: a `Fate` for each row of the table; without them transactions are shown without a state.
        measure: only count bytes and lines.
        enough: start no line once the text has this many bytes; continue with `rows_done` and
            `next_record` of the result.
        first_record: index in its batch of the first record to show of the first row.
        most: end before a row with more bytes, inflated bytes or record memory than this, and
            before a record with larger fields; 0 for no bound.
    """
    table = as_table(table)
    _check_rows(table, first_row, last_row)
    if most:
        budgets = replace(
            budgets,
            inflated_bytes=min(budgets.inflated_bytes, most),
            records_per_batch=min(budgets.records_per_batch, most // RECORD_ROW.size),
        )
    decoder = Decoder(buffer, table, start_position, budgets, copy=False)
    return LineWriter(decoder, options, enough, most).lines(
        first_row, last_row, fates, measure=measure, first_record=first_record
    )


def read_line(
    fd: int,
    position: Position,
    end: Position,
    offset: Offset,
    options: LineOptions,
    *,
    most: int,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> tuple[bytes, Timestamp] | None:
    """Return the line of the record with exactly this offset, and the record's timestamp.

    None where `read_record` returns None, for a control record or one of a transaction, for a record that a decoder
    may decode, and for a batch or record above `most`.

    Args:
        fd, position, end: as for `locate`.
        options: the fields of the line, and the range of offsets.
        most: most bytes of the batch, of its inflated records, and of the record's fields.
        budgets: limits of the batch.
    """
    if _decodes_all(options) or not options.from_offset <= offset < options.to_offset:
        return None
    bounded = replace(budgets, inflated_bytes=min(budgets.inflated_bytes, most))
    found = read_batch(fd, position, end, offset, largest=min(most, budgets.batch_bytes))
    if found is None:
        return None
    data, at, rows = found
    header, table = BATCH_ROW.unpack(rows), as_table(rows)
    if header.magic < 2 and header.attributes & COMPRESSION_MASK:
        return None
    flags = header.magic, header.attributes
    if is_control(*flags) or has_flag(*flags, TRANSACTIONAL_MASK):
        return None
    columns = decode(data, table, 0, 1, start_position=at, budgets=bounded)
    places = np.flatnonzero(columns.offset == offset)
    if not len(places):
        return None
    place, decoder = int(places[0]), options.decoder
    if decoder is not None and decoder.may_decode(
        columns.key(place), columns.value(place), columns.headers(place)
    ):
        return None
    made = column_lines(table, columns, options=options, first_record=place, enough=1, most=most)
    if not made.text or made.is_large:
        return None
    return made.text, int(columns.timestamp[place])


def _decodes_all(options: LineOptions) -> bool:
    return options.decoder is not None and options.decoder.marks is None


def read_lines(
    fd: int,
    start: Position,
    end: Position,
    rows: int,
    size: int,
    *,
    options: LineOptions,
    least_offset: Offset = -1,
    fates: npt.NDArray[np.uint8] | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    most: int = 0,
) -> memoryview | None:
    """Return the record lines of the bytes [start, end) of a file, when they are known to hold only good batches.

    Args:
        fd: the file.
        rows, size: the numbers of batches and of bytes of lines.
        options, fates, budgets, most: as for `lines`.
        least_offset: smallest offset that may follow.

    Returns:
        None for anything unusual: another number, a batch that is not good, not in order or above a bound, options with
        a decoder of all records.
    """
    if _decodes_all(options) or not 0 <= start <= end:
        return None
    try:
        data = os.pread(fd, end - start, start)
    except OSError:
        return None
    table = np.empty(rows, BATCH_ROW.dtype)
    filled, consumed, _ = walk(data, table, 0, start, True, largest=budgets.batch_bytes)
    if len(data) != end - start or (filled, consumed) != (rows, len(data)):
        return None
    if good_rows(table, 0, rows) < rows or (rows and table["base_offset"][0] < least_offset):
        return None
    asked: dict[str, Any] = {"fates": fates, "budgets": budgets, "most": most}
    found = lines(data, table, 0, rows, start_position=start, options=options, **asked)
    if found.problem is not None or found.rows_done < rows or found.size != size:
        return None
    return memoryview(found.text or b"")


# Search


def contains(
    buffer: Buffer,
    table: Table,
    first_row: int,
    last_row: int,
    needle: Buffer,
    *,
    start_position: Position,
    fold: bool = False,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> npt.NDArray[np.uint8]:
    """Return for each of the rows [first_row, last_row) whether it may hold the needle: 1 or 0.

    Searches the inflated bytes of the records, so a needle across two fields is found too. A batch
    that does not inflate whole counts as holding it. With `fold`, capital and small ASCII letters
    are the same.
    """
    _check_rows(table, first_row, last_row)
    decoder = Decoder(buffer, table, start_position, budgets, copy=False)
    sought = Needle(bytes(needle), fold)
    found = [decoder.may_hold(row, sought) for row in range(first_row, last_row)]
    return np.array(found, np.uint8)


# Messages


def read_message(
    message: Message,
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    most_elements: int = MAX_INT32,
) -> tuple[dict[str, Any], int]:
    """Return the fields of the message at a position, and the position after it.

    Args:
        most_elements: most elements of all arrays together.

    Raises:
        UnknownVersionError: the schema does not have the version.
        CorruptMessageError: the bytes do not parse.
    """
    return read_fields(message, version, CountedBytes.of(bytes(buffer), most_elements), position)
