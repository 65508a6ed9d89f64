"""Read and write snappy data of batches: xerial's frames (the JVM) or one bare block (librdkafka and others).

A xerial stream is 16 bytes (magic, version, lowest version that can read it) and then chunks: an
int32 length and a raw snappy block, big-endian. The magic in place of a length starts another
stream. Data that does not start with the magic is one raw block.
"""

from __future__ import annotations

from engine.coding import codec_libraries as libraries
from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.coding.varint import read_unsigned_varint

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + bytes([0, 0, 0, 1, 0, 0, 0, 1])
BLOCK_SIZE = 32 * 1024
MAX_CHUNKS = 1_000_000
"""Most chunks in a batch: chunks may be empty, so the output's limit does not bound them."""


class SnappyFrameError(Exception):
    """Error for data that no snappy writer makes."""


def decompress(data: Buffer, out: bytearray, limit: int) -> None:
    """Append the decompressed data to `out`.

    Raises:
        SnappyFrameError: the data is damaged; `out` has the output before the damage.
        OverflowError: `out` would pass `limit` bytes.
        ImportError: cramjam is not installed.
    """
    view = memoryview(data)
    if not len(view):
        raise SnappyFrameError("snappy: no data")
    # Java's reader wants a whole header before it accepts the magic.
    if len(view) < len(HEADER) or view[: len(MAGIC)] != MAGIC:
        _append_block(view, out, limit)
        return
    position = _after_header(view, 0)
    for _ in range(MAX_CHUNKS):
        if len(view) - position < 4:
            return
        if view[position : position + 4] == MAGIC[:4]:
            position = _after_header(view, position)
            continue
        size = read_int32(view, position)
        position += 4
        if size < 0:
            raise SnappyFrameError(f"snappy: a chunk of {size} bytes")
        if size > len(view) - position:
            raise SnappyFrameError(
                f"snappy: a chunk of {size} bytes ends after {len(view) - position}"
            )
        _append_block(view[position : position + size], out, limit)
        position += size
    raise SnappyFrameError(f"snappy: more than {MAX_CHUNKS} chunks")


def compress(data: Buffer) -> bytes:
    """Return the data in xerial's frames, as Kafka's writer makes them."""
    parts = [HEADER]
    view = memoryview(data)
    for start in range(0, len(view), BLOCK_SIZE):
        block = bytes(libraries.cramjam.snappy.compress_raw(view[start : start + BLOCK_SIZE]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


def _after_header(view: memoryview, position: int) -> int:
    end = position + len(HEADER)
    if end > len(view):
        raise SnappyFrameError("snappy: ends inside a stream header")
    if view[position : position + len(MAGIC)] != MAGIC:
        raise SnappyFrameError("snappy: a stream header without its magic")
    version = read_int32(view, position + len(MAGIC))
    if version < 1:
        raise SnappyFrameError(f"snappy: stream version {version}")
    return end


def _append_block(block: memoryview, out: bytearray, limit: int) -> None:
    try:
        stated, _ = read_unsigned_varint(block, 0)
    except (IndexError, ValueError):
        raise SnappyFrameError("snappy: a block without its size") from None
    stated &= 0xFFFFFFFF
    if stated > limit - len(out):
        raise OverflowError(stated)
    # A byte of input makes at most 64 / 3 bytes of output (a copy of 64 bytes takes 3).
    if stated > 32 * len(block):
        raise SnappyFrameError(
            f"snappy: a block of {len(block)} bytes states {stated} bytes of content"
        )
    try:
        out += bytes(libraries.cramjam.snappy.decompress_raw(block))
    except libraries.cramjam.DecompressionError as error:
        raise SnappyFrameError(f"snappy: {error}") from None
