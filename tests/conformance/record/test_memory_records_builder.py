"""What Kafka's MemoryRecordsBuilderTest asks of writing.

What a builder's buffer holds before is `initial`; Kafka's buffers have a position instead, and a capacity,
which is the write limit.
"""

import pytest

from engine.coding.compression import CompressionType
from engine.errors import StateError
from engine.record.attributes import TimestampType
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    quorum_record_of,
)
from engine.record.encoding.batch_encoding import message_overhead, message_size
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from tests.conformance.batch_iteration import FORMATS

NONE = CompressionType.NONE
NOW = 1_700_000_000_000
every_format = pytest.mark.parametrize(
    ("magic", "codec", "before"),
    [(magic, codec, before) for before in (0, 15) for magic, codec in FORMATS],
)


class Args:
    """How builders of a test are made."""

    def __init__(self, magic: int, codec: CompressionType, before: int) -> None:
        self.magic = magic
        self.codec = codec
        self.before = bytes(before)

    def builder(self, *, write_limit: int = 128, **how) -> RecordsBuilder:
        how = {"log_append_time": 0} | how
        return RecordsBuilder(
            magic=self.magic,
            compression=self.codec,
            write_limit=write_limit,
            initial=self.before,
            **how,
        )

    def refused_before_2(self, **how) -> RecordsBuilder | None:
        """A builder, or none and an assertion that there cannot be one."""
        if self.magic == 2:
            return self.builder(**how)
        with pytest.raises(ValueError, match=f"magic {self.magic}"):
            self.builder(**how)
        return None


@pytest.fixture
def args(magic, codec, before):
    return Args(magic, codec, before)


@pytest.mark.conformance("MemoryRecordsBuilderTest.testUnsupportedCompress")
@pytest.mark.parametrize("magic", [0, 1])
def test_unsupported_compress(magic):
    with pytest.raises(ValueError, match=f"magic {magic} have no zstd"):
        RecordsBuilder(magic=magic, compression=CompressionType.ZSTD, log_append_time=0)


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteEmptyRecordSet")
@every_format
def test_write_empty_record_set(args):
    builder = args.builder()
    assert builder.build().size == 0
    assert builder.buffer == args.before


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteTransactionalRecordSet")
@every_format
def test_write_transactional_record_set(args):
    builder = args.refused_before_2(
        producer_id=9809, producer_epoch=15, base_sequence=2342, is_transactional=True
    )
    if builder is None:
        return
    builder.append(NOW, b"foo", b"bar")
    (batch,) = builder.build().batches()
    assert batch.is_transactional


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteTransactionalWithInvalidPID")
@every_format
def test_write_transactional_with_invalid_pid(args):
    builder = args.refused_before_2(
        producer_id=-1, producer_epoch=15, base_sequence=2342, is_transactional=True
    )
    if builder is not None:
        with pytest.raises(ValueError, match="producer id"):
            builder.close()


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteIdempotentWithInvalidEpoch")
@every_format
def test_write_idempotent_with_invalid_epoch(args):
    builder = args.refused_before_2(
        producer_id=9809, producer_epoch=-1, base_sequence=2342, is_transactional=True
    )
    if builder is not None:
        with pytest.raises(ValueError, match="epoch"):
            builder.close()


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteIdempotentWithInvalidBaseSequence")
@every_format
def test_write_idempotent_with_invalid_base_sequence(args):
    builder = args.refused_before_2(
        producer_id=9809, producer_epoch=15, base_sequence=-1, is_transactional=True
    )
    if builder is not None:
        with pytest.raises(ValueError, match="base sequence -1"):
            builder.close()


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteEndTxnMarkerNonTransactionalBatch")
@every_format
def test_write_end_txn_marker_non_transactional_batch(args):
    builder = args.refused_before_2(producer_id=9809, producer_epoch=15, is_control_batch=True)
    if builder is not None:
        with pytest.raises(ValueError, match="transactional batch"):
            builder.append_end_transaction_marker(
                -1, EndTransactionMarker(ControlRecordType.ABORT, 0)
            )


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteEndTxnMarkerNonControlBatch")
@every_format
def test_write_end_txn_marker_non_control_batch(args):
    builder = args.refused_before_2(producer_id=9809, producer_epoch=15, is_transactional=True)
    if builder is not None:
        with pytest.raises(ValueError, match="control records"):
            builder.append_end_transaction_marker(
                -1, EndTransactionMarker(ControlRecordType.ABORT, 0)
            )


@pytest.mark.conformance(
    "MemoryRecordsBuilderTest.testWriteLeaderChangeControlBatchWithoutLeaderEpoch"
)
@every_format
def test_write_leader_change_control_batch_without_leader_epoch(args):
    builder = args.refused_before_2(is_control_batch=True)
    if builder is not None:
        with pytest.raises(ValueError, match="leader's epoch"):
            builder.append_quorum_record(
                -1, ControlRecordType.LEADER_CHANGE, {"leaderId": 1, "voters": []}
            )


@pytest.mark.conformance("MemoryRecordsBuilderTest.testWriteLeaderChangeControlBatch")
@every_format
def test_write_leader_change_control_batch(args):
    builder = args.refused_before_2(is_control_batch=True, partition_leader_epoch=5)
    if builder is None:
        return
    builder.append_quorum_record(
        -1,
        ControlRecordType.LEADER_CHANGE,
        {"leaderId": 1, "voters": [{"voterId": voter} for voter in (2, 3)]},
    )
    (record,) = builder.build().records()
    found = quorum_record_of(ControlRecordType.LEADER_CHANGE, record)
    assert found["leaderId"] == 1
    assert [voter["voterId"] for voter in found["voters"]] == [2, 3]


@pytest.mark.conformance("MemoryRecordsBuilderTest.testLegacyCompressionRate")
@every_format
def test_legacy_compression_rate(args):
    records = [
        SimpleRecord(b"a", b"1", 0),
        SimpleRecord(b"b", b"2", 1),
        SimpleRecord(b"c", b"3", 2),
    ]
    if args.magic == 2:
        with pytest.raises(ValueError, match="magic 2"):
            message_size(2, b"a", b"1")
        return
    builder = args.builder(write_limit=1024)
    uncompressed = 0
    for record in records:
        uncompressed += message_size(args.magic, record.key, record.value) + 12
        builder.append_record(record)
    built = builder.build()
    if args.codec is NONE:
        assert builder.compression_ratio == 1.0
    else:
        compressed = built.size - 12 - message_overhead(args.magic)
        assert builder.compression_ratio == pytest.approx(compressed / uncompressed, abs=0.00001)


@pytest.mark.conformance("MemoryRecordsBuilderTest.testEstimatedSizeInBytes")
@every_format
def test_estimated_size_in_bytes(args):
    builder = args.builder(write_limit=1024)
    previous = 0
    for number in range(10):
        builder.append_record(SimpleRecord(None, b"%d" % number, number))
        assert builder.estimated_size > previous
        previous = builder.estimated_size
    records = builder.build()
    assert builder.estimated_size == records.size
    if args.codec is NONE:
        assert previous == records.size


@pytest.mark.conformance("MemoryRecordsBuilderTest.buildUsingLogAppendTime")
@every_format
def test_build_using_log_append_time(args):
    builder = args.builder(
        write_limit=1024, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW
    )
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3")):
        builder.append(0, key, value)
    records = builder.build()
    assert builder.info.max_timestamp == NOW
    is_many = args.codec is NONE and args.magic < 2
    assert builder.info.offset_of_max_timestamp == (0 if is_many else 2)
    for batch in records.batches():
        if args.magic == 0:
            assert batch.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
        else:
            assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
            assert {record.timestamp for record in batch.records()} == {NOW}


@pytest.mark.conformance("MemoryRecordsBuilderTest.buildUsingCreateTime")
@every_format
def test_build_using_create_time(args):
    builder = args.builder(write_limit=1024, log_append_time=NOW)
    builder.append(0, b"a", b"1")
    builder.append(2, b"b", b"2")
    builder.append(1, b"c", b"3")
    records = builder.build()
    if args.magic == 0:
        assert builder.info == (-1, -1)
    else:
        is_many = args.codec is NONE and args.magic < 2
        assert builder.info == (2, 1 if is_many else 2)
    for batch in records.batches():
        wanted = TimestampType.CREATE_TIME if args.magic else TimestampType.NO_TIMESTAMP_TYPE
        assert batch.timestamp_type is wanted
    if args.magic:
        assert [record.timestamp for record in records.records()] == [0, 2, 1]


@pytest.mark.conformance("MemoryRecordsBuilderTest.testAppendedChecksumConsistency")
@every_format
def test_appended_checksum_consistency(args):
    builder = args.builder(write_limit=512, log_append_time=-1)
    builder.append(1, b"key", b"value")
    records = builder.build()
    assert len(list(records.records())) == 1
    for batch in records.batches():
        batch.ensure_valid()


@pytest.mark.conformance("MemoryRecordsBuilderTest.testSmallWriteLimit")
@every_format
def test_small_write_limit(args):
    builder = args.builder(write_limit=0, log_append_time=-1)
    assert not builder.is_full
    assert builder.has_room_for(0, b"foo", b"bar")
    builder.append(0, b"foo", b"bar")
    assert builder.is_full
    assert not builder.has_room_for(0, b"foo", b"bar")
    (record,) = builder.build().records()
    assert (record.key, record.value) == (b"foo", b"bar")


@pytest.mark.conformance("MemoryRecordsBuilderTest.writePastLimit")
@every_format
def test_write_past_limit(args):
    builder = args.builder(write_limit=64, log_append_time=NOW)
    builder.estimated_compression_ratio = 0.5
    builder.append(0, b"a", b"1")
    builder.append(1, b"b", b"2")
    assert not builder.has_room_for(2, b"c", b"3")
    builder.append(2, b"c", b"3")
    records = builder.build()
    assert builder.info == ((-1, -1) if args.magic == 0 else (2, 2))
    for batch in records.batches():
        wanted = TimestampType.CREATE_TIME if args.magic else TimestampType.NO_TIMESTAMP_TYPE
        assert batch.timestamp_type is wanted
    if args.magic:
        assert [record.timestamp for record in records.records()] == [0, 1, 2]


@pytest.mark.conformance("MemoryRecordsBuilderTest.testAppendAtInvalidOffset")
@every_format
def test_append_at_invalid_offset(args):
    builder = args.builder(write_limit=1024, log_append_time=NOW)
    builder.append_with_offset(0, NOW, b"a", None)
    with pytest.raises(ValueError, match="offset 0 is not above the last one, 0"):
        builder.append_with_offset(0, NOW, b"b", None)
    assert [record.key for record in builder.build().records()] == [b"a"]


@pytest.mark.conformance(
    "MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnBuildWhenAborted"
)
@every_format
def test_should_throw_illegal_state_exception_on_build_when_aborted(args):
    builder = args.builder()
    builder.abort()
    with pytest.raises(StateError):
        builder.build()


@pytest.mark.conformance("MemoryRecordsBuilderTest.shouldResetBufferToInitialPositionOnAbort")
@every_format
def test_should_reset_buffer_to_initial_position_on_abort(args):
    builder = args.builder()
    builder.append(0, b"a", b"1")
    builder.abort()
    assert builder.buffer == args.before


@pytest.mark.conformance(
    "MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnCloseWhenAborted"
)
@every_format
def test_should_throw_illegal_state_exception_on_close_when_aborted(args):
    builder = args.builder()
    builder.abort()
    with pytest.raises(StateError):
        builder.close()


@pytest.mark.conformance(
    "MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnAppendWhenAborted"
)
@every_format
def test_should_throw_illegal_state_exception_on_append_when_aborted(args):
    builder = args.builder()
    builder.abort()
    with pytest.raises(StateError):
        builder.append(0, b"a", b"1")


@pytest.mark.conformance(
    "MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnAppendWhenClosed"
)
@every_format
def test_should_throw_illegal_state_exception_on_append_when_closed(args):
    builder = args.builder()
    builder.append(0, b"a", b"1")
    built = bytes(builder.build().buffer)
    with pytest.raises(StateError, match="takes no more records"):
        builder.append(0, b"a", b"1")
    assert builder.build().buffer == built


@pytest.mark.conformance("MemoryRecordsBuilderTest.testRecordTimestampsWithDeleteHorizon")
@pytest.mark.parametrize("codec", list(CompressionType))
def test_record_timestamps_with_delete_horizon(codec):
    builder = RecordsBuilder(
        compression=codec, log_append_time=0, write_limit=0, delete_horizon_ms=100
    )
    builder.append(50, b"0", b"0")
    builder.append(100, b"1", None)
    builder.append(150, b"2", b"2")
    (batch,) = builder.build().batches()
    assert batch.delete_horizon_ms == 100
    assert [record.timestamp for record in batch.records()] == [50, 100, 150]
