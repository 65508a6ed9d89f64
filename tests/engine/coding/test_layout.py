"""Fixed structures: sizes, places, both directions."""

import struct
from typing import NamedTuple

import numpy as np
import pytest

from engine.coding.layout import Int8, Int16, Int32, Int64, Layout, UInt32


class Every(NamedTuple):
    """One field of each width."""

    byte: Int8
    short: Int16
    number: Int32
    unsigned: UInt32
    long: Int64


EVERY = Layout(Every)
VALUE = Every(-1, -2, -3, 2**32 - 1, -5)


def test_a_subset_passes_over_the_bytes_between():
    ends = EVERY.subset(*Every._fields[::4])
    assert ends.unpack_from(EVERY.pack(VALUE)) == (VALUE[0], VALUE[4])
    assert EVERY.up_to(Every._fields[1]).unpack_from(EVERY.pack(VALUE)) == VALUE[:2]
    assert [EVERY.end_of(name) for name in Every._fields] == [1, 3, 7, 11, 19]


def test_the_dtype_of_a_layout_has_its_fields_big_endian_and_unpadded():
    assert EVERY.dtype.itemsize == EVERY.size
    assert np.frombuffer(EVERY.pack(VALUE), EVERY.dtype)[0].tolist() == tuple(VALUE)


def test_a_native_layout_is_in_the_order_of_this_machine():
    native = Layout(Every, "=")
    assert native.dtype.itemsize == native.size == EVERY.size
    assert np.frombuffer(native.pack(VALUE), native.dtype)[0].tolist() == tuple(VALUE)
    assert native.field_struct("long").pack(VALUE.long) == struct.pack("=q", VALUE.long)


def test_fields_follow_each_other_without_gaps():
    assert EVERY.size == 19
    assert [EVERY.position_of(name) for name in Every._fields] == [0, 1, 3, 7, 11]


def test_what_is_packed_unpacks_to_itself_at_any_position():
    data = EVERY.pack(VALUE)
    assert EVERY.unpack(data) == VALUE
    assert EVERY.unpack(memoryview(b"abc" + data), 3) == VALUE
    assert list(EVERY.iter_unpack(data * 3)) == [VALUE] * 3


def test_a_field_reads_alone_at_its_position():
    data = EVERY.pack(VALUE)
    for name, value in VALUE._asdict().items():
        assert EVERY.field_struct(name).unpack_from(data, EVERY.position_of(name)) == (value,)


def test_a_buffer_that_ends_early_is_an_error():
    data = EVERY.pack(VALUE)
    for size in range(len(data)):
        with pytest.raises(struct.error):
            EVERY.unpack(data[:size])


def test_a_value_that_does_not_fit_is_an_error():
    with pytest.raises(struct.error):
        EVERY.pack(VALUE._replace(byte=128))
