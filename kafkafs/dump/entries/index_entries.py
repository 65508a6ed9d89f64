"""Entries of a segment's indexes, each checked against the log.

The checks are those of DumpLogSegments, but run in time linear in the size of the index: batch headers near an
entry are read once and kept for the following entries.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from engine.coding.fixed_width import read_int32
from engine.errors import DamagedFileError
from engine.files.file_names import FileKind
from engine.files.read_failures import reason_of
from engine.files.source_files import SourceFile
from engine.files.zeros import first_data
from engine.index import offset_index, time_index, transaction_index
from engine.index.offset_index import OffsetIndex
from engine.record.batch_frame import (
    HEAD,
    HEADER,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.units import MAX_INT32, NO_TIMESTAMP, Offset, Position
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.entries.batch_cursor import BatchCursor
from kafkafs.dump.findings import Contradiction, Fault, Found, Mismatch, Note, ShownEntry

_CHUNK_ENTRIES = 8192
_UP_TO_DELTA = HEADER.end_of("last_offset_delta")


class _Row(NamedTuple):
    slot: int
    position: Position
    fields: tuple[int, ...]


class _Zeros(NamedTuple):
    """Skipped entries of zeros: slots [first, after)."""

    first: int
    after: int


def _rows(opened: SourceFile, layout: struct.Struct) -> Iterator[_Row]:
    """Yield the whole entries of a file up to a run of many thousand zero entries."""
    for row in _rows_and_zeros(opened, layout):
        if isinstance(row, _Zeros):
            return
        yield row


def _rows_and_zeros(opened: SourceFile, layout: struct.Struct) -> Iterator[_Row | _Zeros]:
    """Yield all whole entries of a file, also zeros; sum up a run of many thousand zero entries."""
    width, slot, after = layout.size, 0, opened.size() // layout.size
    while slot < after:
        data = opened.read_at(slot * width, _CHUNK_ENTRIES * width)
        count = len(data) // width
        if slot and count == _CHUNK_ENTRIES and not any(data):
            end = min(_first_data(opened, slot * width) // width, after)
            yield _Zeros(slot, end)
            slot = end
            continue
        for fields in layout.iter_unpack(memoryview(data)[: count * width]):
            yield _Row(slot, slot * width, fields)
            slot += 1
        if count < _CHUNK_ENTRIES:
            return


def _first_data(opened: SourceFile, position: Position) -> Position:
    """Return the position of the first byte other than zero; the file's end if there is none."""
    return first_data(opened.fd, opened.read_at, position, opened.size())


def _is_padding(opened: SourceFile) -> bool:
    """Return whether the file is all zeros: a broker preallocated it and has not appended an entry."""
    return _first_data(opened, 0) >= opened.size()


def _padding(file: DumpFile, opened: SourceFile, start: Position) -> Iterator[Fault]:
    """Yield a fault for bytes after the last entry of an offset or time index, unless a broker may leave them."""
    size = opened.size()
    data = _first_data(opened, start)
    if data < size:
        yield Fault(
            "index_padding",
            f"{size - start} bytes after the last entry of {file.shown} are skipped:"
            f" there is data at byte {data}",
            start,
        )
    elif size > MAX_INT32:
        yield Fault(
            "index_padding",
            f"{size - start} bytes of zeros after the last entry of {file.shown} are skipped:"
            f" the file has {size} bytes, an index at most {MAX_INT32}",
            start,
        )


def _not_compared(file: DumpFile, kind: FileKind, error: OSError) -> Fault:
    """Return the fault of a sibling file that cannot be read; the dump of the sibling reports it in full."""
    other = os.path.basename(file.sibling_path(kind))
    reason = reason_of(error)
    return Fault("unreadable", f"{file.shown}: its entries are not compared with {other}: {reason}")


def _log_of(file: DumpFile) -> SourceFile | Fault:
    """Open the records file of an index; return a fault if that is impossible."""
    try:
        opened = file.sibling(FileKind.LOG)
    except OSError as error:
        return _not_compared(file, FileKind.LOG, error)
    if opened is None:
        path = file.sibling_path(FileKind.LOG)
        return Fault("no_log", f"{path} does not exist: entries are not compared with it")
    return opened


def _base_of(file: DumpFile) -> tuple[Offset, Fault | None]:
    base = file.base_offset
    if base is None:
        return 0, Fault("name", f'For input string: "{file.stem}"')
    return base, None


# Offset index


def offset_entries(file: DumpFile, opened: SourceFile, options: DumpOptions) -> Iterator[Found]:
    """Yield the content of an offset index. A batch above `options.max_message_size` counts as missing."""
    base, fault = _base_of(file)
    if fault is not None:
        yield fault
    size = opened.size()
    if size < offset_index.ENTRY.size:
        yield Note(f"{printable(file.shown)} is empty.")
        if size:
            yield _length_fault(file, "Index file {} is corrupt", size, offset_index.ENTRY.size)
        return
    if options.index_sanity_check:
        yield from _sane_offsets(file, opened, base)
        return
    if size % offset_index.ENTRY.size:
        yield _length_fault(file, "Index file {} is corrupt", size, offset_index.ENTRY.size)
    log = _log_of(file)
    if isinstance(log, Fault):
        yield log
    end = 0 if isinstance(log, Fault) else log.size()
    is_compared = not (isinstance(log, Fault) or _is_padding(opened))
    for row in _rows(opened, offset_index.ENTRY.plain):
        offset, position = base + row.fields[0], row.fields[1]
        if offset == base and row.slot:
            # Leftovers of a crash or of preallocation follow the last entry.
            yield from _padding(file, opened, row.position)
            return
        if not _is_wanted(file, offset):
            continue
        if is_compared:
            assert not isinstance(log, Fault)
            found = _last_offset_at(log, position, end, options.max_message_size)
            if isinstance(found, str):
                yield Fault("index_position", found, row.position, offset, position)
            elif found != offset:
                yield Contradiction(Mismatch.OFFSET_INDEX, row.position, offset, found)
        if options.verify_index_only:
            continue
        fields = {"slot": row.slot, "offset": offset, "logPosition": position}
        yield ShownEntry(f"offset: {offset} position: {position}", fields)


def _is_wanted(file: DumpFile, offset: Offset) -> bool:
    return (file.first is None or file.first <= offset) and (
        file.last is None or offset <= file.last
    )


def _last_offset_at(log: SourceFile, position: Position, end: int, most: int) -> Offset | str:
    """Return the last offset of the batch at a position, or why there is no batch."""
    if position < 0:
        return f"Invalid position: {position} in read from {log.path}"
    if position > end:
        return f"Slice from position {position} exceeds end position {end} of {log.path}"
    limit = min(end, position + most)
    head = log.read_at(position, min(_UP_TO_DELTA, limit - position))
    if len(head) <= UP_TO_MAGIC:
        return f"no batch at position {position} of {log.path}"
    offset, length, _, magic = HEAD.unpack_from(head)
    if length < SMALLEST_LENGTH:
        return (
            f"Found record size {length} smaller than minimum record overhead ({SMALLEST_LENGTH})"
            f" in file {log.path} at position {position}"
        )
    if position + LOG_OVERHEAD + length > limit or (magic >= 2 and len(head) < _UP_TO_DELTA):
        return f"no whole batch at position {position} of {log.path}"
    if magic < 2:
        return int(offset)
    return int(offset + read_int32(head, LAST_OFFSET_DELTA_POSITION))


def _sane_offsets(file: DumpFile, opened: SourceFile, base: Offset) -> Iterator[Found]:
    size, width = opened.size(), offset_index.ENTRY.size
    relative, _ = offset_index.ENTRY.plain.unpack(
        opened.read_at(size // width * width - width, width)
    )
    if relative < 0:
        yield Fault(
            "index_order",
            f"Corrupt index found, index file {file.absolute} has non-zero size but the last"
            f" offset is {base + relative} which is less than the base offset {base}",
        )
    elif size % width:
        yield _length_fault(file, "Index file {} is corrupt", size, width)
    else:
        yield Note(f"{printable(file.shown)} passed sanity check.")


def _length_fault(file: DumpFile, what: str, size: int, width: int) -> Fault:
    return Fault(
        "index_length",
        f"{what.format(file.absolute)}, found {size} bytes which is neither positive nor a multiple"
        f" of {width}",
        size // width * width,
    )


# Time index


def time_entries(file: DumpFile, opened: SourceFile, options: DumpOptions) -> Iterator[Found]:
    """Yield the content of a time index; the offset index helps to find the batch of an entry."""
    base, fault = _base_of(file)
    if fault is not None:
        yield fault
    size, width = opened.size(), time_index.ENTRY.size
    if options.index_sanity_check:
        yield from _sane_times(file, opened, base)
        return
    if size % width:
        yield _length_fault(file, "Time index file {} is corrupt", size, width)
    log = _log_of(file)
    index = None
    if isinstance(log, Fault):
        if size >= width:
            yield log
    else:
        index = _index_of(file, base)
        if isinstance(index, Fault):
            yield index
    cursor = None
    if not (isinstance(log, Fault) or _is_padding(opened)):
        cursor = BatchCursor(log, options.budgets)
    previous = NO_TIMESTAMP
    for row in _rows(opened, time_index.ENTRY.plain):
        timestamp, offset = row.fields[0], base + row.fields[1]
        if offset == base and row.slot:
            yield from _padding(file, opened, row.position)
            return
        if not _is_wanted(file, offset):
            continue
        if cursor is not None:
            found = index.lookup(offset) if isinstance(index, OffsetIndex) else None
            hint = 0 if found is None else found.position
            yield from _compared(row, timestamp, offset, previous, cursor, hint)
        previous = timestamp
        if options.verify_index_only:
            continue
        fields = {"slot": row.slot, "timestamp": timestamp, "offset": offset}
        yield ShownEntry(f"timestamp: {timestamp} offset: {offset}", fields)


def _index_of(file: DumpFile, base: Offset) -> OffsetIndex | Fault:
    """Open the offset index of a time index's segment; without it, batches are searched from the log's start."""
    path = file.sibling_path(FileKind.OFFSET_INDEX)
    try:
        opened = file.sibling(FileKind.OFFSET_INDEX)
    except OSError as error:
        return _not_compared(file, FileKind.OFFSET_INDEX, error)
    if opened is None:
        return Fault("no_index", f"{path} does not exist: batches are searched in the log alone")
    return OffsetIndex(opened, base, path=path)


def _compared(
    row: _Row,
    timestamp: int,
    offset: Offset,
    previous: int,
    cursor: BatchCursor,
    hint: Position,
) -> Iterator[Found]:
    if hint < 0 or hint > cursor.end:
        reason = f"Slice from position {hint} exceeds end position {cursor.end} of {cursor.path}"
        yield Fault("index_position", reason, row.position)
        return
    last = cursor.find(offset, hint)
    if last != offset:
        yield Contradiction(Mismatch.OFFSET_NOT_FOUND, row.position, offset, last)
        return
    try:
        largest = cursor.largest_timestamp()
    except DamagedFileError as error:
        yield Fault("bad_batch", str(error), row.position)
        return
    if largest != timestamp:
        yield Contradiction(Mismatch.TIMESTAMP, row.position, timestamp, largest)
    if previous >= timestamp:
        yield Contradiction(Mismatch.TIMESTAMP_ORDER, row.position, timestamp, previous)


def _sane_times(file: DumpFile, opened: SourceFile, base: Offset) -> Iterator[Found]:
    size, width = opened.size(), time_index.ENTRY.size
    start = f"Corrupt time index found, time index file ({file.absolute}) has non-zero size but"
    if size >= width:
        first, _ = time_index.ENTRY.plain.unpack(opened.read_at(0, width))
        last, relative = time_index.ENTRY.plain.unpack(
            opened.read_at(size // width * width - width, width)
        )
        if last < first:
            reason = (
                f"{start} the last timestamp is {last} which is less than the first timestamp"
                f" {first}"
            )
            yield Fault("index_order", reason)
            return
        if relative < 0:
            reason = (
                f"{start} the last offset is {base + relative} which is less than the first offset"
                f" {base}"
            )
            yield Fault("index_order", reason)
            return
    if size % width:
        yield _length_fault(file, "Time index file {} is corrupt", size, width)
    else:
        yield Note(f"{printable(file.shown)} passed sanity check.")


# Transaction index


def aborted_entries(file: DumpFile, opened: SourceFile) -> Iterator[Found]:
    """Yield the content of an index of aborted transactions."""
    base, fault = _base_of(file)
    if fault is not None:
        yield fault
    for row in _rows_and_zeros(opened, transaction_index.ENTRY.plain):
        if isinstance(row, _Zeros):
            yield Fault(
                "zeros",
                f"{row.after - row.first} entries of zeros in transaction index {file.absolute} are"
                f" skipped",
                row.first * transaction_index.ENTRY.plain.size,
            )
            continue
        version, producer_id, first, last, stable = row.fields
        if (file.first is not None and last < file.first) or (
            file.last is not None and first > file.last
        ):
            continue
        if version != transaction_index.CURRENT_VERSION:
            yield Fault(
                "unknown_version",
                f"Unexpected aborted transaction version {version} in transaction index"
                f" {file.absolute}, supported version range is 0 to"
                f" {transaction_index.CURRENT_VERSION}",
                row.position,
            )
        elif last < base:
            shown = (
                f"AbortedTxn(producerId={producer_id}, firstOffset={first}, lastOffset={last},"
                f" lastStableOffset={stable})"
            )
            yield Fault(
                "index_order",
                f"Last offset of aborted transaction {shown} in index {file.absolute} is less than"
                f" start offset {base}",
                row.position,
            )
        fields = {
            "slot": row.slot,
            "version": version,
            "producerId": producer_id,
            "firstOffset": first,
            "lastOffset": last,
            "lastStableOffset": stable,
        }
        text = " ".join(f"{name}: {value}" for name, value in list(fields.items())[1:])
        yield ShownEntry(text, fields)
    size, width = opened.size(), transaction_index.ENTRY.plain.size
    if size % width:
        yield _length_fault(file, "Transaction index file {} is corrupt", size, width)
