import struct

import pytest
from hypothesis import given, strategies as st

from engine.coding.compression import CompressionType
from engine.record.attributes import TimestampType
from engine.record.default_records import read_headers, read_record
from engine.record.encoding.batch_encoding import (
    encode_message,
    encode_record,
    message_attributes,
    message_size,
    size_of_record,
)
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.record import Header

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
DATA = st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=70)
HEADERS = st.lists(st.builds(Header, st.binary(max_size=70), DATA), max_size=3)


@given(INT32, INT64, DATA, DATA, HEADERS)
def test_a_record_reads_as_it_was_written_and_has_the_size_that_was_said(
    offset_delta, timestamp_delta, key, value, headers
):
    made = encode_record(offset_delta, timestamp_delta, key, value, headers)
    assert len(made) == size_of_record(offset_delta, timestamp_delta, key, value, headers)
    view = memoryview(made)
    fields = read_record(view, 0)
    assert (fields.offset_delta, fields.timestamp_delta) == (offset_delta, timestamp_delta)
    assert fields.end == len(made)
    for position, size, data in (
        (fields.key_position, fields.key_size, key),
        (fields.value_position, fields.value_size, value),
    ):
        assert size == (-1 if data is None else len(data))
        assert data is None or view[position : position + size] == data
    assert list(read_headers(view, fields, 10)) == headers


def test_deltas_wrap_as_java_numbers_do():
    assert encode_record(2**31, 2**63, None, None) == encode_record(-(2**31), -(2**63), None, None)
    assert size_of_record(2**31, 2**63, None, None) == len(encode_record(2**31, 2**63, None, None))


def test_a_header_without_a_key_is_refused():
    with pytest.raises(ValueError, match="key of a header is null"):
        encode_record(0, 0, None, None, [Header(None, b"")])


@pytest.mark.parametrize("magic", [0, 1])
@given(offset=INT64, timestamp=st.integers(-1, 2**63 - 1), key=DATA, value=DATA)
def test_a_message_reads_as_it_was_written_and_has_the_size_that_was_said(
    magic, offset, timestamp, key, value
):
    made = encode_message(magic, offset, timestamp, key, value)
    assert len(made) == 12 + message_size(magic, key, value)
    message = LegacyRecordBatch(made)
    message.ensure_valid()
    assert (message.last_offset, message.key(), message.value()) == (offset, key, value)
    assert message.timestamp == (timestamp if magic else -1)


@pytest.mark.parametrize("magic", [-1, 2, 3])
def test_there_are_messages_of_magic_0_and_1_only(magic):
    with pytest.raises(ValueError, match=f"magic {magic}"):
        encode_message(magic, 0, 0, None, None)


def test_a_message_with_a_negative_timestamp_is_refused():
    with pytest.raises(ValueError, match="timestamp -2"):
        encode_message(1, 0, -2, None, None)


def test_an_offset_that_does_not_fit_wraps():
    assert encode_message(0, 2**63, 0, None, None)[:8] == struct.pack(">q", -(2**63))


def test_attributes_of_magic_0_have_no_timestamp_type():
    gzip = CompressionType.GZIP
    assert message_attributes(0, gzip, TimestampType.LOG_APPEND_TIME) == 1
    assert message_attributes(1, gzip, TimestampType.LOG_APPEND_TIME) == 9
    with pytest.raises(ValueError, match="timestamp type"):
        message_attributes(1, gzip, TimestampType.NO_TIMESTAMP_TYPE)
