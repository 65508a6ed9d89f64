"""Read and write single fixed-width numbers at a position, as Kafka's ByteUtils does.

All raise struct.error when the buffer ends inside the number.
"""

from __future__ import annotations

import struct

from engine.coding.layout import Buffer

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")
_UINT32_LE = struct.Struct("<I")
_FLOAT64 = struct.Struct(">d")


def read_int16(buffer: Buffer, position: int = 0) -> int:
    """Return a signed 16-bit big-endian number."""
    value: int = _INT16.unpack_from(buffer, position)[0]
    return value


def read_int32(buffer: Buffer, position: int = 0) -> int:
    """Return a signed 32-bit big-endian number."""
    value: int = _INT32.unpack_from(buffer, position)[0]
    return value


def read_int64(buffer: Buffer, position: int = 0) -> int:
    """Return a signed 64-bit big-endian number."""
    value: int = _INT64.unpack_from(buffer, position)[0]
    return value


def read_uint16(buffer: Buffer, position: int = 0) -> int:
    """Return an unsigned 16-bit big-endian number."""
    value: int = _UINT16.unpack_from(buffer, position)[0]
    return value


def read_uint32(buffer: Buffer, position: int = 0) -> int:
    """Return an unsigned 32-bit big-endian number."""
    value: int = _UINT32.unpack_from(buffer, position)[0]
    return value


def read_uint32_le(buffer: Buffer, position: int = 0) -> int:
    """Return an unsigned 32-bit little-endian number, as LZ4 frames have them."""
    value: int = _UINT32_LE.unpack_from(buffer, position)[0]
    return value


def read_float64(buffer: Buffer, position: int = 0) -> float:
    """Return an IEEE 754 double, big-endian."""
    value: float = _FLOAT64.unpack_from(buffer, position)[0]
    return value


def encode_float64(value: float) -> bytes:
    """Return a big-endian double as bytes."""
    return _FLOAT64.pack(value)


def encode_uint32_le(value: int) -> bytes:
    """Return an unsigned 32-bit little-endian number, or the two's complement of a negative number."""
    return _UINT32_LE.pack(value & 0xFFFFFFFF)


def write_uint32_le(buffer: bytearray | memoryview, position: int, value: int) -> None:
    """Write an unsigned 32-bit little-endian number into a buffer."""
    _UINT32_LE.pack_into(buffer, position, value & 0xFFFFFFFF)
