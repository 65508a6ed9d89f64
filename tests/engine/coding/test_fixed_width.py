"""Single numbers: each width at a position, and the end of the buffer."""

import struct

import pytest

from engine.coding.fixed_width import (
    read_float64,
    read_int16,
    read_int32,
    read_int64,
    read_uint16,
    read_uint32,
    read_uint32_le,
    write_uint32_le,
)

READERS = [
    (read_int16, ">h", -2),
    (read_int32, ">i", -(2**31)),
    (read_int64, ">q", -(2**63)),
    (read_uint16, ">H", 2**16 - 1),
    (read_uint32, ">I", 2**32 - 2),
    (read_uint32_le, "<I", 2**32 - 2),
    (read_float64, ">d", -1.5),
]


@pytest.mark.parametrize(("read", "letter", "value"), READERS)
def test_a_number_reads_at_its_position_and_not_past_the_end(read, letter, value):
    data = struct.pack(letter, value)
    assert read(data) == value
    assert read(memoryview(b"x" + data), 1) == value
    with pytest.raises(struct.error):
        read(data, 1)


def test_a_number_is_not_written_past_the_end():
    buffer = bytearray(5)
    with pytest.raises(struct.error):
        write_uint32_le(buffer, 2, 1)
    assert buffer == bytes(5)
    write_uint32_le(buffer, 1, -2)
    assert read_uint32_le(buffer, 1) == 2**32 - 2
