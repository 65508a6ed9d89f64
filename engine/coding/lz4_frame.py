"""Read and write LZ4 frames block by block, with the raw block codec.

A frame is a magic, a descriptor (flags, block size, sometimes the content's size, a checksum byte)
and blocks: a little-endian length (top bit set for a stored block), the block, sometimes its hash;
length 0 ends the frame. The first writers of Kafka (magic 0) hashed the frame's magic into the
descriptor's checksum, so readers of magic 0 ignore it. As in Kafka, bytes after the end mark are
not read, nor is a hash of the content: the batch's checksum covers all.

Kafka refuses frames with blocks that depend on each other. Some writers make them; this module
reads them in plain Python.
"""

from __future__ import annotations

from engine.coding import codec_libraries as libraries
from engine.coding.checksums import xxh32
from engine.coding.fixed_width import encode_uint32_le, read_uint32_le
from engine.coding.layout import Buffer

MAGIC = bytes([0x04, 0x22, 0x4D, 0x18])
STORED = 0x80000000
DEFAULT_LEVEL = 9
MAX_BLOCKS = 1_000_000
"""Most blocks in a batch: blocks may be empty, so the output's limit does not bound them."""

_VERSION_MASK, _VERSION = 0xC0, 0x40
_INDEPENDENT, _BLOCK_HASH, _CONTENT_SIZE, _CONTENT_HASH = 0x20, 0x10, 0x08, 0x04
_RESERVED = 0x03
_BLOCK_64K = 4
_FRAME_HEAD = 7
_SLOW, _SLOWEST = 3, 12
"""Lowest and highest level of LZ4's slow method; other levels are clamped to these."""
ENDS_EARLY = "lz4: stream ended prematurely"


class Lz4FrameError(Exception):
    """Error for data that is no LZ4 frame."""


def decompress(data: Buffer, out: bytearray, limit: int, *, check_header: bool) -> None:
    """Append the decompressed data to `out`, which is empty or has only bytes of this frame.

    Raises:
        Lz4FrameError: the data is damaged; `out` has the output before the damage.
        OverflowError: `out` would pass `limit` bytes.
        ImportError: cramjam is not installed.
    """
    view = memoryview(data)
    flags, block_size, position = _read_header(view, check_header=check_header)
    scratch = bytearray(min(block_size, limit + 1))
    for _ in range(MAX_BLOCKS):
        if len(view) - position < 4:
            raise Lz4FrameError(ENDS_EARLY)
        word = read_uint32_le(view, position)
        position += 4
        size = word & ~STORED
        if size == 0:
            if flags & _CONTENT_HASH and len(view) - position < 4:
                raise Lz4FrameError(ENDS_EARLY)
            return
        if size > block_size:
            raise Lz4FrameError(f"lz4: block size {size} exceeded max: {block_size}")
        if len(view) - position < size + (4 if flags & _BLOCK_HASH else 0):
            raise Lz4FrameError(ENDS_EARLY)
        block = view[position : position + size]
        position += size
        if flags & _BLOCK_HASH:
            if xxh32(block) != read_uint32_le(view, position):
                raise Lz4FrameError("lz4: block checksum mismatch")
            position += 4
        _append(block, out, limit, scratch, stored=bool(word & STORED), flags=flags)
    raise Lz4FrameError(f"lz4: more than {MAX_BLOCKS} blocks")


def compress(
    data: Buffer,
    *,
    broken_header_checksum: bool = False,
    block_hash: bool = False,
    block_size_code: int = _BLOCK_64K,
    level: int | None = None,
) -> bytes:
    """Return a frame as Kafka's writer makes it: independent blocks of 64 KiB, no content size.

    The default level is LZ4's fast method; all others use its slow method, which compresses better.
    """
    flags = _VERSION | _INDEPENDENT | (_BLOCK_HASH if block_hash else 0)
    head = MAGIC + bytes([flags, block_size_code << 4])
    hashed = head if broken_header_checksum else head[len(MAGIC) :]
    parts = [head, bytes([xxh32(hashed) >> 8 & 0xFF])]
    view = memoryview(data)
    block_size = 1 << (2 * block_size_code + 8)
    for start in range(0, len(view), block_size):
        plain = view[start : start + block_size]
        block, word = _compress_block(plain, level)
        parts += [encode_uint32_le(word), block]
        if block_hash:
            parts.append(encode_uint32_le(xxh32(block)))
    parts.append(bytes(4))
    return b"".join(parts)


def _compress_block(plain: memoryview, level: int | None) -> tuple[bytes, int]:
    if level is None or level == DEFAULT_LEVEL:
        block = bytes(libraries.cramjam.lz4.compress_block(plain, store_size=False))
    else:
        block = _compress_slowly(plain, level)
    if len(block) >= len(plain):
        return bytes(plain), len(plain) | STORED
    return block, len(block)


def _compress_slowly(plain: memoryview, level: int) -> bytes:
    """Return a compressed block of at most 64 KiB, cut out of a frame: the library has levels only for frames."""
    library = libraries.cramjam.lz4.Compressor(
        level=min(max(level, _SLOW), _SLOWEST),
        content_checksum=False,
        block_linked=False,
    )
    library.compress(bytes(plain))
    frame = bytes(library.finish())
    word = read_uint32_le(frame, _FRAME_HEAD)
    start = _FRAME_HEAD + 4
    return bytes(plain) if word & STORED else frame[start : start + word]


def _read_header(view: memoryview, *, check_header: bool) -> tuple[int, int, int]:
    """Return the flags, the size of the largest block and the position after the header."""
    if len(view) < 6:
        raise Lz4FrameError(ENDS_EARLY)
    if view[:4] != MAGIC:
        raise Lz4FrameError("lz4: stream unsupported (invalid magic bytes)")
    flags, sizes = view[4], view[5]
    if flags & _RESERVED or flags & _VERSION_MASK != _VERSION:
        raise Lz4FrameError(f"lz4: unsupported frame flags 0x{flags:02x}")
    if sizes & 0x8F or sizes >> 4 < _BLOCK_64K:
        raise Lz4FrameError(f"lz4: unsupported block size byte 0x{sizes:02x}")
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(view) <= end:
        raise Lz4FrameError(ENDS_EARLY)
    if check_header and view[end] != xxh32(view[4:end]) >> 8 & 0xFF:
        raise Lz4FrameError("lz4: stream frame descriptor corrupted")
    return flags, 1 << (2 * (sizes >> 4) + 8), end + 1


def _append(
    block: memoryview, out: bytearray, limit: int, scratch: bytearray, *, stored: bool, flags: int
) -> None:
    if stored:
        if len(block) > limit - len(out):
            raise OverflowError(len(block))
        out += block
    elif flags & _INDEPENDENT:
        try:
            size = libraries.cramjam.lz4.decompress_block_into(block, scratch, len(scratch))
        except libraries.cramjam.DecompressionError as error:
            if len(scratch) > limit:  # the block may be sound and only larger than the limit
                raise OverflowError(len(scratch)) from None
            raise Lz4FrameError(f"lz4: {error}") from None
        if size > limit - len(out):
            raise OverflowError(size)
        if block[:4] == encode_uint32_le(size):
            _refuse_size_in_front(block, scratch, size)
        out += memoryview(scratch)[:size]
    else:
        _append_linked(block, out, min(limit, len(out) + len(scratch)))


def _refuse_size_in_front(block: memoryview, made: bytearray, size: int) -> None:
    """Raise Lz4FrameError for a block with its content's size in front, which cramjam takes, too."""
    again = bytearray()
    try:
        _append_linked(block, again, size)
    except OverflowError:
        again.clear()
    if again != memoryview(made)[:size]:
        raise Lz4FrameError("lz4: a block with its content's size in front")


def _append_linked(block: memoryview, out: bytearray, most: int) -> None:
    """Decode a block with matches that may reach into earlier blocks."""
    position, size = 0, len(block)
    try:
        while position < size:
            token = block[position]
            literals, position = _length(block, position + 1, token >> 4)
            if literals > size - position:
                raise Lz4FrameError("lz4: literals past the end of a block")
            if len(out) + literals > most:
                raise OverflowError(literals)
            out += block[position : position + literals]
            position += literals
            if position == size:
                return
            distance = block[position] | block[position + 1] << 8
            match, position = _length(block, position + 2, token & 15)
            _copy_match(out, distance, match + 4, most)
    except IndexError:
        raise Lz4FrameError(ENDS_EARLY) from None


def _length(block: memoryview, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            byte = block[position]
            position += 1
            length += byte
            if byte != 255:
                break
    return length, position


def _copy_match(out: bytearray, distance: int, size: int, most: int) -> None:
    if not 0 < distance <= len(out):
        raise Lz4FrameError(f"lz4: a match {distance} bytes back")
    if len(out) + size > most:
        raise OverflowError(size)
    period = out[-distance:]
    if size <= distance:
        out += period[:size]
    else:
        out += (period * (size // distance + 1))[:size]
