import struct

import pytest

from engine.errors import UnsupportedForMessageFormatError
from engine.record.attributes import TimestampType
from engine.record.encoding.writable_batch import (
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from engine.record.memory_records import MemoryRecords
from tests.builders import any_batch, batch, patched, resealed, values
from tests.conformance.batch_iteration import FORMATS

RECORDS = values("a", "b", "c")
BEFORE = b"before!"


def between(data: bytes) -> bytearray:
    """A buffer with a batch amid other bytes."""
    return bytearray(BEFORE + data + b"behind")


def batch_in(buffer: bytearray, size: int):
    assert (buffer[: len(BEFORE)], buffer[len(BEFORE) + size :]) == (BEFORE, b"behind")
    found = next(MemoryRecords(bytes(buffer[len(BEFORE) :][:size])).batches())
    found.ensure_valid()
    return found


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_a_batch_moves_where_it_lies(magic, codec):
    data = any_batch(RECORDS, 5, codec, magic=magic)
    buffer = between(data)
    set_last_offset(buffer, len(BEFORE), 2**40)
    assert batch_in(buffer, len(data)).last_offset == 2**40


@pytest.mark.parametrize(("magic", "codec"), [one for one in FORMATS if one[0]])
@pytest.mark.parametrize("kind", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
def test_a_batch_gets_its_timestamp_where_it_lies(magic, codec, kind):
    data = any_batch(RECORDS, 5, codec, magic=magic)
    buffer = between(data)
    set_max_timestamp(buffer, len(BEFORE), kind, 15)
    found = batch_in(buffer, len(data))
    assert (found.timestamp_type, found.max_timestamp) == (kind, 15)
    assert found.compression is codec
    assert len(list(found.records())) == (1 if magic == 1 and not codec else 3)


def test_the_flags_of_a_batch_stay():
    data = batch(RECORDS, transactional=True, control=True, delete_horizon=7)
    buffer = between(data)
    set_max_timestamp(buffer, len(BEFORE), TimestampType.LOG_APPEND_TIME, 15)
    found = batch_in(buffer, len(data))
    assert (found.is_transactional, found.is_control, found.delete_horizon_ms) == (True, True, 7)


def test_bits_that_mean_nothing_are_dropped_with_a_new_timestamp():
    data = bytearray(resealed(patched(batch(RECORDS), 21, struct.pack(">H", 0xFF80))))
    set_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, 15)
    found = next(MemoryRecords(data).batches())
    found.ensure_valid()
    assert found.attributes == 8


@pytest.mark.parametrize("magic", [1, 2])
def test_a_timestamp_that_is_there_already_changes_nothing_not_even_a_wrong_checksum(magic):
    data = any_batch(RECORDS[:1], magic=magic)
    wrong = bytearray(patched(data, 13 if magic == 1 else 18, b"\xff"))
    before = bytes(wrong)
    set_max_timestamp(wrong, 0, TimestampType.CREATE_TIME, RECORDS[0].timestamp)
    assert wrong == before


def test_a_leader_epoch_does_not_touch_the_checksum():
    data = batch(RECORDS)
    buffer = between(data)
    set_partition_leader_epoch(buffer, len(BEFORE), 500)
    found = batch_in(buffer, len(data))
    assert (found.leader_epoch, found.crc) == (500, struct.unpack_from(">I", data, 17)[0])


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_no_leader_epoch(magic):
    data = bytearray(any_batch(RECORDS, magic=magic))
    with pytest.raises(UnsupportedForMessageFormatError, match=f"magic {magic}"):
        set_partition_leader_epoch(data, 0, 1)
