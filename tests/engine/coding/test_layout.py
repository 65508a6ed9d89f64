"""Fixed structures: sizes, places, both directions."""

import doctest
import struct
from typing import NamedTuple

import pytest

from engine.coding import layout
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


def test_the_example_in_the_docstring_holds():
    assert doctest.testmod(layout).attempted > 0
    assert doctest.testmod(layout).failed == 0


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
