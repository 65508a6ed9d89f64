"""Where the chunks of a segment lie in the object that Aiven's plugin makes of it.

Source: `FixedSizeChunkIndex`, `VariableSizeChunkIndex` and `ChunkSizesBinaryCodec` of the plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from engine.coding import zstd_frame
from engine.units import Position

_OVERHEAD = 64 * 1024
"""Bytes that encoding may add to a chunk."""


class SizesError(ValueError):
    """Sizes of chunks that cannot be; `expected` and `found` say why."""

    def __init__(self, expected: object, found: object) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found


class StoredChunk(NamedTuple):
    """A chunk: bytes [start, start + size) of the segment, [position, position + length) of the object."""

    number: int
    start: Position
    size: int
    position: Position
    length: int


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of a segment.

    Attributes:
        chunk_size: bytes of the segment in each chunk but the last.
        file_size: bytes of the segment.
        ends: ends of the chunks in the object.
    """

    chunk_size: int
    file_size: int
    ends: Sequence[Position]

    @property
    def object_size(self) -> int:
        """Bytes of the object."""
        return self.ends[-1] if self.ends else 0

    def chunk(self, number: int) -> StoredChunk:
        """Return a chunk by its number. Raises IndexError."""
        start = number * self.chunk_size
        position = self.ends[number - 1] if number else 0
        size = min(self.chunk_size, self.file_size - start)
        return StoredChunk(number, start, size, position, self.ends[number] - position)


def _count(chunk_size: int, file_size: int) -> int:
    return -(-file_size // chunk_size)


def fixed_chunks(chunk_size: int, file_size: int, stored: int, last: int) -> ChunkIndex:
    """Return the index of chunks that take `stored` bytes each, the last one `last`. Raises SizesError."""
    _check_sizes((stored, last), chunk_size)
    count = _count(chunk_size, file_size)
    if not count:
        return ChunkIndex(chunk_size, file_size, ())
    end = (count - 1) * stored + last
    return ChunkIndex(chunk_size, file_size, _FixedEnds(stored, count, end))


class _FixedEnds(Sequence[Position]):
    """Multiples of a size, and the last end."""

    __slots__ = ("_count", "_last", "_size")

    def __init__(self, size: int, count: int, last: Position) -> None:
        self._size, self._count, self._last = size, count, last

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        number = range(self._count)[number]
        return self._last if number == self._count - 1 else (number + 1) * self._size


def variable_chunks(chunk_size: int, file_size: int, data: bytes) -> ChunkIndex:
    """Return the index of chunks whose sizes are in a zstd frame. Raises SizesError.

    The sizes are big-endian: a number of chunks; of two or more also a base, a width in bytes, and that many bytes
    for each chunk but the last, to be added to the base; the last size whole.
    """
    count = _count(chunk_size, file_size)
    coded = bytearray()
    try:
        zstd_frame.decompress(data, coded, 4 * count + 16)
    except (zstd_frame.ZstdFrameError, OverflowError) as error:
        raise SizesError("a zstd frame of sizes", str(error)[:80]) from None
    stated, at = int.from_bytes(coded[:4], "big"), 4
    if stated != count:
        raise SizesError(f"{count} sizes", f"{stated}")
    sizes = []
    if count > 1:
        base, width, at = int.from_bytes(coded[4:8], "big"), coded[8] if coded[8:9] else 0, 9
        for _ in range(count - 1):
            sizes.append(base + int.from_bytes(coded[at : at + width], "big"))
            at += width
    if count:
        sizes.append(int.from_bytes(coded[at : at + 4], "big"))
        at += 4
    if at != len(coded):
        raise SizesError(f"{at} bytes of sizes", len(coded))
    _check_sizes(sizes, chunk_size)
    return ChunkIndex(chunk_size, file_size, tuple(accumulate(sizes)))


def _check_sizes(sizes: Sequence[int], chunk_size: int) -> None:
    most = 2 * chunk_size + _OVERHEAD
    for size in sizes:
        if not 0 < size <= most:
            raise SizesError(f"chunks of 1 to {most} bytes", size)
