"""The compiled kernel; engine.kernel.python documents its functions."""

from engine.kernel.python import (
    batch_facts as batch_facts,
    column_lines as column_lines,
    contains as contains,
    count_headers as count_headers,
    decode as decode,
    encode_records as encode_records,
    find_batch as find_batch,
    floor_slot as floor_slot,
    gather as gather,
    gather_headers as gather_headers,
    good_rows as good_rows,
    how_shown as how_shown,
    keep_records as keep_records,
    lines as lines,
    locate as locate,
    matching as matching,
    move_slots as move_slots,
    offsets_of as offsets_of,
    put_keys as put_keys,
    read_batch as read_batch,
    read_line as read_line,
    read_lines as read_lines,
    read_message as read_message,
    read_record as read_record,
    record_facts as record_facts,
    summarize as summarize,
    text_piece as text_piece,
    walk as walk,
    write_message as write_message,
)

def checksum(name: str, data: bytes) -> int:
    """Return a checksum of the kernel: "crc32c", "crc32c by table", "crc32" or "xxh32"."""

def codec_library(codec: int) -> str | None:
    """Return the name and the version of the C library that inflates a codec; None when it was not found."""

def use_libraries(use: bool) -> None:
    """Set whether to call the codecs' C libraries; without them each payload is inflated in Python."""
