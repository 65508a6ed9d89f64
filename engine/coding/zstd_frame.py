"""Read and write zstd frames, as RFC 8878 describes them, with a library that inflates whole frames only.

A frame is a magic, a header (how large its content is, its window, a dictionary) and blocks of at most 128 KiB
of content; the last block is marked. The blocks' headers bound what a frame inflates to before it is inflated.
Frames follow each other, with skippable frames between them.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

from engine.coding import codec_libraries as libraries
from engine.coding.fixed_width import read_uint32_le
from engine.coding.layout import Buffer

MAX_FRAMES = 1024
"""Most frames in a batch: writers make one, and an empty one costs a call."""
MAX_BLOCKS = 1_000_000
"""Most blocks in a frame: blocks may be empty, so the output's limit does not bound them."""
DEFAULT_LEVEL = 3

_MAGIC, _SKIPPABLE, _SKIPPABLE_MASK = 0xFD2FB528, 0x184D2A50, 0xFFFFFFF0
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_DICTIONARY_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)
_REPEATED, _COMPRESSED, _RESERVED = 1, 2, 3
_LARGEST_BLOCK = 128 * 1024
_OUTPUT_IS_FULL = "failed to write whole buffer"
_BLOCKS_ARE_MISSING = "incomplete frame"
_CUT = "ends inside a frame"


class ZstdFrameError(Exception):
    """Error for data that is no zstd frame."""


class _Extent(NamedTuple):
    """A frame, as far as the headers of its blocks tell.

    Attributes:
        end: position after it; None when it is unknown, because more may come out than there is room for.
        blocks: ends of its blocks, from the first on, that surely fit.
        error: why the frame has no end; None for a whole frame.
    """

    end: int | None
    blocks: list[int]
    error: str | None = None


def decompress(data: Buffer, out: bytearray, limit: int) -> None:
    """Append the decompressed data to `out`.

    Raises:
        ZstdFrameError: the data is damaged; `out` has the output before the damage.
        OverflowError: `out` would pass `limit` bytes.
        ImportError: cramjam is not installed.
    """
    view = memoryview(data)
    position = 0
    for _ in range(MAX_FRAMES):
        if position == len(view):
            return
        if _is_skippable(view, position):
            position = _after_skippable(view, position)
            continue
        end, blocks, error = _extent(view, position, limit - len(out))
        if error is None and end is None:
            made, error = _inflated_into(view[position:], limit - len(out))
            end = len(view)
        elif error is None:
            made, error = _inflated(view[position:end])
        if error is not None or end is None:
            out += _inflated_blocks(view, position, blocks)
            raise ZstdFrameError(f"zstd: {error}")
        out += made
        position = end
    if position < len(view):
        raise ZstdFrameError(f"zstd: more than {MAX_FRAMES} frames")


def compress(data: Buffer, level: int | None = None) -> bytes:
    """Return the data in one frame.

    Kafka's writer streams, so its frames do not state the size of their content.

    Raises:
        ImportError: cramjam is not installed.
    """
    writer = libraries.cramjam.zstd.Compressor(DEFAULT_LEVEL if level is None else level)
    writer.compress(bytes(data))
    return bytes(writer.finish())


def _inflated_into(frames: memoryview, room: int) -> tuple[memoryview, str | None]:
    """Inflate frames that may not fit in the room for output; return the content or an error."""
    library = libraries.cramjam
    made = memoryview(bytearray(room))
    try:
        return made[: library.zstd.decompress_into(frames, made)], None
    except library.DecompressionError as error:
        if str(error) == _OUTPUT_IS_FULL:
            raise OverflowError(room) from None
        return made[:0], str(error)


def _inflated(frame: memoryview) -> tuple[memoryview, str | None]:
    """Inflate a frame, or its first blocks; return the content, and an error."""
    library = libraries.cramjam
    made = library.Buffer()
    try:
        library.zstd.decompress_into(frame, made)
        return memoryview(made), None
    except library.DecompressionError as error:
        return memoryview(made), str(error)


def _inflated_blocks(view: memoryview, start: int, blocks: list[int]) -> memoryview:
    """Inflate the blocks of a frame before the first damaged one; the library itself loses some of them."""
    good = bisect(
        blocks, False, key=lambda end: _inflated(view[start:end])[1] != _BLOCKS_ARE_MISSING
    )
    return _inflated(view[start : blocks[good - 1]])[0] if good else view[:0]


def _is_skippable(view: memoryview, start: int) -> bool:
    has_magic = len(view) - start >= 4
    return has_magic and read_uint32_le(view, start) & _SKIPPABLE_MASK == _SKIPPABLE


def _after_skippable(view: memoryview, start: int) -> int:
    end = start + 8 + read_uint32_le(view, start + 4) if len(view) - start >= 8 else len(view) + 1
    if end > len(view):
        raise ZstdFrameError(f"zstd: {_CUT}")
    return end


def _extent(view: memoryview, start: int, room: int) -> _Extent:
    """Measure the frame at a position by the headers of its blocks."""
    blocks: list[int] = []
    if len(view) - start < 5:
        return _Extent(None, blocks, _CUT)
    if read_uint32_le(view, start) != _MAGIC:
        return _Extent(None, blocks, "no frame starts here")
    descriptor = view[start + 4]
    is_single = bool(descriptor & _SINGLE_SEGMENT)
    position = start + 5 + (not is_single) + _DICTIONARY_BYTES[descriptor & 3]
    position += _SIZE_BYTES[descriptor >> 6] or is_single
    while len(blocks) < MAX_BLOCKS:
        if len(view) - position < 3:
            return _Extent(None, blocks, _CUT)
        header = int.from_bytes(view[position : position + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED:
            return _Extent(None, blocks, "a block of an unknown kind")
        position += 3 + (1 if kind == _REPEATED else size)
        if position > len(view):
            return _Extent(None, blocks, _CUT)
        room -= _LARGEST_BLOCK if kind == _COMPRESSED else size
        if room < 0:
            return _Extent(None, blocks)
        blocks.append(position)
        if header & 1:
            end = position + (4 if descriptor & _CHECKSUM else 0)
            return _Extent(end, blocks) if end <= len(view) else _Extent(None, blocks, _CUT)
    return _Extent(None, blocks, f"more than {MAX_BLOCKS} blocks")
