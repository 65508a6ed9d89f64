"""Varints: any value both ways, any bytes bounded, Java's arithmetic at the edges."""

import pytest
from hypothesis import given, strategies as st

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
    size_of_varint,
    size_of_varlong,
    to_int32,
    to_int64,
)

KINDS = [
    (encode_varint, read_varint, size_of_varint, 32, 5),
    (encode_varlong, read_varlong, size_of_varlong, 64, 10),
    (encode_unsigned_varint, read_unsigned_varint, size_of_unsigned_varint, 32, 5),
    (encode_unsigned_varlong, read_unsigned_varlong, None, 64, 10),
]
READERS = [(read, longest) for _, read, _, _, longest in KINDS]


@pytest.mark.parametrize(("encode", "read", "size", "bits", "_"), KINDS)
@given(data=st.data())
def test_every_value_reads_back_and_its_size_is_known(encode, read, size, bits, _, data):
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    encoded = encode(value)
    assert size is None or size(value) == len(encoded)
    assert read(b"\xff" + encoded + b"\x00", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(("encode", "read", "size", "bits", "_"), KINDS)
def test_a_number_cut_anywhere_is_an_index_error(encode, read, size, bits, _):
    encoded = encode(-(2 ** (bits - 1)))
    for end in range(len(encoded)):
        with pytest.raises(IndexError):
            read(encoded[:end], 0)


@pytest.mark.parametrize(("read", "longest"), READERS)
def test_a_number_that_goes_on_too_long_is_a_value_error(read, longest):
    with pytest.raises(ValueError, match=f"longer than {longest} bytes"):
        read(b"\x80" * 100, 0)
    assert read(b"\x80" * (longest - 1) + b"\x00", 0) == (0, longest)


@pytest.mark.parametrize(("read", "longest"), READERS)
@given(data=st.binary(max_size=12))
def test_any_bytes_give_a_number_or_one_of_two_errors(read, longest, data):
    try:
        _, end = read(data, 0)
    except (IndexError, ValueError):
        return
    assert 1 <= end <= longest


def test_bits_above_the_width_fall_off_as_in_java():
    assert read_varint(b"\xff\xff\xff\xff\x7f", 0) == (-(2**31), 5)
    assert read_unsigned_varint(b"\xff\xff\xff\xff\x7f", 0) == (-1, 5)
    assert read_varlong(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)
    assert read_unsigned_varlong(b"\xff" * 9 + b"\x7f", 0) == (-1, 10)


def test_numbers_wrap_in_twos_complement():
    assert (to_int32(2**31), to_int32(-(2**31) - 1), to_int32(-1)) == (-(2**31), 2**31 - 1, -1)
    assert (to_int64(2**63), to_int64(-(2**63) - 1), to_int64(-1)) == (-(2**63), 2**63 - 1, -1)


def test_a_value_too_wide_is_not_encoded():
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="does not fit 32 bits"):
            encode_varint(value)
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        encode_varlong(2**63)
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        size_of_varint(2**31)
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        size_of_varlong(2**63)


def test_the_numbers_around_the_end_of_the_table_are_encoded_alike():
    for value, encoded in ((1023, b"\xfe\x0f"), (1024, b"\x80\x10"), (1025, b"\x82\x10")):
        assert encode_varint(value) == encode_varlong(value) == encoded
