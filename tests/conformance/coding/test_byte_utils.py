"""What Kafka's ByteUtilsTest asks."""

import io
import math
import struct

import pytest

from engine.coding.fixed_width import (
    encode_uint32_le,
    read_float64,
    read_int32,
    read_uint32,
    read_uint32_le,
    write_uint32_le,
)
from engine.coding.varint import (
    encode_unsigned_varint,
    encode_unsigned_varlong,
    encode_varint,
    encode_varlong,
    read_unsigned_varint,
    read_unsigned_varlong,
    read_varint,
    read_varlong,
    size_of_unsigned_varint,
    size_of_varlong,
)

MAX_INT, MIN_INT = 2**31 - 1, -(2**31)
MAX_LONG, MIN_LONG = 2**63 - 1, -(2**63)

UNSIGNED_VARINTS = {
    0: "00",
    -1: "ffffffff0f",
    1: "01",
    63: "3f",
    -64: "c0ffffff0f",
    64: "40",
    8191: "ff3f",
    -8192: "80c0ffff0f",
    8192: "8040",
    -8193: "ffbfffff0f",
    1048575: "ffff3f",
    1048576: "808040",
    MAX_INT: "ffffffff07",
    MIN_INT: "8080808008",
}
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    -8193: "818001",
    1048575: "feff7f",
    -1048576: "ffff7f",
    1048576: "80808001",
    -1048577: "81808001",
    134217727: "feffff7f",
    -134217728: "ffffff7f",
    134217728: "8080808001",
    -134217729: "8180808001",
    MAX_INT: "feffffff0f",
    MIN_INT: "ffffffff0f",
}
VARLONGS = VARINTS | {
    17179869183: "feffffff7f",
    -17179869184: "ffffffff7f",
    17179869184: "808080808001",
    -17179869185: "818080808001",
    2199023255551: "feffffffff7f",
    -2199023255552: "ffffffffff7f",
    2199023255552: "80808080808001",
    -2199023255553: "81808080808001",
    281474976710655: "feffffffffff7f",
    -281474976710656: "ffffffffffff7f",
    281474976710656: "8080808080808001",
    -281474976710657: "8180808080808001",
    36028797018963967: "feffffffffffff7f",
    -36028797018963968: "ffffffffffffff7f",
    36028797018963968: "808080808080808001",
    -36028797018963969: "818080808080808001",
    4611686018427387903: "feffffffffffffff7f",
    -4611686018427387904: "ffffffffffffffff7f",
    4611686018427387904: "80808080808080808001",
    -4611686018427387905: "81808080808080808001",
    MAX_LONG: "feffffffffffffffff01",
    MIN_LONG: "ffffffffffffffffff01",
}
DOUBLES = {
    0.0: 0x0,
    1.0: 0x3FF0000000000000,
    -1.0: 0xBFF0000000000000,
    123e45: 0x49B58B82C0E0BB00,
    -123e45: 0xC9B58B82C0E0BB00,
    5e-324: 0x1,
    -5e-324: 0x8000000000000001,
    1.7976931348623157e308: 0x7FEFFFFFFFFFFFFF,
    -1.7976931348623157e308: 0xFFEFFFFFFFFFFFFF,
    math.inf: 0x7FF0000000000000,
    -math.inf: 0xFFF0000000000000,
}
# Kafka walks over every 13th int; these are as many as Python does in a moment, every length among them.
INTS = [
    *range(0, MAX_INT, 13 * 7919),
    *range(0, 1 << 15, 13),
    *(1 << n for n in range(31)),
    MAX_INT,
]
POWERS = [1 << n for n in range(63)]


def naive_encode(value: int) -> bytes:
    out = []
    while value >= 0x80:
        out.append(value % 0x80 + 0x80)
        value //= 0x80
    return bytes([*out, value])


def naive_decode(data: bytes) -> int:
    return sum(byte % 0x80 * 0x80**place for place, byte in enumerate(data))


@pytest.mark.conformance("ByteUtilsTest.testReadUnsignedIntLEFromArray")
def test_read_unsigned_int_le_from_array():
    first = bytes([1, 2, 3, 4, 5])
    assert read_uint32_le(first, 0) == 0x04030201
    assert read_uint32_le(first, 1) == 0x05040302
    second = bytes([0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6])
    assert read_uint32_le(second, 0) == 0xF4F3F2F1
    assert read_uint32_le(second, 2) == 0xF6F5F4F3


@pytest.mark.conformance("ByteUtilsTest.testReadUnsignedIntLEFromInputStream")
def test_read_unsigned_int_le_from_input_stream():
    first = io.BytesIO(bytes(range(1, 10)))
    assert read_uint32_le(first.read(4)) == 0x04030201
    assert read_uint32_le(first.read(4)) == 0x08070605
    with pytest.raises(struct.error):
        read_uint32_le(first.read(4))
    second = io.BytesIO(bytes(range(0xF1, 0xF9)))
    assert read_uint32_le(second.read(4)) == 0xF4F3F2F1
    assert read_uint32_le(second.read(4)) == 0xF8F7F6F5


@pytest.mark.conformance("ByteUtilsTest.testReadUnsignedInt")
def test_read_unsigned_int():
    assert read_uint32(struct.pack(">I", 133444)) == 133444
    assert read_uint32(b"\xff\xff\xff\xff") == 2**32 - 1


@pytest.mark.conformance("ByteUtilsTest.testUnsignedVarintSerde")
def test_unsigned_varint_serde():
    for value, text in UNSIGNED_VARINTS.items():
        data = bytes.fromhex(text)
        assert encode_unsigned_varint(value) == data
        assert read_unsigned_varint(data, 0) == (value, len(data))
        assert read_unsigned_varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@pytest.mark.conformance("ByteUtilsTest.testVarintSerde")
def test_varint_serde():
    for value, text in VARINTS.items():
        data = bytes.fromhex(text)
        assert encode_varint(value) == data
        assert read_varint(data, 0) == (value, len(data))


@pytest.mark.conformance("ByteUtilsTest.testVarlongSerde")
def test_varlong_serde():
    for value, text in VARLONGS.items():
        data = bytes.fromhex(text)
        assert encode_varlong(value) == data
        assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.conformance("ByteUtilsTest.testInvalidVarint")
def test_invalid_varint():
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        read_varint(b"\xff\xff\xff\xff\xff\x01", 0)


@pytest.mark.conformance("ByteUtilsTest.testInvalidVarlong")
def test_invalid_varlong():
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        read_varlong(b"\xff" * 10 + b"\x01", 0)


@pytest.mark.conformance("ByteUtilsTest.testDouble")
def test_double():
    for value, bits in DOUBLES.items():
        assert read_float64(bits.to_bytes(8, "big")) == value
    negative_zero = read_float64((1 << 63).to_bytes(8, "big"))
    assert math.copysign(1, negative_zero) == -1
    assert math.isnan(read_float64(bytes.fromhex("7ff8000000000000")))


@pytest.mark.conformance("ByteUtilsTest.testCorrectnessWriteUnsignedVarlong")
def test_correctness_write_unsigned_varlong():
    for value in POWERS:
        assert encode_unsigned_varlong(value) == naive_encode(value)


@pytest.mark.conformance("ByteUtilsTest.testCorrectnessWriteUnsignedVarint")
def test_correctness_write_unsigned_varint():
    for value in INTS:
        assert encode_unsigned_varint(value) == naive_encode(value)


@pytest.mark.conformance("ByteUtilsTest.testCorrectnessReadUnsignedVarint")
def test_correctness_read_unsigned_varint():
    for value in INTS:
        data = encode_unsigned_varint(value)
        assert read_unsigned_varint(data, 0) == (naive_decode(data), len(data))


@pytest.mark.conformance("ByteUtilsTest.testCorrectnessReadUnsignedVarlong")
def test_correctness_read_unsigned_varlong():
    for value in POWERS:
        data = encode_unsigned_varlong(value)
        assert read_unsigned_varlong(data, 0) == (naive_decode(data), len(data))


@pytest.mark.conformance("ByteUtilsTest.testSizeOfUnsignedVarint")
def test_size_of_unsigned_varint():
    for value in INTS:
        assert size_of_unsigned_varint(value) == len(naive_encode(value))


@pytest.mark.conformance("ByteUtilsTest.testSizeOfVarlong")
def test_size_of_varlong():
    for value in [0, *POWERS]:
        assert size_of_varlong(value) == len(naive_encode(2 * value))


@pytest.mark.conformance("ByteUtilsTest.testReadInt")
def test_read_int():
    values = [0, 1, -1, 127, 32767, 65534, MAX_INT // 2, MIN_INT // 2, MAX_INT, MIN_INT, MAX_INT]
    data = struct.pack(f">{len(values)}i", *values)
    for place, value in enumerate(values):
        assert read_int32(data, 4 * place) == value


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
