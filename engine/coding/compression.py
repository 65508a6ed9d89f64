"""Codecs of record batches, both ways: gzip, snappy, LZ4, zstd.

Decompression trusts no size in the data: the output grows as bytes come out, up to a limit. Where a
codec's reader in Kafka is lenient, this one is too: gzip may have several members, and bytes after
the last are ignored; snappy comes in xerial's frames or as one bare block, LZ4 frames of magic 0
have a wrong header checksum.

This is the reference and the fallback; bulk reading calls the codecs' C libraries in the kernel.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from engine.coding import lz4_frame, snappy_frame, zstd_frame
from engine.coding.layout import Buffer
from engine.errors import DecompressionError, LimitExceededError, UnsupportedCodecError

MAX_MEMBERS = 1024
"""Most gzip members in a batch; writers make one, and each costs a call."""

_GZIP_HEAD = b"\x1f\x8b\x08"
_GZIP_WBITS = 31
_GZIP_PIECE = 16 * 1024
"""Input bytes per call: zlib copies what a call makes, at most about 1,000 times as much."""


class CompressionType(IntEnum):
    """Codec of a batch, with its number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = tuple(codec.name.lower() for codec in CompressionType)
"""Kafka's names of the codecs, by number."""
LAST_CODEC = max(CompressionType)
LEVELS: dict[CompressionType, tuple[int, int, int]] = {
    CompressionType.GZIP: (1, 9, -1),
    CompressionType.LZ4: (1, 17, lz4_frame.DEFAULT_LEVEL),
    CompressionType.ZSTD: (-131072, 22, zstd_frame.DEFAULT_LEVEL),
}
"""Lowest, highest and default level in Kafka, of the codecs that have levels."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec and its level; None for Kafka's default level.

    Raises:
        ValueError: the codec has no such level.
    """

    type: CompressionType = CompressionType.NONE
    level: int | None = None

    def __post_init__(self) -> None:
        if self.level is None:
            return
        if self.type not in LEVELS:
            raise ValueError(f"{self.type.name.lower()} has no levels")
        lowest, highest, default = LEVELS[self.type]
        if not lowest <= self.level <= highest and self.level != default:
            raise ValueError(
                f"{self.type.name.lower()} has levels {lowest} to {highest}, not {self.level}"
            )


def decompress(codec: CompressionType, data: Buffer, *, limit: int, magic: int = 2) -> bytes:
    """Return the decompressed data.

    Args:
        codec: how the data is compressed; NONE returns it unchanged.
        data: the compressed part of a batch.
        limit: most bytes of output.
        magic: magic of the batch; 0 accepts LZ4 frames with a wrong header checksum.

    Raises:
        DecompressionError: the data is damaged; `partial` has the output before the damage.
        LimitExceededError: more than `limit` bytes would come out.
        UnsupportedCodecError: the codec's package is not installed.
    """
    if codec is CompressionType.NONE:
        if len(data) > limit:
            raise too_large(limit)
        return bytes(data)
    if codec is CompressionType.GZIP:
        return _decompress_gzip(data, limit)
    out = bytearray()
    try:
        if codec is CompressionType.SNAPPY:
            snappy_frame.decompress(data, out, limit)
        elif codec is CompressionType.ZSTD:
            zstd_frame.decompress(data, out, limit)
        else:
            lz4_frame.decompress(data, out, limit, check_header=magic > 0)
    except (
        lz4_frame.Lz4FrameError,
        snappy_frame.SnappyFrameError,
        zstd_frame.ZstdFrameError,
    ) as error:
        raise DecompressionError(str(error), partial=bytes(out)) from None
    except OverflowError:
        raise too_large(limit) from None
    except ImportError as error:
        raise _missing(codec) from error
    return bytes(out)


def compress(
    codec: CompressionType, data: Buffer, *, magic: int = 2, level: int | None = None
) -> bytes:
    """Return the data compressed as Kafka's writers do it.

    `level` is one of `LEVELS`, or None for Kafka's default.
    """
    if codec is CompressionType.NONE:
        return bytes(data)
    if codec is CompressionType.GZIP:
        return zlib.compress(data, -1 if level is None else level, _GZIP_WBITS)
    try:
        if codec is CompressionType.SNAPPY:
            return snappy_frame.compress(data)
        if codec is CompressionType.ZSTD:
            return zstd_frame.compress(data, level)
        return lz4_frame.compress(data, broken_header_checksum=magic == 0, level=level)
    except ImportError as error:
        raise _missing(codec) from error


def too_large(limit: int) -> LimitExceededError:
    """Return the error for a batch that inflates to more than a limit."""
    return LimitExceededError(
        f"the batch inflates to more than {limit} bytes", limit="inflated_bytes"
    )


def _missing(codec: CompressionType) -> UnsupportedCodecError:
    return UnsupportedCodecError(
        f"{codec.name.lower()} needs the package cramjam: pip install cramjam"
    )


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    try:
        return _inflate_members(data, limit, _GZIP_PIECE)
    except zlib.error as error:
        piece = min(_GZIP_PIECE, max(1, len(data) // 32768))
        partial = _salvage(lambda: _inflate_members(data, limit, piece))
        raise DecompressionError(f"gzip: {error}", partial=partial) from None


def _inflate_members(data: Buffer, limit: int, piece: int) -> bytes:
    """Return the content of all members; an error's `partial` has the output before it.

    Feeds `piece` bytes of input per call.
    """
    out = bytearray()
    view = memoryview(data)
    position = 0
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            while not member.eof and position < len(view):
                taken = view[position : position + piece]
                out += member.decompress(taken, limit - len(out) + 1)
                if len(out) > limit:
                    raise too_large(limit)
                position += len(taken) - len(member.unused_data)
        except zlib.error as error:
            error.partial = bytes(out)  # type: ignore[attr-defined]
            raise
        if not member.eof:
            raise DecompressionError("gzip: ends inside a member", partial=bytes(out))
        # As in Java, bytes that do not look like another member are ignored.
        if len(view) - position < 18 or view[position : position + 3] != _GZIP_HEAD:
            return bytes(out)
    raise DecompressionError(f"gzip: more than {MAX_MEMBERS} members", partial=bytes(out))


def _salvage(inflate: Callable[[], bytes]) -> bytes:
    """Return the output before the damage; small pieces of input lose at most the damaged piece."""
    try:
        return inflate()
    except (zlib.error, DecompressionError) as error:
        partial: bytes = getattr(error, "partial", b"")
        return partial
