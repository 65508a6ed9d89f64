"""What Kafka's ByteUtilsTest asks of writing."""

import io

import pytest

from engine.coding.fixed_width import encode_uint32_le, write_uint32_le

ONE = 0x04030201
TWO = 0xF4F3F2F1 - 2**32
"""As a Java int."""


@pytest.mark.conformance("ByteUtilsTest.testWriteUnsignedIntLEToArray")
@pytest.mark.parametrize(("value", "made"), [(ONE, "01020304"), (TWO, "f1f2f3f4")])
def test_write_unsigned_int_le_to_array(value, made):
    array = bytearray(4)
    write_uint32_le(array, 0, value)
    assert array.hex() == made
    array = bytearray(8)
    write_uint32_le(array, 2, value)
    assert array.hex() == "0000" + made + "0000"


@pytest.mark.conformance("ByteUtilsTest.testWriteUnsignedIntLEToOutputStream")
def test_write_unsigned_int_le_to_output_stream():
    stream = io.BytesIO()
    stream.write(encode_uint32_le(ONE))
    stream.write(encode_uint32_le(ONE))
    assert stream.getvalue().hex() == "0102030401020304"
    stream = io.BytesIO()
    stream.write(encode_uint32_le(TWO))
    assert stream.getvalue().hex() == "f1f2f3f4"
