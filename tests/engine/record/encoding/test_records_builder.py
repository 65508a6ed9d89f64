import pytest

from engine.coding.compression import CompressionType
from engine.errors import StateError
from engine.record.attributes import TimestampType
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    describe_control,
)
from engine.record.encoding.building import (
    end_transaction_marker,
    quorum_batch,
    records_of,
)
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Header
from tests.builders import CODECS, LOG_APPEND_TIME, Producer, Rec, batch, end_marker, message_set
from tests.conformance.batch_iteration import FORMATS

RECORDS = [
    Rec(b"v%d" % i * i, None if i % 3 == 0 else b"k", 1000 + 77 * i - 500 * (i % 2))
    for i in range(40)
]
WITH_HEADERS = [
    record._replace(headers=[(b"h", None), (b"", b"x" * 70)] if i % 4 == 1 else ())
    for i, record in enumerate(RECORDS)
]


def simple(records: list[Rec]) -> list[SimpleRecord]:
    return [SimpleRecord(one.key, one.value, one.timestamp, headers_of(one)) for one in records]


def headers_of(record: Rec) -> list[Header]:
    return [Header(key, value) for key, value in record.headers]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_those_of_a_packer_that_knows_only_the_format(codec):
    how = {"base_offset": 5, "compression": codec, "partition_leader_epoch": 0}
    made = records_of(*simple(WITH_HEADERS), **how)
    assert made.buffer == batch(WITH_HEADERS, 5, codec)
    made = records_of(
        *simple(WITH_HEADERS), timestamp_type=LOG_APPEND_TIME, log_append_time=99, **how
    )
    wanted = batch(WITH_HEADERS, 5, codec, timestamp_type=LOG_APPEND_TIME, log_append_time=99)
    assert made.buffer == wanted


@pytest.mark.parametrize("kind", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
@pytest.mark.parametrize(("magic", "codec"), [one for one in FORMATS if one[0] < 2])
def test_message_sets_are_those_of_a_packer_that_knows_only_the_format(magic, codec, kind):
    how = {"magic": magic, "timestamp_type": kind, "log_append_time": 99}
    made = records_of(*simple(RECORDS), base_offset=5, compression=codec, **how)
    assert made.buffer == message_set(RECORDS, 5, codec, **how)


def test_producers_and_markers_are_in_the_header():
    producer = Producer(id=9, epoch=3, sequence=7)
    who = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 7, "partition_leader_epoch": 2}
    made = records_of(*simple(RECORDS), **who)
    assert made.buffer == batch(RECORDS, producer=producer, leader_epoch=2)
    made = records_of(*simple(RECORDS), base_offset=4, is_transactional=True, **who)
    assert made.buffer == batch(RECORDS, 4, producer=producer, leader_epoch=2, transactional=True)
    marker = EndTransactionMarker(ControlRecordType.ABORT, 8)
    made = end_transaction_marker(
        marker,
        producer_id=9,
        producer_epoch=3,
        timestamp=55,
        base_offset=11,
        partition_leader_epoch=2,
    )
    wanted = end_marker(
        11, producer, commit=False, coordinator_epoch=8, leader_epoch=2, timestamp=55
    )
    assert made.buffer == wanted


def test_no_records_make_no_batch():
    assert records_of().size == 0
    assert records_of(timestamp_type=TimestampType.LOG_APPEND_TIME).size == 0


def test_append_time_is_now_when_it_is_not_said():
    (found,) = records_of(SimpleRecord(), timestamp_type=LOG_APPEND_TIME).records()
    assert found.timestamp > 1_700_000_000_000


def test_what_is_built_may_be_written_to():
    assert not records_of(SimpleRecord()).buffer.readonly
    assert not records_of(SimpleRecord(), magic=1).buffer.readonly


@pytest.mark.parametrize(
    ("refused", "what"),
    [
        ((4, 0, None, None), "offset 4 is not above"),
        ((3 + 2**31, 0, None, None), "too far from the batch's base"),
        ((9, -2, None, None), "timestamp -2"),
        ((9, 0, None, None, [Header(None, b"")]), "header is null"),
    ],
)
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_a_refused_record_leaves_no_trace(refused, what, codec):
    builder = RecordsBuilder(base_offset=3, compression=codec)
    builder.append_with_offset(4, 10, b"k", b"v")
    before = (builder.estimated_size, builder.record_count, builder.info, builder.next_offset)
    with pytest.raises(ValueError, match=what):
        builder.append_with_offset(*refused)
    assert before == (
        builder.estimated_size,
        builder.record_count,
        builder.info,
        builder.next_offset,
    )
    builder.append(11, b"k", b"w")
    assert [record.offset for record in builder.build().records()] == [4, 5]


def test_headers_are_refused_before_magic_2():
    builder = RecordsBuilder(magic=1)
    with pytest.raises(ValueError, match="magic 1 have no headers"):
        builder.append(0, None, None, [Header(b"", None)])


def test_a_record_of_a_first_refused_append_does_not_set_the_base_timestamp():
    builder = RecordsBuilder()
    with pytest.raises(ValueError, match="too far"):
        builder.append_with_offset(2**31, 5, None, None)
    builder.append(70, None, None)
    (found,) = builder.build().batches()
    assert found.base_timestamp == 70


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"magic": 3}, "magic 3"),
        ({"magic": -1}, "magic -1"),
        ({"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "timestamp type"),
        ({"magic": 1, "delete_horizon_ms": 5}, "magic 1 have no delete horizon"),
        ({"magic": 0, "is_control_batch": True}, "magic 0 have no control records"),
        ({"compression": CompressionType.SNAPPY, "level": 1}, "snappy has no levels"),
        ({"compression": CompressionType.GZIP, "level": 10}, "gzip has levels 1 to 9, not 10"),
    ],
)
def test_what_a_magic_or_codec_cannot_hold_is_refused(how, what):
    with pytest.raises(ValueError, match=what):
        RecordsBuilder(**how)


def test_a_producers_state_is_set_until_the_batch_is_closed_and_changed_by_reopening():
    builder = RecordsBuilder()
    builder.append(1, None, b"v")
    builder.set_producer_state(9, 3, 7, is_transactional=True)
    (found,) = builder.build().batches()
    assert (found.producer_id, found.base_sequence, found.is_transactional) == (9, 7, True)
    with pytest.raises(StateError, match="closed batch"):
        builder.set_producer_state(9, 3, 8, is_transactional=True)
    with pytest.raises(StateError, match="closed batch"):
        builder.override_last_offset(5)
    builder.reopen_and_rewrite_producer_state(10, 4, 8, is_transactional=False)
    assert not builder.is_closed
    with pytest.raises(StateError, match="takes no more"):
        builder.append(2, None, b"w")
    (found,) = builder.build().batches()
    found.ensure_valid()
    assert (found.producer_id, found.base_sequence, found.is_transactional) == (10, 8, False)
    builder.abort()
    with pytest.raises(StateError, match="aborted"):
        builder.reopen_and_rewrite_producer_state(10, 4, 8, is_transactional=False)


def test_producers_are_refused_before_magic_2():
    builder = RecordsBuilder(magic=1, producer_id=9, producer_epoch=3, base_sequence=7)
    builder.append(1, None, b"v")
    with pytest.raises(ValueError, match="magic 1 have no producers"):
        builder.build()


def test_a_builder_closes_itself_unless_something_went_wrong():
    with RecordsBuilder() as builder:
        builder.append(1, None, b"v")
    assert builder.is_closed
    with pytest.raises(KeyError), RecordsBuilder() as builder:  # noqa: PT012
        builder.append(1, None, b"v")
        raise KeyError
    assert not builder.is_closed
    with RecordsBuilder() as builder:
        builder.abort()
    assert not builder.is_closed


def test_a_closed_batch_is_full_and_has_its_size():
    builder = RecordsBuilder(compression=CompressionType.GZIP, write_limit=1000, initial=b"before")
    builder.append(1, None, bytes(500))
    assert builder.uncompressed_bytes_written == 61 + 509
    builder.close_for_appends()
    assert builder.is_full
    built = builder.build()
    assert builder.estimated_size == built.size < 200
    assert builder.compression_ratio == pytest.approx((built.size - 61) / 509)
    assert builder.buffer == b"before" + bytes(built.buffer)


def test_estimates_of_compressed_bytes_go_by_the_ratio():
    builder = RecordsBuilder(compression=CompressionType.GZIP)
    builder.append(1, None, bytes(500))
    builder.estimated_compression_ratio = 0.5
    assert builder.estimated_size == 61 + int(509 * 0.5 * 1.05)


def test_records_that_were_read_keep_their_offsets():
    builder = RecordsBuilder()
    builder.append_with_offset(4, 10, b"k", b"v", [Header(b"h", b"")])
    builder.append_with_offset(9, 11, None, b"w")
    built = builder.build()
    again = RecordsBuilder()
    for record in built.records():
        again.append_record(record)
    assert again.build().buffer == built.buffer


def test_unchecked_appends_make_what_only_a_broken_writer_makes():
    builder = RecordsBuilder()
    for offset in (3, 3, 1):
        builder.append_unchecked_with_offset(offset, SimpleRecord(None, b"v", 5))
    assert [record.offset for record in builder.build().records()] == [3, 3, 1]
    builder = RecordsBuilder(magic=1, compression=CompressionType.GZIP)
    builder.append_unchecked_with_offset(0, SimpleRecord(None, b"v", 5), magic=0)
    (found,) = builder.build().batches()
    assert (found.magic, [record.timestamp for record in found.records()]) == (1, [-1])


VOTERS = {
    "version": 0,
    "voters": [
        {
            "voterId": 1,
            "voterDirectoryId": "MkU3OEVBNTcwNTJENDM2Qg",
            "endpoints": [{"name": "PLAIN", "host": "h", "port": 65535}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ],
}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("SNAPSHOT_HEADER", {"version": 0, "lastContainedLogTimestamp": 77}),
        ("SNAPSHOT_FOOTER", {"version": 0}),
        ("KRAFT_VERSION", {"version": 0, "kRaftVersion": 1}),
        ("KRAFT_VOTERS", VOTERS),
    ],
)
def test_records_of_a_quorum_read_as_they_were_written(kind, fields):
    made = quorum_batch(
        ControlRecordType[kind], fields, base_offset=5, timestamp=10, leader_epoch=3
    )
    (found,) = made.batches()
    found.ensure_valid()
    assert (found.is_control, found.leader_epoch, found.base_offset) == (True, 3, 5)
    (record,) = found.records()
    assert describe_control(record) == {"type": kind} | fields
