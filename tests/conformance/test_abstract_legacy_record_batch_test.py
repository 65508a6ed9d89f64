"""What Kafka's AbstractLegacyRecordBatchTest asks of reading."""

import struct

import pytest

from engine.coding.compression import CompressionType
from engine.errors import InvalidRecordError
from engine.record.legacy_records import LegacyRecordBatch
from tests.builders import Rec, message_set, patched

THREE = [Rec(b"1", b"a", 1), Rec(b"2", b"b", 2), Rec(b"3", b"c", 3)]


def with_last_offset(magic: int, offset: int) -> LegacyRecordBatch:
    data = message_set(THREE, 0, CompressionType.GZIP, magic=magic)
    return LegacyRecordBatch(patched(data, 0, struct.pack(">q", offset)))


@pytest.mark.conformance(
    "AbstractLegacyRecordBatchTest.testIterateCompressedRecordWithWrapperOffsetZero"
)
@pytest.mark.parametrize("magic", [0, 1])
def test_iterate_compressed_record_with_wrapper_offset_zero(magic):
    batch = with_last_offset(magic, 0)
    assert [record.offset for record in batch.records()] == [0, 1, 2]
    assert batch.base_offset == 0


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testInvalidWrapperOffsetV1")
def test_invalid_wrapper_offset_v1():
    with pytest.raises(InvalidRecordError, match="offset of a wrapper"):
        next(with_last_offset(1, 1).records())
