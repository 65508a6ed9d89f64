"""Batches of magic 2: round trips, what compaction leaves, damage and limits."""

import struct
import sys

import pytest
from hypothesis import given, strategies as st

from engine.budgets import Budgets
from engine.coding import codec_libraries
from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint
from engine.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    KafkaStorageError,
    LimitExceededError,
    UnsupportedCodecError,
)
from engine.record.attributes import TimestampType
from engine.record.batch_frame import HEADER
from engine.record.default_records import (
    DefaultRecordBatch,
    decrement_sequence,
    increment_sequence,
)
from engine.record.record import Header, Record
from engine.record.record_batch import RecordBatch
from tests.builders import (
    CODECS,
    Producer,
    Rec,
    batch,
    empty_batch,
    patched,
    record_body,
    records_section,
    resealed,
    sized,
    values,
)

MAX_INT, MIN_INT = 2**31 - 1, -(2**31)
MAX_LONG, MIN_LONG = 2**63 - 1, -(2**63)
THREE = values("a", "b", "c")

payloads = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.binary(max_size=9), payloads), max_size=3)
records = st.lists(
    st.builds(
        Rec,
        value=payloads,
        key=payloads,
        timestamp=st.integers(0, 2**42),
        headers=headers,
        offset=st.none(),
    ),
    min_size=1,
    max_size=8,
)


def decoded(data: bytes, budgets: Budgets | None = None) -> tuple[list[Record], Exception | None]:
    """The records, and the error that ended them."""
    found: list[Record] = []
    made = DefaultRecordBatch(data, file_position=4096, path="some.log")
    try:
        for record in made.records(budgets or Budgets()):
            found += [record]
    except KafkaStorageError as error:
        return found, error
    return found, None


def offsets(found: list[Record]) -> list[int]:
    return [record.offset for record in found]


@given(records=records, codec=st.sampled_from(CODECS), base=st.integers(0, 2**40))
def test_what_was_written_is_read(records, codec, base):
    made = DefaultRecordBatch(batch(records, base, codec, leader_epoch=9))
    assert isinstance(made, RecordBatch)
    made.ensure_valid()
    found = list(made.records())
    assert found == list(made.records())
    assert [
        (
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((header.key, header.value) for header in record.headers),
            record.leader_epoch,
            record.index,
        )
        for record in found
    ] == [
        (
            base + place,
            record.timestamp,
            record.key,
            record.value,
            tuple(record.headers),
            9,
            place,
        )
        for place, record in enumerate(records)
    ]


def test_null_empty_and_missing_stay_three_things():
    (record,) = decoded(batch([Rec(b"", None, 1, ((b"", b""), (b"", None)))]))[0]
    assert (record.key, record.value) == (None, b"")
    assert record.headers == (Header(b"", b""), Header(b"", None))


def test_holes_that_compaction_left_keep_their_offsets():
    kept = [Rec(b"x", offset=12), Rec(b"y", offset=17)]
    data = batch(kept, 10, last_offset_delta=9)
    made = DefaultRecordBatch(data)
    assert (made.base_offset, made.last_offset, made.next_offset) == (10, 19, 20)
    assert offsets(list(made.records())) == [12, 17]


def test_an_empty_batch_that_compaction_kept_has_a_range_and_no_records():
    made = DefaultRecordBatch(empty_batch(10, 19, producer=Producer(id=4, epoch=2, sequence=6)))
    made.ensure_valid()
    assert list(made.records()) == []
    assert (made.last_offset, made.record_count, made.last_sequence) == (19, 0, 15)


def test_a_delete_horizon_stands_in_for_the_base_timestamp():
    made = DefaultRecordBatch(batch(THREE, delete_horizon=1_800_000_000_000))
    assert made.delete_horizon_ms == made.base_timestamp == 1_800_000_000_000
    assert [record.timestamp for record in made.records()] == [r.timestamp for r in THREE]
    assert DefaultRecordBatch(batch(THREE)).delete_horizon_ms is None


def test_under_log_append_time_every_record_has_the_batchs_largest_timestamp():
    data = batch(THREE, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=42)
    found = decoded(data)[0]
    assert {record.timestamp for record in found} == {42}
    assert {record.timestamp_type for record in found} == {TimestampType.LOG_APPEND_TIME}


def test_timestamps_and_offsets_wrap_as_in_java():
    body = sized(record_body(1, MAX_LONG, None, b""))
    data = batch([Rec()], MAX_LONG, section=body, base_timestamp=5, last_offset_delta=1)
    (record,), error = decoded(data)
    assert error is None
    assert record.timestamp == MIN_LONG + 4
    assert record.offset == MIN_LONG


@pytest.mark.parametrize(
    ("base", "by", "expected"),
    [
        (0, 0, 0),
        (MAX_INT, 1, 0),
        (MAX_INT, MAX_INT, MAX_INT - 1),
        (5, -1, -(2**31) + 4),
        (0, -1, MAX_INT),
        (0, MIN_INT, 0),
        (MAX_INT, MIN_INT, MAX_INT),
    ],
)
def test_sequences_wrap_as_in_java(base, by, expected):
    assert increment_sequence(base, by) == expected


@pytest.mark.parametrize(
    ("base", "by", "expected"),
    [(5, 5, 0), (6, 5, 1), (0, 1, MAX_INT), (5, 7, MAX_INT - 1), (MAX_INT, MAX_INT, 0)],
)
def test_sequences_wrap_back_below_0(base, by, expected):
    assert decrement_sequence(base, by) == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [(-1, [-1, -1, -1]), (0, [0, 1, 2]), (1, [1, 2, 3]), (MAX_INT, [MAX_INT, 0, 1])],
)
def test_records_have_sequences_if_their_batch_has_one(base, expected):
    producer = Producer(id=1, epoch=0, sequence=base)
    assert [record.sequence for record in decoded(batch(THREE, producer=producer))[0]] == expected


def test_a_batch_may_lie_anywhere_in_a_larger_buffer():
    data = batch(THREE, 7)
    made = DefaultRecordBatch(b"before" + data + b"behind", 6, 4096, "some.log")
    assert bytes(made.raw) == data
    made.ensure_valid()
    assert offsets(list(made.records())) == [7, 8, 9]
    assert "offsets 7 to 9" in repr(made)


def test_a_wrong_checksum_is_reported_with_both_values_and_the_place():
    made = DefaultRecordBatch(batch(THREE, crc=1), 0, 4096, "some.log")
    with pytest.raises(CorruptRecordError) as raised:
        made.ensure_valid()
    error = raised.value
    assert (error.path, error.position) == ("some.log", 4096)
    assert (error.expected, error.found) == (1, made.computed_crc)


def test_base_offset_leader_epoch_and_magic_are_not_covered_by_the_checksum():
    data = batch(THREE)
    for place in (*range(8), *range(12, 17)):
        DefaultRecordBatch(patched(data, place, b"\x05")).ensure_valid()


@pytest.mark.parametrize("codec", CODECS)
def test_records_before_a_damage_are_kept(codec):
    broken = sized(record_body(2, 0, None, b"c"))[:-1] + b"\x7f"
    section = records_section(THREE[:2], 0, THREE[0].timestamp) + broken
    data = batch(THREE, codec=codec, section=compress(codec, section))
    found, error = decoded(data)
    assert [record.value for record in found] == [b"a", b"b"]
    assert isinstance(error, InvalidRecordError)
    assert (error.index, error.path, error.position) == (2, "some.log", 4096)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_before_the_end_of_cut_data_are_kept(codec):
    long = [Rec(b"%d" % n * 400, timestamp=n) for n in range(400)]
    packed = compress(codec, records_section(long, 0, 0))
    data = batch(long, codec=codec, section=packed[: len(packed) * 3 // 4])
    found, error = decoded(data)
    assert isinstance(error, DecompressionError)
    assert (error.path, error.position) == ("some.log", 4096)
    assert [record.value for record in found] == [rec.value for rec in long[: len(found)]]
    assert found or codec is CompressionType.ZSTD


def test_data_cut_behind_the_last_record_gives_all_records_and_the_damage():
    packed = compress(CompressionType.LZ4, records_section(THREE, 0, THREE[0].timestamp))
    found, error = decoded(batch(THREE, codec=CompressionType.LZ4, section=packed[:-4]))
    assert len(found) == 3
    assert isinstance(error, DecompressionError)


def test_bytes_left_after_the_last_record_are_reported_after_it():
    section = records_section(THREE, 0, THREE[0].timestamp)
    found, error = decoded(batch(THREE, section=section + b"\x00"))
    assert len(found) == 3
    assert "bytes follow the last record" in str(error)


def test_a_count_of_nothing_needs_no_bytes_and_looks_at_none():
    assert decoded(batch([], section=b"payload")) == ([], None)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ({"record_count": -1}, "record count"),
        ({"record_count": -2}, "record count"),
        ({"last_offset_delta": -1}, "last offset delta"),
        ({"last_offset_delta": MIN_INT, "record_count": 0}, "last offset delta"),
    ],
)
def test_negative_counts_and_deltas_are_refused(field, name):
    found, error = decoded(batch(THREE, **field))
    assert found == []
    assert isinstance(error, InvalidRecordError)
    assert f"the {name} is negative" in str(error)


@pytest.mark.parametrize("codec", CODECS)
def test_a_count_of_two_thousand_million_costs_nothing(codec):
    found, error = decoded(batch(THREE, codec=codec, record_count=MAX_INT))
    assert len(found) == 3
    assert isinstance(error, InvalidRecordError)
    assert "fewer records than it states" in str(error)
    assert error.index == 3


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_named_and_the_header_still_read(codec_id):
    data = batch(THREE, attributes=codec_id)
    made = DefaultRecordBatch(data)
    assert (made.codec_id, made.is_compressed, made.record_count) == (codec_id, True, 3)
    found, error = decoded(data)
    assert found == []
    assert isinstance(error, InvalidRecordError)
    assert error.found == codec_id


def test_attribute_bits_that_mean_nothing_change_nothing():
    plain, strange = (decoded(batch(THREE, attributes=bits)) for bits in (0, 0x7F80))
    assert plain == strange
    assert len(plain[0]) == 3


def test_a_codec_that_is_not_installed_is_named(monkeypatch):
    data = batch(THREE, codec=CompressionType.ZSTD)
    monkeypatch.delattr(codec_libraries, "cramjam", raising=False)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert isinstance(decoded(data)[1], UnsupportedCodecError)


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (b"\xff\xff\xff\xff\xff\x01", "structure is broken"),
        (encode_varint(-1) + bytes(8), "does not fit"),
        (encode_varint(2**30) + bytes(8), "does not fit"),
        (encode_varint(7) + record_body(0, 0, None, b""), "does not fit"),
        (sized(b""), "structure is broken"),
        (sized(bytes(5)), "structure is broken"),
        (sized(record_body(0, 0, None, b"") + b"\x00"), "longer than its fields"),
        (sized(record_body(0, 0, None, b""))[:-1] + b"\x02", "number of headers"),
        (sized(record_body(0, 0, None, b""))[:-1] + encode_varint(-1), "number of headers"),
        (sized(record_body(0, 0, None, b"", ((b"k", b"v"),)) + b"\x00"), "where it does"),
    ],
)
def test_a_record_that_breaks_the_format_is_refused(section, reason):
    found, error = decoded(batch([Rec()], section=section))
    assert found == []
    assert isinstance(error, InvalidRecordError)
    assert reason in str(error)


def test_a_record_longer_than_its_fields_is_reported_with_both_sizes():
    second = sized(record_body(1, 0, None, b"") + b"\x00")
    error = decoded(batch(THREE[:2], section=sized(record_body(0, 0, None, b"")) + second))[1]
    assert isinstance(error, InvalidRecordError)
    assert (error.index, error.expected, error.found) == (1, 7, 6)


def test_fields_that_reach_into_the_next_record_are_refused():
    first, second = sized(record_body(0, 0, None, b"xy")), sized(record_body(1, 0, None, b"z"))
    longer = bytearray(first)
    longer[first.index(b"xy") - 1] = encode_varint(5)[0]
    found, error = decoded(batch(THREE[:2], section=bytes(longer) + second))
    assert found == []
    assert "longer than the record" in str(error)


def test_key_and_value_lengths_below_minus_one_are_null_as_in_kafka():
    body = b"\x00\x00\x00" + encode_varint(-5) + encode_varint(-7) + b"\x00"
    data = batch([Rec()], section=sized(body))
    (record,), error = decoded(data)
    assert error is None
    assert (record.key, record.value) == (None, None)
    (partial,) = DefaultRecordBatch(data).records_without_values()
    assert (partial.key_size, partial.value_size) == (-1, -1)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_a_header_key_must_be_there_and_a_header_value_need_not(codec):
    null_key = record_body(0, 0, None, b"")[:-1] + encode_varint(1) + encode_varint(-1) + b"\x01"
    section = compress(codec, sized(null_key))
    found, error = decoded(batch([Rec()], codec=codec, section=section))
    assert found == []
    assert "header is null" in str(error)


def test_the_limits_on_records_and_headers_hold():
    found, error = decoded(batch(THREE), Budgets(records_per_batch=2))
    assert len(found) == 2
    assert isinstance(error, LimitExceededError)
    assert error.limit == "records_per_batch"
    assert error.position == 4096
    many = Rec(b"", None, 1, ((b"k", b"v"),) * 11)
    found, error = decoded(batch([Rec(), many]), Budgets(headers_per_record=10))
    assert len(found) == 1
    assert isinstance(error, LimitExceededError)
    assert error.limit == "headers_per_record"
    assert decoded(batch([many]), Budgets(headers_per_record=11))[1] is None


def test_the_limits_on_bytes_hold():
    data = batch([Rec(bytes(10_000))], codec=CompressionType.GZIP)
    for budgets, limit in (
        (Budgets(inflated_bytes=5_000), "inflated_bytes"),
        (Budgets(batch_bytes=len(data) - 1), "batch_bytes"),
    ):
        found, error = decoded(data, budgets)
        assert found == []
        assert isinstance(error, LimitExceededError)
        assert (error.limit, error.path, error.position) == (limit, "some.log", 4096)
    assert decoded(data, Budgets(batch_bytes=len(data)))[1] is None


def test_a_small_batch_may_hold_a_great_many_records():
    many = [Rec(None, timestamp=1) for _ in range(1000)]
    data = batch(many, codec=CompressionType.ZSTD)
    assert len(data) < 1500
    assert len(decoded(data)[0]) == 1000


def test_records_without_values_agree_with_records():
    recs = [Rec(b"v" * n, b"k" * n, n, ((b"h", None),) * (n % 3)) for n in range(20)]
    made = DefaultRecordBatch(batch(recs, 5, producer=Producer(id=1, epoch=0, sequence=3)))
    for partial, record in zip(made.records_without_values(), made.records(), strict=True):
        assert partial[:3] == (record.offset, record.timestamp, record.sequence)
        assert partial.key_size == len(record.key or b"")
        assert partial.value_size == len(record.value or b"")
        assert partial.size == record.size


@given(data=st.data(), codec=st.sampled_from(CODECS))
def test_any_change_to_a_batch_gives_records_or_a_known_error(data, codec):
    sound = batch([Rec(b"value", b"key", 1, ((b"h", b"v"),)), Rec(None, None, 2)], codec=codec)
    broken = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(16, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken[16] = 2
    found, error = decoded(resealed(bytes(broken)))
    assert len(found) <= 3
    assert error is None or isinstance(error, KafkaStorageError)


@given(section=st.binary(max_size=80), count=st.integers(0, MAX_INT))
def test_any_section_gives_records_or_a_known_error(section, count):
    found, error = decoded(batch([Rec()], section=section, record_count=count))
    assert len(found) <= len(section) // 7
    assert error is None or isinstance(error, InvalidRecordError)


@pytest.mark.parametrize("length", [-12, -13, -14, MIN_INT])
def test_a_batch_of_no_size_has_no_bytes(length):
    made = DefaultRecordBatch(patched(batch(THREE), 8, struct.pack(">i", length)))
    assert bytes(made.raw) == b""


def test_the_bytes_of_a_batch_are_loaded_once_even_if_some_are_missing():
    data = batch(THREE)
    loads = iter([data[:-1]])
    made = DefaultRecordBatch(data[: HEADER.size], load=lambda: next(loads))
    assert bytes(made.raw) == bytes(made.raw) == data[:-1]


def test_a_header_that_ends_early_cannot_be_read():
    with pytest.raises(struct.error):
        DefaultRecordBatch(batch(THREE)[: HEADER.size - 1])
