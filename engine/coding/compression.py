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
from types import ModuleType
from typing import Protocol

from engine.coding import codec_libraries as libraries, lz4_frame, snappy_frame
from engine.coding.layout import Buffer
from engine.errors import DecompressionError, LimitExceededError, UnsupportedCodecError

MAX_PARTS = 1024
"""Most gzip members or zstd frames in a batch; writers make one, and each costs a call."""

_GZIP_HEAD = b"\x1f\x8b\x08"
_GZIP_WBITS = 31
_ZSTD_WINDOW = 2**27
"""Largest window that zstd decoders accept by default, and that Kafka's writers use at their highest level."""
_ZSTD_PIECE = 512
"""Input bytes per call: zstd's decoder does not bound a call's output, and 4 bytes can make 128 KiB."""


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
    CompressionType.ZSTD: (-131072, 22, 3),
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


class Inflating(Protocol):
    """Decompression object of zlib and isal."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: Buffer, max_length: int) -> bytes:
        """Return at most `max_length` bytes of decompressed input."""


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
    if codec is CompressionType.ZSTD:
        return _decompress_zstd(data, limit)
    out = bytearray()
    try:
        if codec is CompressionType.SNAPPY:
            snappy_frame.decompress(data, out, limit)
        else:
            lz4_frame.decompress(data, out, limit, check_header=magic > 0)
    except (lz4_frame.Lz4FrameError, snappy_frame.SnappyFrameError) as error:
        raise DecompressionError(str(error), partial=bytes(out)) from None
    except OverflowError:
        raise too_large(limit) from None
    except ModuleNotFoundError as error:
        raise _missing(codec, "cramjam") from error
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
    if codec is CompressionType.ZSTD:
        if libraries.zstandard is None:
            raise _missing(codec, "zstandard")
        # Kafka's writer streams, so its frames never state their content size.
        writer = libraries.zstandard.ZstdCompressor(3 if level is None else level).compressobj()
        made: bytes = writer.compress(data) + writer.flush()
        return made
    try:
        if codec is CompressionType.SNAPPY:
            return snappy_frame.compress(data)
        return lz4_frame.compress(data, broken_header_checksum=magic == 0, level=level)
    except ModuleNotFoundError as error:
        raise _missing(codec, "cramjam") from error


def too_large(limit: int) -> LimitExceededError:
    """Return the error for a batch that inflates to more than a limit."""
    return LimitExceededError(
        f"the batch inflates to more than {limit} bytes", limit="inflated_bytes"
    )


def _missing(codec: CompressionType, package: str) -> UnsupportedCodecError:
    return UnsupportedCodecError(
        f"{codec.name.lower()} needs the package {package}: pip install {package}"
    )


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    try:
        return _inflate_members(libraries.inflater, data, limit, len(data))
    except (zlib.error, libraries.inflater.error) as error:
        piece = max(1, len(data) // 32768)
        partial = _salvage(lambda: _inflate_members(zlib, data, limit, piece))
        raise DecompressionError(f"gzip: {error}", partial=partial) from None


def _inflate_members(library: ModuleType, data: Buffer, limit: int, piece: int) -> bytes:
    """Return the content of all members; an error's `partial` has the output before it.

    Feeds `piece` bytes of input per call.
    """
    out = bytearray()
    view = memoryview(data)
    position = 0
    for _ in range(MAX_PARTS):
        member = library.decompressobj(_GZIP_WBITS)
        position = _inflate_member(member, view, position, piece, out, limit)
        if not member.eof:
            raise DecompressionError("gzip: ends inside a member", partial=bytes(out))
        # As in Java, bytes that do not look like another member are ignored.
        if len(view) - position < 18 or view[position : position + 3] != _GZIP_HEAD:
            return bytes(out)
    raise DecompressionError(f"gzip: more than {MAX_PARTS} members", partial=bytes(out))


def _inflate_member(
    member: Inflating, view: memoryview, position: int, piece: int, out: bytearray, limit: int
) -> int:
    """Feed one member to its end or the end of the data; return the position after it."""
    while not member.eof and position < len(view):
        taken = view[position : position + piece]
        try:
            out += member.decompress(taken, limit - len(out) + 1)
        except Exception as error:
            error.partial = bytes(out)  # type: ignore[attr-defined]
            raise
        if len(out) > limit:
            raise too_large(limit)
        position += len(taken) - len(member.unused_data)
    return position


def _salvage(inflate: Callable[[], bytes]) -> bytes:
    """Return the output before the damage; small pieces of input lose at most the damaged piece."""
    try:
        return inflate()
    except (zlib.error, DecompressionError) as error:
        partial: bytes = getattr(error, "partial", b"")
        return partial


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    if libraries.zstandard is None:
        raise _missing(CompressionType.ZSTD, "zstandard")
    library = libraries.zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    out = bytearray()
    view = memoryview(data)
    position = frames = 0
    while position < len(view):
        if frames == MAX_PARTS:
            raise DecompressionError(f"zstd: more than {MAX_PARTS} frames", partial=bytes(out))
        frame = library.decompressobj()
        while not frame.eof and position < len(view):
            taken = view[position : position + _ZSTD_PIECE]
            try:
                made = frame.decompress(taken)
            except libraries.zstandard.ZstdError as error:
                raise DecompressionError(f"zstd: {error}", partial=bytes(out)) from None
            if len(out) + len(made) > limit:
                raise too_large(limit)
            out += made
            position += len(taken) - len(frame.unused_data)
        if not frame.eof:
            raise DecompressionError("zstd: ends inside a frame", partial=bytes(out))
        frames += 1
    return bytes(out)
