"""What Kafka's SimpleLegacyRecordTest asks."""

import struct

import pytest

from engine.coding.compression import CompressionType
from engine.errors import CorruptRecordError, InvalidRecordError
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.memory_records import MemoryRecords
from tests.builders import message, wrapper


@pytest.mark.conformance("SimpleLegacyRecordTest.testCompressedIterationWithNullValue")
def test_compressed_iteration_with_null_value():
    data = message(0, None, None, timestamp=1, attributes=CompressionType.GZIP)
    with pytest.raises(InvalidRecordError, match="null value"):
        next(MemoryRecords(data).records())


@pytest.mark.conformance("SimpleLegacyRecordTest.testCompressedIterationWithEmptyRecords")
def test_compressed_iteration_with_empty_records():
    data = wrapper([], 0, CompressionType.GZIP, timestamp=1)
    with pytest.raises(InvalidRecordError, match="no messages inside"):
        next(MemoryRecords(data).records())


@pytest.mark.conformance("SimpleLegacyRecordTest.testIsValidWithTooSmallBuffer")
def test_is_valid_with_too_small_buffer():
    # Two bytes of a message, in a buffer that goes on: the size is what is corrupt.
    data = struct.pack(">qi", 0, 2) + bytes(20)
    with pytest.raises(CorruptRecordError, match="too small"):
        LegacyRecordBatch(data).ensure_valid()
    with pytest.raises(CorruptRecordError, match="too small"):
        next(MemoryRecords(data).batches())


@pytest.mark.conformance("SimpleLegacyRecordTest.testIsValidWithChecksumMismatch")
def test_is_valid_with_checksum_mismatch():
    data = struct.pack(">qiI", 0, 4, 2) + bytes(20)
    with pytest.raises(CorruptRecordError, match="too small"):
        LegacyRecordBatch(data).ensure_valid()
    whole = message(0, b"k", b"v", crc=2)
    with pytest.raises(CorruptRecordError, match="checksum") as raised:
        LegacyRecordBatch(whole).ensure_valid()
    assert raised.value.expected == 2
