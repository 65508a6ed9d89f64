"""Messages of magic 0 and 1: wrappers, offsets, timestamps, damage and limits."""

import random
import struct

import pytest
from hypothesis import given, strategies as st

from engine.budgets import Budgets
from engine.coding.compression import CompressionType, compress
from engine.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    KafkaStorageError,
    LimitExceededError,
)
from engine.record.attributes import TimestampType
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from tests.builders import LOG_APPEND_TIME, Rec, message, message_set, patched, resealed, wrapper

GZIP, SNAPPY, LZ4 = CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4
NO_TYPE = TimestampType.NO_TIMESTAMP_TYPE
CREATE = TimestampType.CREATE_TIME
THREE = [Rec(b"a", b"k", 10), Rec(b"", None, 20), Rec(None, b"", 30)]

every_wrapper = pytest.mark.parametrize(
    ("magic", "codec"), [(magic, codec) for magic in (0, 1) for codec in (GZIP, SNAPPY, LZ4)]
)


def decoded(data: bytes, budgets: Budgets | None = None) -> tuple[list[Record], Exception | None]:
    """The records, and the error that ended them."""
    found: list[Record] = []
    made = LegacyRecordBatch(data, file_position=4096, path="some.log")
    try:
        for record in made.records(budgets or Budgets()):
            found += [record]
    except KafkaStorageError as error:
        return found, error
    return found, None


def offsets(found: list[Record]) -> list[int]:
    return [record.offset for record in found]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_single_message_is_its_own_record(magic):
    data = message(35, b"key", b"value", magic=magic, timestamp=77)
    made = LegacyRecordBatch(data)
    assert isinstance(made, RecordBatch)
    made.ensure_valid()
    assert (made.base_offset, made.last_offset, made.next_offset) == (35, 35, 36)
    kind = CREATE if magic else NO_TYPE
    assert list(made.records()) == [
        Record(35, 77 if magic else -1, kind, b"key", b"value", size=len(data) - 12)
    ]
    assert "offset 35" in repr(made)


def test_what_these_formats_do_not_know_is_absent():
    made = LegacyRecordBatch(message(0, None, None))
    assert (made.producer_id, made.producer_epoch) == (-1, -1)
    assert (made.base_sequence, made.last_sequence, made.leader_epoch) == (-1, -1, -1)
    assert made.record_count is None
    assert made.delete_horizon_ms is None
    assert not made.is_control
    assert not made.is_transactional


@every_wrapper
def test_a_wrapper_gives_what_it_wraps(magic, codec):
    data = message_set(THREE, 100, codec, magic=magic)
    made = LegacyRecordBatch(data)
    made.ensure_valid()
    found = list(made.records())
    assert found == list(made.records())
    assert (made.base_offset, made.last_offset) == (100, 102)
    assert [(record.offset, record.index) for record in found] == [(100, 0), (101, 1), (102, 2)]
    assert [(record.key, record.value) for record in found] == [
        (b"k", b"a"),
        (None, b""),
        (b"", None),
    ]
    assert [record.timestamp for record in found] == ([10, 20, 30] if magic else [-1, -1, -1])
    assert {record.timestamp_type for record in found} == {CREATE if magic else NO_TYPE}


def test_offsets_in_a_wrapper_of_magic_1_count_back_from_its_own():
    inside = [message(n, None, b"x") for n in (0, 3, 7)]
    assert offsets(decoded(wrapper(inside, 107, GZIP))[0]) == [100, 103, 107]
    absolute = [message(n, None, b"x") for n in (50, 51, 55)]
    assert offsets(decoded(wrapper(absolute, 0, GZIP))[0]) == [50, 51, 55]


def test_offsets_in_a_wrapper_of_magic_0_are_taken_as_they_are():
    inside = [message(n, None, b"x", magic=0) for n in (4, 9)]
    for own in (9, 0, 1000):
        assert offsets(decoded(wrapper(inside, own, GZIP, magic=0))[0]) == [4, 9]


def test_a_wrapper_with_log_append_time_gives_it_to_all():
    data = message_set(THREE, 0, GZIP, timestamp_type=LOG_APPEND_TIME, log_append_time=99)
    found = decoded(data)[0]
    assert {(record.timestamp, record.timestamp_type) for record in found} == {
        (99, LOG_APPEND_TIME)
    }
    inside = [message(0, None, b"x", timestamp=5)]
    (record,) = decoded(wrapper(inside, 0, GZIP, timestamp=99, timestamp_type=LOG_APPEND_TIME))[0]
    assert record.timestamp == 99


def test_a_wrapper_with_create_time_leaves_each_its_own_timestamp_and_hides_its_type():
    inside = [message(0, None, b"x", timestamp=5, attributes=8)]
    (record,) = decoded(wrapper(inside, 0, GZIP, timestamp=99))[0]
    assert (record.timestamp, record.timestamp_type) == (5, CREATE)


@pytest.mark.parametrize(("outer", "inner"), [(0, 1), (1, 0)])
def test_messages_of_the_other_magic_inside_a_wrapper_are_read_as_kafka_does(outer, inner):
    inside = [message(n, b"k", b"v", magic=inner, timestamp=5) for n in (0, 1)]
    found = decoded(wrapper(inside, 11, GZIP, magic=outer))[0]
    assert offsets(found) == ([10, 11] if outer else [0, 1])
    expected = (5, NO_TYPE) if inner else (-1, NO_TYPE)
    assert {(record.timestamp, record.timestamp_type) for record in found} == {expected}


def test_a_message_cut_off_at_the_end_of_a_wrapper_does_not_count():
    inside = message(0, None, b"x") + message(1, None, b"y")
    for cut in (1, 11, 25, 30):
        content = compress(GZIP, inside[:-cut])
        found, error = decoded(message(7, None, content, attributes=1))
        assert error is None
        assert offsets(found) == [7]


def test_what_comes_before_damage_is_given_where_offsets_are_known():
    long = [Rec(b"%d" % n * 400, timestamp=n) for n in range(400)]
    for magic, own, known in ((0, 500, True), (1, 0, True), (1, 500, False)):
        inside = [message(n, None, rec.value, magic=magic) for n, rec in enumerate(long)]
        packed = compress(LZ4, b"".join(inside), magic=magic)
        packed = packed[: len(packed) * 3 // 4]
        found, error = decoded(message(own, None, packed, magic=magic, attributes=3))
        assert isinstance(error, DecompressionError)
        assert (error.path, error.position) == ("some.log", 4096)
        assert bool(found) == known
        assert offsets(found) == list(range(len(found)))


def test_a_codec_that_stops_after_a_message_that_is_no_message_is_what_is_reported():
    inside = (
        message(0, None, b"x", magic=0)
        + struct.pack(">qi", 1, 13)
        + random.Random(1).randbytes(9000)
    )
    found, error = decoded(message(1, None, compress(GZIP, inside)[:-4000], magic=0, attributes=1))
    assert offsets(found) == [0]
    assert isinstance(error, DecompressionError)


def test_damage_before_the_first_message_gives_no_record():
    packed = compress(GZIP, message(0, None, b"x", magic=0))
    found, error = decoded(message(0, None, packed[:14], magic=0, attributes=1))
    assert found == []
    assert isinstance(error, DecompressionError)


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ([], "no messages inside"),
        ([wrapper([message(0, None, b"x")], 0, GZIP)], "compressed itself"),
        ([struct.pack(">qi", 0, 13) + bytes(13)], "too small"),
        ([struct.pack(">qi", 0, -1) + bytes(13)], "too small"),
        ([struct.pack(">qiIb", 0, 14, 0, 1) + bytes(9)], "too small"),
        ([struct.pack(">qiIb", 0, 30, 0, 2) + bytes(25)], "magic of a message is unknown"),
        ([message(5, None, b"x")], "offset of a wrapper"),
    ],
)
def test_a_wrapper_that_breaks_the_format_is_refused(inside, reason):
    found, error = decoded(wrapper(inside, 4, GZIP))
    assert found == []
    assert isinstance(error, InvalidRecordError)
    assert reason in str(error)
    assert error.path == "some.log"


def test_a_size_of_an_inner_message_counts_as_soon_as_it_is_there():
    sound = message(0, None, b"x", magic=0)
    for size, broken in ((3, True), (14, False)):
        cut = struct.pack(">qi", 1, size)
        found, error = decoded(wrapper([sound, cut], 0, GZIP, magic=0))
        assert offsets(found) == [0]
        assert (error is not None) == broken
        assert decoded(wrapper([sound, cut[:-1]], 0, GZIP, magic=0)) == (found, None)


def test_messages_before_a_compressed_one_are_kept():
    inside = [message(0, None, b"x"), message(1, None, b"y", attributes=1), message(2, None, b"z")]
    found, error = decoded(wrapper(inside, 9, GZIP))
    assert offsets(found) == [7]
    assert isinstance(error, InvalidRecordError)
    assert error.index == 1


def test_messages_before_one_that_does_not_frame_up_are_kept_where_offsets_are_known():
    broken = struct.pack(">qi", 0, 3) + bytes(30)
    for magic, own, kept in ((0, 9, [0, 1]), (1, 0, [0, 1]), (1, 9, [])):
        inside = [message(n, None, b"x", magic=magic) for n in (0, 1)]
        found, error = decoded(wrapper([*inside, broken], own, GZIP, magic=magic))
        assert offsets(found) == kept
        assert isinstance(error, InvalidRecordError)
        assert error.index == 2


def test_a_wrapper_cannot_have_zstd_or_a_codec_that_does_not_exist():
    for codec in (4, 5, 7):
        found, error = decoded(message(0, None, b"x", attributes=codec))
        assert found == []
        assert isinstance(error, InvalidRecordError)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_key_or_value_past_the_end_is_refused(magic):
    sound = message(0, b"key", b"value", magic=magic)
    at = 26 if magic else 18
    for place in (at, at + 7):
        for size in (20, 2**31 - 1):
            broken = resealed(patched(sound, place, struct.pack(">i", size)))
            found, error = decoded(broken)
            assert found == []
            assert isinstance(error, InvalidRecordError)
            assert (error.index, error.path, error.position) == (0, "some.log", 4096)
        packed = resealed(patched(broken, 17, b"\x01"))
        assert isinstance(decoded(packed)[1], InvalidRecordError)


def test_a_message_that_ends_inside_its_sizes_is_refused():
    body = message(0, b"key", b"", magic=0)
    cut = resealed(patched(body[:-2], 8, struct.pack(">i", len(body) - 2 - 12)))
    found, error = decoded(cut)
    assert found == []
    assert "ends inside its sizes" in str(error)


def test_lengths_below_minus_one_are_null_as_in_kafka():
    data = bytearray(message(0, None, None, magic=0))
    data[18:26] = struct.pack(">ii", -2, -9)
    (record,) = decoded(resealed(bytes(data)))[0]
    assert (record.key, record.value) == (None, None)


def test_a_message_too_small_for_a_checksum_says_what_it_has():
    made = LegacyRecordBatch(patched(message(0, None, None), 8, struct.pack(">i", 13)))
    with pytest.raises(CorruptRecordError, match="too small") as raised:
        made.ensure_valid()
    assert raised.value.found == 13


def test_bytes_behind_the_value_are_passed_over_as_in_kafka():
    data = message(0, b"k", b"v")
    longer = resealed(patched(data + b"xyz", 8, struct.pack(">i", len(data) + 3 - 12)))
    LegacyRecordBatch(longer).ensure_valid()
    (record,) = decoded(longer)[0]
    assert (record.key, record.value) == (b"k", b"v")


def test_lz4_of_magic_0_may_have_the_old_header_checksum_and_magic_1_may_not():
    content = compress(LZ4, message(0, None, b"x", magic=0), magic=0)
    assert decoded(message(0, None, content, magic=0, attributes=3))[1] is None
    assert isinstance(
        decoded(message(0, None, content, magic=1, attributes=3))[1], DecompressionError
    )


def test_another_magic_is_not_a_message_of_these():
    with pytest.raises(CorruptRecordError, match="magic of a message"):
        LegacyRecordBatch(patched(message(0, None, b""), 16, b"\x02"))


def test_the_limits_hold():
    data = message_set([Rec(bytes(1000)) for _ in range(5)], 0, GZIP)
    for budgets, limit, kept in (
        (Budgets(inflated_bytes=3000), "inflated_bytes", 0),
        (Budgets(batch_bytes=len(data) - 1), "batch_bytes", 0),
        (Budgets(records_per_batch=4), "records_per_batch", 0),
    ):
        found, error = decoded(data, budgets)
        assert len(found) == kept
        assert isinstance(error, LimitExceededError)
        assert (error.limit, error.position) == (limit, 4096)
    assert decoded(data, Budgets(records_per_batch=5))[1] is None
    absolute = message_set([Rec() for _ in range(5)], 0, GZIP, magic=0)
    found, error = decoded(absolute, Budgets(records_per_batch=4))
    assert offsets(found) == [0, 1, 2, 3]
    assert isinstance(error, LimitExceededError)


@given(data=st.data(), magic=st.sampled_from([0, 1]), codec=st.sampled_from([0, 1, 2, 3]))
def test_any_change_to_a_message_gives_records_or_a_known_error(data, magic, codec):
    sound = message_set(THREE, 4, CompressionType(codec), magic=magic)
    broken = bytearray(sound[: struct.unpack_from(">i", sound, 8)[0] + 12])
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(17, len(broken) - 1))] = data.draw(st.integers(0, 255))
    found, error = decoded(resealed(bytes(broken)))
    assert len(found) <= 3
    assert error is None or isinstance(error, KafkaStorageError)


@given(run=st.binary(max_size=120), magic=st.sampled_from([0, 1]))
def test_any_bytes_in_a_wrapper_give_records_or_a_known_error(run, magic):
    content = compress(GZIP, run)
    found, error = decoded(message(0, None, content, magic=magic, attributes=1))
    assert len(found) <= len(run) // 26
    assert error is None or isinstance(error, KafkaStorageError)
