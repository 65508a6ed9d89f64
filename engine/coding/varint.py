"""Read and write variable-length integers: 7 bits per byte, low bits first, signed values in zigzag encoding.

The formats are those of protocol buffers; the edge cases are those of Kafka's ByteUtils in Java: a
32-bit value takes at most 5 bytes, a 64-bit value at most 10, and excess high bits of the last byte
are dropped. A reader returns the value and the position after it. It raises ValueError for a longer
number and IndexError when the buffer ends inside the number.
"""

from __future__ import annotations

from engine.coding.layout import Buffer

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF


def to_int32(value: int) -> int:
    """Return the value wrapped to a Java int."""
    value &= _MASK32
    return value - 0x100000000 if value & 0x80000000 else value


def to_int64(value: int) -> int:
    """Return the value wrapped to a Java long."""
    value &= _MASK64
    return value - 0x10000000000000000 if value & 0x8000000000000000 else value


def _read_raw(buffer: Buffer, position: int, longest: int) -> tuple[int, int]:
    """Return the bits of a number of at most `longest` bytes, and the position after it."""
    raw = 0
    for shift in range(0, 7 * longest, 7):
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
    raise ValueError(f"a variable-length integer is longer than {longest} bytes")


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return a 32-bit number without zigzag, as a Java int: above 2^31-1 it comes out negative."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    raw, position = _read_raw(buffer, position, 5)
    return to_int32(raw), position


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return a zigzag 32-bit number."""
    raw = buffer[position]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    second = buffer[position + 1]
    if second < 0x80:  # most lengths of a record are two bytes
        raw = raw & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), position + 2
    raw, position = _read_raw(buffer, position, 5)
    raw &= _MASK32
    return (raw >> 1) ^ -(raw & 1), position


def read_unsigned_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return a 64-bit number without zigzag, as a Java long: above 2^63-1 it comes out negative."""
    raw, position = _read_raw(buffer, position, 10)
    return to_int64(raw), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return a zigzag 64-bit number."""
    raw = buffer[position]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    second = buffer[position + 1]
    if second < 0x80:  # most record lengths take two bytes
        raw = raw & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), position + 2
    raw, position = _read_raw(buffer, position, 10)
    raw &= _MASK64
    return (raw >> 1) ^ -(raw & 1), position


def _encode_raw(raw: int) -> bytes:
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _fold(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{value} does not fit {bits} bits")
    return (value << 1) if value >= 0 else ((~value) << 1) | 1


SMALL_VARINTS = tuple(_encode_raw(value << 1) for value in range(1024))
"""Results of `encode_varint` and `encode_varlong` for 0 to 1023: most numbers of a record."""
_SMALL = len(SMALL_VARINTS)


def encode_unsigned_varint(value: int) -> bytes:
    """Return a 32-bit number without zigzag, as two's complement if negative."""
    return _encode_raw(value & _MASK32)


def encode_varint(value: int) -> bytes:
    """Return a zigzag 32-bit number. Raises ValueError when it does not fit."""
    return SMALL_VARINTS[value] if 0 <= value < _SMALL else _encode_raw(_fold(value, 32))


def encode_unsigned_varlong(value: int) -> bytes:
    """Return a 64-bit number without zigzag, as two's complement if negative."""
    return _encode_raw(value & _MASK64)


def encode_varlong(value: int) -> bytes:
    """Return a zigzag 64-bit number. Raises ValueError when it does not fit."""
    return SMALL_VARINTS[value] if 0 <= value < _SMALL else _encode_raw(_fold(value, 64))


def _size(raw: int) -> int:
    return max(1, (raw.bit_length() + 6) // 7)


def size_of_unsigned_varint(value: int) -> int:
    """Return the number of bytes of `encode_unsigned_varint`."""
    return _size(value & _MASK32)


def size_of_varint(value: int) -> int:
    """Return the number of bytes of `encode_varint`."""
    return _size(_fold(value, 32))


def size_of_varlong(value: int) -> int:
    """Return the number of bytes of `encode_varlong`."""
    return _size(_fold(value, 64))
