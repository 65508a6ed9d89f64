"""The batch at a position: frames that can be, frames that cannot, and the end of the buffer."""

import struct

import pytest
from hypothesis import given, strategies as st

from engine.errors import CorruptRecordError
from engine.record.default_records import DefaultRecordBatch
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.record_batch import RecordBatch, batch_at, batch_size
from tests.builders import any_batch, batch, patched, values

ONE = values("a")
KINDS = {0: LegacyRecordBatch, 1: LegacyRecordBatch, 2: DefaultRecordBatch}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_magic_chooses_the_kind_of_batch(magic):
    data = any_batch(ONE, 3, magic=magic)
    found = batch_at(b"??" + data + b"!!", 2, file_position=77, path="some.log")
    assert type(found) is KINDS[magic]
    assert isinstance(found, RecordBatch)
    assert (found.size, found.file_position, found.path) == (len(data), 77, "some.log")
    assert bytes(found.raw) == data


def test_a_batch_without_a_place_is_at_0():
    assert batch_at(batch(ONE)).file_position == 0
    assert DefaultRecordBatch(batch(ONE)).file_position == 0
    for find in (lambda data: batch_at(data), lambda data: batch_size(data, 0)):
        with pytest.raises(CorruptRecordError) as raised:
            find(patched(batch(ONE), 16, b"\x03"))
        assert raised.value.position == 0


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_cut_anywhere_is_not_there(magic):
    data = any_batch(ONE, magic=magic)
    for end in range(len(data)):
        assert batch_at(data[:end]) is None
        assert batch_size(data[:end], 0) == (None if end < 17 else len(data))


@pytest.mark.parametrize(("magic", "minimum"), [(0, 14), (1, 22), (2, 49)])
def test_a_length_below_the_minimum_of_its_magic_is_corrupt(magic, minimum):
    data = any_batch(ONE, magic=magic)
    for length in (-(2**31), -1, 0, 13, minimum - 1):
        with pytest.raises(CorruptRecordError, match="too small") as raised:
            batch_at(patched(data, 8, struct.pack(">i", length)), file_position=9, path="some.log")
        assert (raised.value.found, raised.value.position, raised.value.path) == (
            length,
            9,
            "some.log",
        )
    assert batch_at(patched(data, 8, struct.pack(">i", minimum))) is not None


def test_a_length_that_cannot_be_is_seen_before_the_magic_is_there():
    for length, reason in ((13, "too small"), (101, "too large")):
        with pytest.raises(CorruptRecordError, match=reason):
            batch_size(struct.pack(">qi", 0, length), 0, largest=100)
    for length in (14, 100):
        assert batch_size(struct.pack(">qi", 0, length), 0, largest=100) is None


def test_an_unknown_magic_may_have_the_smallest_length_of_all():
    with pytest.raises(CorruptRecordError, match="magic of a batch is unknown"):
        batch_size(struct.pack(">qiib", 0, 14, 0, 3), 0)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_that_is_unknown_is_never_read_as_another(magic):
    with pytest.raises(CorruptRecordError, match="magic of a batch is unknown") as raised:
        batch_at(patched(batch(ONE), 16, bytes([magic])), file_position=9)
    assert raised.value.found == (magic if magic < 128 else magic - 256)
    assert raised.value.position == 9


def test_a_length_past_the_end_of_the_buffer_is_an_incomplete_batch_whatever_it_claims():
    for length in (1000, 2**31 - 1):
        assert batch_at(patched(batch(ONE), 8, struct.pack(">i", length))) is None


def test_a_length_above_what_is_allowed_is_corrupt():
    data = batch(ONE)
    assert batch_at(data, largest=len(data) - 12) is not None
    with pytest.raises(CorruptRecordError, match="too large"):
        batch_at(data, largest=len(data) - 13)


@given(data=st.binary(max_size=80), position=st.integers(0, 80))
def test_any_bytes_are_a_batch_nothing_or_corrupt(data, position):
    try:
        found = batch_at(data, min(position, len(data)))
    except CorruptRecordError:
        return
    assert found is None or found.size <= len(data)
