"""What Kafka's DefaultRecordTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint, encode_varlong
from engine.errors import InvalidRecordError
from engine.record.default_records import DefaultRecordBatch
from engine.record.record import Header
from tests.builders import NO_PRODUCER, Producer, Rec, batch, record_body, sized

NOW = 1_700_000_000_000
HEADERS = ((b"foo", b"value"), (b"bar", None), (b'"A\\u00ea\\u00f1\\u00fcC"', b"value"))
START = b"\x00" + encode_varlong(2) + encode_varint(1)
"""A record's attributes, timestamp delta and offset delta."""
NULLS = START + encode_varint(-1) + encode_varint(-1)
"""The same with a null key and a null value."""
CODECS = (CompressionType.NONE, CompressionType.GZIP)
"""Kafka reads a record from a buffer or from a stream of decompressed bytes."""


def batch_of(section: bytes, codec: CompressionType, producer: Producer = NO_PRODUCER):
    """A batch that claims one record and holds these bytes."""
    return DefaultRecordBatch(
        batch(
            [Rec(timestamp=NOW)],
            37,
            codec,
            producer=producer,
            section=compress(codec, section),
            last_offset_delta=10,
        )
    )


def assert_refused(section: bytes, *, partial: bool = False) -> None:
    for codec in CODECS:
        made = batch_of(section, codec)
        records = made.records_without_values() if partial else made.records()
        with pytest.raises(InvalidRecordError) as raised:
            list(records)
        assert raised.value.index == 0


def body_of_100(start: bytes) -> bytes:
    return sized(start.ljust(100, b"\x00"))


@pytest.mark.conformance("DefaultRecordTest.testBasicSerde")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"hi", b"there", ()),
        (None, b"there", ()),
        (b"hi", None, ()),
        (None, None, ()),
        (b"hi", b"there", HEADERS),
    ],
)
def test_basic_serde(codec, key, value, headers):
    body = record_body(10, 323, key, value, headers)
    (record,) = batch_of(sized(body), codec, Producer(id=1, epoch=0, sequence=723)).records()
    assert (record.offset, record.sequence, record.timestamp) == (47, 733, NOW + 323)
    assert (record.key, record.value) == (key, value)
    assert record.headers == tuple(Header(*header) for header in headers)
    assert record.size == len(body)


def with_header_count(count: int) -> bytes:
    record = bytearray(sized(record_body(10, 323, b"hi", b"there", HEADERS)))
    place = record.index(b"there") + len(b"there")
    assert place == 14
    record[place : place + 1] = encode_varint(count)
    return bytes(record)


@pytest.mark.conformance("DefaultRecordTest.testBasicSerdeInvalidHeaderCountTooHigh")
def test_basic_serde_invalid_header_count_too_high():
    assert_refused(with_header_count(4))


@pytest.mark.conformance("DefaultRecordTest.testBasicSerdeInvalidHeaderCountTooLow")
def test_basic_serde_invalid_header_count_too_low():
    assert_refused(with_header_count(2))


@pytest.mark.conformance("DefaultRecordTest.testInvalidKeySize")
def test_invalid_key_size():
    assert_refused(body_of_100(START + encode_varint(105)))


@pytest.mark.conformance("DefaultRecordTest.testInvalidKeySizePartial")
def test_invalid_key_size_partial():
    assert_refused(body_of_100(START + encode_varint(105)), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testInvalidValueSize")
def test_invalid_value_size():
    assert_refused(body_of_100(START + encode_varint(-1) + encode_varint(105)))


@pytest.mark.conformance("DefaultRecordTest.testInvalidValueSizePartial")
def test_invalid_value_size_partial():
    assert_refused(body_of_100(START + encode_varint(-1) + encode_varint(105)), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testInvalidNumHeaders")
def test_invalid_num_headers():
    assert_refused(body_of_100(NULLS + encode_varint(-1)))
    assert_refused(body_of_100(NULLS + encode_varint(100)))


@pytest.mark.conformance("DefaultRecordTest.testInvalidNumHeadersPartial")
def test_invalid_num_headers_partial():
    assert_refused(body_of_100(NULLS + encode_varint(-1)), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testInvalidHeaderKey")
def test_invalid_header_key():
    assert_refused(body_of_100(NULLS + encode_varint(1) + encode_varint(105)))


@pytest.mark.conformance("DefaultRecordTest.testInvalidHeaderKeyPartial")
def test_invalid_header_key_partial():
    assert_refused(body_of_100(NULLS + encode_varint(1) + encode_varint(105)), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testNullHeaderKey")
def test_null_header_key():
    assert_refused(body_of_100(NULLS + encode_varint(1) + encode_varint(-1)))


@pytest.mark.conformance("DefaultRecordTest.testNullHeaderKeyPartial")
def test_null_header_key_partial():
    assert_refused(body_of_100(NULLS + encode_varint(1) + encode_varint(-1)), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testInvalidHeaderValue")
def test_invalid_header_value():
    assert_refused(body_of_100(NULLS + encode_varint(1) + sized(b"\x01") + encode_varint(105)))


@pytest.mark.conformance("DefaultRecordTest.testInvalidHeaderValuePartial")
def test_invalid_header_value_partial():
    header = encode_varint(1) + sized(b"\x01") + encode_varint(105)
    assert_refused(body_of_100(NULLS + header), partial=True)


@pytest.mark.conformance("DefaultRecordTest.testUnderflowReadingTimestamp")
def test_underflow_reading_timestamp():
    assert_refused(sized(b"\x00"))


@pytest.mark.conformance("DefaultRecordTest.testUnderflowReadingVarlong")
def test_underflow_reading_varlong():
    assert_refused(sized(b"\x00" + encode_varlong(156)[:1]))


@pytest.mark.conformance("DefaultRecordTest.testInvalidVarlong")
def test_invalid_varlong():
    broken = bytearray(encode_varlong(2**63 - 1))
    assert len(broken) == 10
    broken[-1] = 0x80
    assert_refused(sized(b"\x00" + bytes(broken)))


@pytest.mark.conformance("DefaultRecordTest.testSerdeNoSequence")
@pytest.mark.parametrize("codec", CODECS)
def test_serde_no_sequence(codec):
    (record,) = batch_of(sized(record_body(10, 323, b"hi", b"there")), codec).records()
    assert record.sequence == -1


@pytest.mark.conformance("DefaultRecordTest.testInvalidSizeOfBodyInBytes")
def test_invalid_size_of_body_in_bytes():
    assert_refused(encode_varint(10))
