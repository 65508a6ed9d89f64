"""What Kafka's LegacyRecordTest asks."""

import itertools

import pytest

from engine.coding.checksums import crc32
from engine.errors import CorruptRecordError
from engine.record.attributes import TimestampType
from engine.record.legacy_records import LegacyRecordBatch
from tests.builders import CODECS, message

PAYLOAD = b"\x01" * 1000
CONTENTS = (None, b"", b"key", PAYLOAD)
FIELDS = [
    (magic, timestamp, key, value, codec)
    for magic, timestamp, key, value, codec in itertools.product(
        (0, 1), (-1, 0, 1), CONTENTS, (None, b"", b"value", PAYLOAD), CODECS
    )
]


def made(magic, timestamp, key, value, codec) -> bytes:
    return message(0, key, value, magic=magic, timestamp=timestamp, attributes=codec)


@pytest.mark.conformance("LegacyRecordTest.testFields")
def test_fields():
    for magic, timestamp, key, value, codec in FIELDS:
        record = LegacyRecordBatch(made(magic, timestamp, key, value, codec))
        assert record.compression is codec
        assert record.magic == magic
        assert (record.key(), record.value()) == (key, value)
        if magic:
            assert record.max_timestamp == timestamp
            assert record.timestamp_type is TimestampType.CREATE_TIME
        else:
            assert record.max_timestamp == -1
            assert record.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE


@pytest.mark.conformance("LegacyRecordTest.testChecksum")
def test_checksum():
    for fields in FIELDS:
        data = bytearray(made(*fields))
        record = LegacyRecordBatch(data)
        record.ensure_valid()
        assert record.crc == record.computed_crc == crc32(data[16:])
        for place in range(16, len(data)):
            kept, data[place] = data[place], 69
            with pytest.raises(CorruptRecordError):
                LegacyRecordBatch(data).ensure_valid()
            data[place] = kept


@pytest.mark.conformance("LegacyRecordTest.testEquality")
def test_equality():
    for fields in FIELDS:
        data = made(*fields)
        record, copy = LegacyRecordBatch(data), LegacyRecordBatch(bytearray(data))
        assert record.raw == copy.raw
        assert record.header == copy.header
        assert (record.key(), record.value()) == (copy.key(), copy.value())
