"""Text of batches and records as Kafka's DumpLogSegments prints it, in Python.

Reference for the compiled kernel's `dump_rows`. The text is that of Kafka 4.4.0. Keys, payloads and
header keys go through Java's UTF-8 decoder and encoder: bytes that are not UTF-8 become U+FFFD, one
for a longer run of bytes than in Python's decoder.
"""

from __future__ import annotations

import codecs
from enum import IntFlag
from typing import Any, TypeAlias

from engine.arrays import np, npt
from engine.coding.varint import to_int32, to_int64
from engine.columns.columns import Columns
from engine.record.attributes import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    codec_labels,
    is_control,
)
from engine.record.default_records import increment_sequence
from engine.record.record import Header

Table: TypeAlias = "npt.NDArray[Any]"

_CODECS = codec_labels("unknown({})")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class DumpShape(IntFlag):
    """Parts to write: the batches' lines, and the metadata and contents of a record's line."""

    BATCHES = 1
    METADATA = 2
    CONTENTS = 4


def java_text(data: bytes) -> bytes:
    """Return bytes as Java shows them, in UTF-8.

    >>> java_text(b"caf\\xe9").decode(), java_text(b"\\xed\\xa0\\x80").decode()
    ('caf\N{REPLACEMENT CHARACTER}', '\N{REPLACEMENT CHARACTER}')
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors=_HANDLER).encode()
    return data


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _REPLACEMENT, error.start + java_skip(error.object[error.start : error.start + 4])


_HANDLER = "engine.java_utf8"
codecs.register_error(_HANDLER, _replace)


def java_skip(data: bytes) -> int:
    """Return how many of these invalid bytes Java's decoder replaces with one U+FFFD.

    `data` is up to four bytes that are not UTF-8, fewer only at the end of the text.
    """
    first, left = data[0], len(data)
    if not 0xE0 <= first <= 0xF4:
        return 1
    if left >= 2 and not _may_follow(first, data[1]):
        return 1
    if left >= 3 and not _is_tail(data[2]):
        return 2
    return min(left, 3)


def _is_tail(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _may_follow(first: int, second: int) -> bool:
    low = {0xE0: 0xA0, 0xF0: 0x90}.get(first, 0x80)
    return low <= second <= (0x8F if first == 0xF4 else 0xBF)


def timestamp_label(row: np.void) -> str:
    """Return the label of a batch's timestamps."""
    if int(row["magic"]) == 0:
        return "NoTimestampType"
    is_append_time = int(row["attributes"]) & TIMESTAMP_TYPE_MASK
    return "LogAppendTime" if is_append_time else "CreateTime"


def codec_name(row: np.void) -> str:
    """Return the codec of a batch, such as "unknown(7)" for an unknown number."""
    return _CODECS[int(row["attributes"]) & COMPRESSION_MASK]


def last_sequence(row: np.void) -> int:
    """Return the producer's sequence number of the last record of a batch, -1 without one."""
    base, delta = int(row["base_sequence"]), int(row["last_offset"]) - int(row["base_offset"])
    return -1 if base == -1 else increment_sequence(base, to_int32(to_int64(delta)))


def batch_text(row: np.void) -> str:
    """Return the line of a batch, of any magic, without its end."""
    if int(row["magic"]) >= 2:
        text = _default_batch_text(row)
    else:
        text = f"offset: {row['last_offset']}"
    return (
        f"{text} position: {row['position']} {timestamp_label(row)}: {row['max_timestamp']}"
        f" size: {row['size']} magic: {row['magic']} compresscodec: {codec_name(row)}"
        f" crc: {row['crc']} isvalid: {_boolean(row['crc_ok'])}"
    )


def _default_batch_text(row: np.void) -> str:
    bits = int(row["attributes"])
    horizon = f"[{row['base_timestamp']}]" if bits & DELETE_HORIZON_MASK else ".empty"
    return (
        f"baseOffset: {row['base_offset']} lastOffset: {row['last_offset']}"
        f" count: {row['record_count']} baseSequence: {row['base_sequence']}"
        f" lastSequence: {last_sequence(row)} producerId: {row['producer_id']}"
        f" producerEpoch: {row['producer_epoch']} partitionLeaderEpoch: {row['leader_epoch']}"
        f" isTransactional: {_boolean(bits & TRANSACTIONAL_MASK)}"
        f" isControl: {_boolean(is_control(2, bits))} deleteHorizonMs: OptionalLong{horizon}"
    )


def _boolean(value: object) -> str:
    return "true" if value else "false"


def record_metadata(row: np.void, record: np.void, headers: tuple[Header, ...] = ()) -> bytes:
    """Return the metadata of a record on its line: offset, timestamp, sizes, and more in magic 2."""
    text = (
        f"| offset: {record['offset']} {timestamp_label(row)}: {record['timestamp']}"
        f" keySize: {record['key_size']} valueSize: {record['value_size']}"
    ).encode()
    if int(row["magic"]) < 2:
        return text
    keys = b",".join(java_text(header.key) for header in headers)
    return b"%s sequence: %d headerKeys: [%s]" % (text, record["sequence"], keys)


def record_contents(key: bytes | None, payload: bytes | None, *, is_alone: bool) -> bytes:
    """Return the contents of a record on its line; `is_alone` if no metadata precedes them."""
    text = b""
    if key is not None:
        text += b" key: " + key
    if payload is not None:
        text += b" payload: " + payload
    return b"|" + text if text and is_alone else text


def dump_rows(
    table: Table,
    first_row: int,
    last_row: int,
    columns: Columns | None,
    *,
    shape: int,
    from_offset: int = -(1 << 63),
    upto_offset: int = (1 << 63) - 1,
    first_record: int = 0,
) -> tuple[bytes, int]:
    """Return DumpLogSegments' text of rows [first_row, last_row), and the next record to show.

    Args:
        table: rows of BATCH_ROW, of magic 2; with `columns` None of any magic.
        columns: their records, in the rows' order, perhaps of other rows too; None for no records.
        shape: parts to write.
        from_offset, upto_offset: the records to show, both included.
        first_record: the first record in `columns` that may be of one of the rows.

    Raises:
        ValueError: the rows are not in the table.
    """
    if not 0 <= first_row <= last_row <= len(table):
        raise ValueError(f"rows {first_row} to {last_row} are not in the batch table")
    lines: list[bytes] = []
    at = max(first_record, 0)
    for index in range(first_row, last_row):
        row = table[index]
        if shape & DumpShape.BATCHES:
            lines.append(batch_text(row).encode() + b"\n")
        while columns is not None and at < len(columns) and columns.row[at] <= index:
            offset = int(columns.offset[at])
            if columns.row[at] == index and from_offset <= offset <= upto_offset:
                lines.append(_record_line(row, columns, at, shape))
            at += 1
    return b"".join(lines), at


def _record_line(row: np.void, columns: Columns, index: int, shape: int) -> bytes:
    text = b""
    if shape & DumpShape.METADATA:
        text = record_metadata(row, columns.table[index], columns.headers(index))
    if shape & DumpShape.CONTENTS:
        key, value = columns.key(index), columns.value(index)
        text += record_contents(
            None if key is None else java_text(key),
            None if value is None else java_text(value),
            is_alone=not text,
        )
    return text + b"\n"
