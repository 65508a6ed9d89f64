"""Compressed frames that our codecs read, and the readers in Kafka refuse.

Kafka reads LZ4 by a class of its own, without blocks that depend on each other; gzip by java.util.zip, which checks the
header's checksum; zstd as a stream, with a window of at most 128 MiB, which for some frames is all of their content.
"""

from __future__ import annotations

import zlib

from engine.coding.compression import CompressionType
from engine.coding.fixed_width import read_uint32_le
from engine.coding.layout import Buffer

LARGEST_WINDOW = (1 << 27) + 1
"""Bytes of content of a zstd frame without a window of its own: libzstd's default for streams."""
HEADER_BYTES = 65_536 + 1024
"""Bytes that contain a frame's header, unless a gzip header has a longer name or comment."""
_LZ4_FLAGS, _LZ4_INDEPENDENT = 4, 0x20
_GZIP_HEAD, _GZIP_FLAGS = 10, 3
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_ZSTD_DESCRIPTOR, _ZSTD_MAGIC, _SINGLE_SEGMENT = 4, 0xFD2FB528, 0x20
_ZSTD_SIZE_BYTES = (1, 2, 4, 8)
_LONG_SIZE = 0x80
SUSPECT = {
    CompressionType.GZIP: (_GZIP_FLAGS, _HEADER_CHECKSUM, _HEADER_CHECKSUM),
    CompressionType.LZ4: (_LZ4_FLAGS, _LZ4_INDEPENDENT, 0),
    CompressionType.ZSTD: (
        _ZSTD_DESCRIPTOR,
        _SINGLE_SEGMENT | _LONG_SIZE,
        _SINGLE_SEGMENT | _LONG_SIZE,
    ),
}
"""Place of a byte, mask, and the value that it has in all frames that are refused, by codec."""


def refusal(codec: CompressionType, data: Buffer) -> str:
    """Return why Kafka's reader refuses a frame that our codecs read; "" if it does not.

    Looks at the first frame's header only, and gives no answer for a header that our codecs refuse, too.
    """
    view = memoryview(data)
    if codec is CompressionType.LZ4:
        is_linked = len(view) > _LZ4_FLAGS and not view[_LZ4_FLAGS] & _LZ4_INDEPENDENT
        return "its LZ4 blocks depend on each other" if is_linked else ""
    if codec is CompressionType.GZIP:
        return _gzip_refusal(view)
    return _zstd_refusal(view) if codec is CompressionType.ZSTD else ""


def _gzip_refusal(view: memoryview) -> str:
    if len(view) <= _GZIP_HEAD or not view[_GZIP_FLAGS] & _HEADER_CHECKSUM:
        return ""
    flags, end = view[_GZIP_FLAGS], _GZIP_HEAD
    if flags & _EXTRA:
        end += 2 + int.from_bytes(view[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end += bytes(view[end:]).find(0) + 1
    stated = int.from_bytes(view[end : end + 2], "little")
    return (
        "" if stated == zlib.crc32(view[:end]) & 0xFFFF else "its gzip header has a wrong checksum"
    )


def _zstd_refusal(view: memoryview) -> str:
    if len(view) <= _ZSTD_DESCRIPTOR or read_uint32_le(view, 0) != _ZSTD_MAGIC:
        return ""
    descriptor = view[_ZSTD_DESCRIPTOR]
    if not descriptor & _SINGLE_SEGMENT:
        return ""
    width, start = _ZSTD_SIZE_BYTES[descriptor >> 6], _ZSTD_DESCRIPTOR + 1
    start += (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(view[start : start + width], "little")
    if size <= LARGEST_WINDOW:
        return ""
    return f"its zstd frame needs a window of {size} bytes, and Kafka takes {LARGEST_WINDOW}"
