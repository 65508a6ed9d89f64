"""What a leader's validation leaves alone, and what it checks of whom."""

from __future__ import annotations

import struct

import pytest

from engine.broker.append.validation_result import OffsetCounter, ValidationMetrics
from engine.coding.compression import CompressionType
from engine.errors import CorruptRecordError, InvalidRecordError, RecordValidationError
from engine.record.memory_records import MemoryRecords
from engine.writing.state.append_origin import AppendOrigin
from tests.builders import (
    LOG_APPEND_TIME,
    Producer,
    Rec,
    batch,
    is_valid,
    message,
    resealed,
    wrapper,
)
from tests.conformance.log_validation import (
    GZIP,
    LZ4,
    NONE,
    NOW,
    validated,
    validator,
    values_of,
)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("kind", [0, 1])
def test_the_callers_bytes_stay_as_they_are(codec, kind):
    buffer = bytearray(values_of(timestamp=NOW, codec=codec).buffer)
    before = bytes(buffer)
    result = validated(MemoryRecords(buffer), codec, kind=type(LOG_APPEND_TIME)(kind), offset=77)
    assert buffer == before
    assert result.records != MemoryRecords(before)


def test_the_counter_stays_where_it_is_when_a_later_batch_is_refused():
    data = message(0, None, b"good", timestamp=NOW) + message(1, None, b"bad", timestamp=0)
    counter = OffsetCounter(9)
    with pytest.raises(RecordValidationError):
        validator(MemoryRecords(data), magic=1).validate(counter)
    assert counter.value == 9


def test_no_batches_are_refused():
    with pytest.raises(InvalidRecordError, match="no batches"):
        validated(MemoryRecords(b""))


def test_batches_of_different_magics_are_refused():
    data = message(0, None, b"one", timestamp=NOW) + message(1, None, b"two", magic=0)
    metrics = ValidationMetrics()
    with pytest.raises(InvalidRecordError, match="different magics"):
        validator(MemoryRecords(data), magic=1).validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(invalid_magic=1)


def test_a_compressed_batch_that_does_not_count_from_zero_is_refused():
    data = batch([Rec(b"a", timestamp=NOW), Rec(b"b", timestamp=NOW)], 3, GZIP)
    counter = OffsetCounter(50)
    with pytest.raises(InvalidRecordError, match="count from 0"):
        validator(MemoryRecords(data), GZIP).validate(counter)
    assert counter.value == 50


def test_another_codec_gives_it_the_offsets_that_follow():
    data = batch([Rec(b"a", timestamp=NOW), Rec(b"b", timestamp=NOW)], 3, GZIP)
    result = validated(MemoryRecords(data), GZIP, LZ4, offset=50)
    assert [record.offset for record in result.records.records()] == [50, 51]


def test_old_clients_that_counted_wrong_have_their_wrapper_written_anew():
    inside = [message(number, None, b"v", timestamp=NOW) for number in (3, 4)]
    result = validated(
        MemoryRecords(wrapper(inside, 4, GZIP)), GZIP, magic=1, before=10**13, offset=50
    )
    assert result.message_size_maybe_changed
    assert [record.offset for record in result.records.records()] == [50, 51]
    assert result.conversion_stats.records_converted == 2


def test_only_clients_must_count_their_records_right():
    data = bytearray(batch([Rec(b"a", timestamp=NOW), Rec(b"b", timestamp=NOW)]))
    struct.pack_into(">i", data, 23, 6)
    gaps = MemoryRecords(resealed(bytes(data)))
    with pytest.raises(InvalidRecordError, match="do not agree"):
        validated(gaps)
    result = validator(gaps, origin=AppendOrigin.COORDINATOR).validate(OffsetCounter(10))
    (stamped,) = result.records.batches()
    assert (stamped.base_offset, stamped.last_offset) == (5, 11)


@pytest.mark.parametrize("sequence", [-1, -2, -(2**31)])
def test_a_client_with_a_producer_id_must_count_its_batches(sequence: int):
    data = batch([Rec(b"a", timestamp=NOW)], producer=Producer(id=0, epoch=0, sequence=sequence))
    metrics = ValidationMetrics()
    with pytest.raises(InvalidRecordError, match="sequence of producer 0 is negative") as caught:
        validator(MemoryRecords(data)).validate(OffsetCounter(0), metrics)
    assert (caught.value.expected, caught.value.found) == ("0 or more", sequence)
    assert metrics == ValidationMetrics(invalid_sequence=1)
    validator(MemoryRecords(data), origin=AppendOrigin.COORDINATOR).validate(OffsetCounter(0))


@pytest.mark.parametrize(("producer_id", "sequence"), [(0, 0), (5, 2**31 - 1), (-1, -1)])
def test_other_sequences_are_not_the_validators_business(producer_id: int, sequence: int):
    producer = Producer(id=producer_id, epoch=0, sequence=sequence)
    (stamped,) = validated(
        MemoryRecords(batch([Rec(b"a", timestamp=NOW)], producer=producer))
    ).records.batches()
    assert stamped.base_sequence == sequence


def test_a_leaders_stamps_are_epoch_offset_and_time_and_the_checksum_is_right():
    producer = Producer(id=5, epoch=1, sequence=3)
    data = batch([Rec(b"a", timestamp=NOW)] * 3, producer=producer, transactional=True)
    result = validated(MemoryRecords(data), kind=LOG_APPEND_TIME, epoch=12, offset=100, now=NOW + 7)
    (stamped,) = result.records.batches()
    assert is_valid(stamped)
    assert (stamped.base_offset, stamped.last_offset, stamped.leader_epoch) == (100, 102, 12)
    assert (stamped.timestamp_type, stamped.max_timestamp) == (LOG_APPEND_TIME, NOW + 7)
    assert (stamped.producer_id, stamped.base_sequence, stamped.is_transactional) == (5, 3, True)
    assert result.log_append_time_ms == result.max_timestamp_ms == NOW + 7


def test_headers_do_not_fit_an_older_magic():
    data = batch([Rec(b"a", timestamp=NOW, headers=[(b"h", b"v")])])
    with pytest.raises(ValueError, match="headers"):
        validated(MemoryRecords(data), magic=1)


def test_records_keep_keys_values_and_headers_when_the_codec_changes():
    inside = [
        Rec(b"value", b"key", NOW, [(b"h", b"v"), (b"n", None)]),
        Rec(None, b"", NOW + 5),
        Rec(b"", None, -1),
    ]
    result = validated(MemoryRecords(batch(inside, 0, GZIP)), GZIP, LZ4)
    found = [
        (r.value, r.key, r.timestamp, tuple((h.key, h.value) for h in r.headers))
        for r in result.records.records()
    ]
    assert found == [(r.value, r.key, r.timestamp, tuple(r.headers)) for r in inside]


def test_a_batch_that_does_not_inflate_is_corrupt():
    data = bytearray(values_of(codec=GZIP).buffer)
    data[70:80] = bytes(10)
    with pytest.raises(CorruptRecordError):
        validated(MemoryRecords(resealed(bytes(data))), GZIP)


def test_plain_records_of_one_magic_need_no_memory():
    result = validated(values_of(timestamp=NOW), NONE)
    assert result.conversion_stats == (0, 0, 0)
