"""What Kafka's ChecksumsTest asks."""

import mmap
import struct

import pytest

from engine.coding.checksums import crc32c

BUFFERS = (bytes, bytearray, memoryview)


def outside_the_heap(data: bytes) -> memoryview:
    held = mmap.mmap(-1, len(data))
    held.write(data)
    return memoryview(held)


@pytest.mark.conformance("ChecksumsTest.testUpdateByteBuffer")
@pytest.mark.parametrize("kind", [*BUFFERS, outside_the_heap])
def test_update_byte_buffer(kind):
    data = bytes([0, 1, 2, 3, 4, 5])
    buffer = kind(data)
    assert crc32c(buffer) == crc32c(data)
    assert bytes(buffer) == data


@pytest.mark.conformance("ChecksumsTest.testUpdateByteBufferWithOffsetPosition")
@pytest.mark.parametrize("kind", [*BUFFERS, outside_the_heap])
def test_update_byte_buffer_with_offset_position(kind):
    data = bytes([254, 255, 0, 1, 2, 3, 4, 5])
    assert crc32c(memoryview(kind(data))[2:]) == crc32c(bytes([0, 1, 2, 3, 4, 5]))


@pytest.mark.conformance("ChecksumsTest.testUpdateInt")
def test_update_int():
    data = struct.pack(">i", 1000)
    fed = 0
    for byte in data:
        fed = crc32c(bytes([byte]), fed)
    assert fed == crc32c(data)


@pytest.mark.conformance("ChecksumsTest.testUpdateLong")
def test_update_long():
    data = struct.pack(">q", -(2**31))
    assert crc32c(data[4:], crc32c(data[:4])) == crc32c(data)
