"""What Kafka's MemoryRecordsTest asks of writing. A buffer's capacity is the write limit here."""

import pytest

from engine.coding.compression import CompressionType
from engine.record.batch_frame import HEADER
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    end_marker_of,
    parse_control_key,
    quorum_record_of,
)
from engine.record.encoding.batch_encoding import size_of_record
from engine.record.encoding.building import end_transaction_marker, quorum_batch, records_of
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Header
from tests.builders import is_valid
from tests.conformance.batch_iteration import FORMATS

NOW = 1_700_000_000_000
every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)


@pytest.mark.conformance("MemoryRecordsTest.testHasRoomForMethod")
@every_format
def test_has_room_for_method(magic, codec):
    builder = RecordsBuilder(magic=magic, compression=codec, write_limit=1024)
    builder.append(0, b"a", b"1")
    assert builder.has_room_for(1, b"b", b"2")
    builder.close()
    assert not builder.has_room_for(1, b"b", b"2")


@pytest.mark.conformance("MemoryRecordsTest.testHasRoomForMethodWithHeaders")
@every_format
def test_has_room_for_method_with_headers(magic, codec):
    builder = RecordsBuilder(magic=magic, compression=codec, write_limit=120)
    builder.append(NOW, b"key", b"value")
    headers = [Header(b"hello", b"world.world")] * 10
    assert builder.has_room_for(NOW, b"key", b"value")
    assert builder.has_room_for(NOW, b"key", b"value", headers) == (magic < 2)


@pytest.mark.conformance("MemoryRecordsTest.testBuildEndTxnMarker")
def test_build_end_txn_marker():
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 347)
    records = end_transaction_marker(
        marker,
        producer_id=73,
        producer_epoch=13,
        base_offset=983,
        timestamp=NOW,
        partition_leader_epoch=29,
    )
    assert records.size == HEADER.size + size_of_record(0, 0, bytes(4), marker.value())
    (batch,) = records.batches()
    assert batch.is_control
    assert (batch.producer_id, batch.producer_epoch) == (73, 13)
    assert (batch.base_offset, batch.leader_epoch) == (983, 29)
    assert is_valid(batch)
    (record,) = batch.records()
    assert end_marker_of(record) == marker


@pytest.mark.conformance("MemoryRecordsTest.testBuildLeaderChangeMessage")
def test_build_leader_change_message():
    records = quorum_batch(
        ControlRecordType.LEADER_CHANGE,
        {"leaderId": 5, "voters": [{"voterId": 6}]},
        base_offset=983,
        timestamp=NOW,
        leader_epoch=20,
    )
    (batch,) = records.batches()
    assert batch.is_control
    assert (batch.base_offset, batch.leader_epoch) == (983, 20)
    assert is_valid(batch)
    (record,) = batch.records()
    assert parse_control_key(record.key).type is ControlRecordType.LEADER_CHANGE
    found = quorum_record_of(ControlRecordType.LEADER_CHANGE, record)
    assert (found["leaderId"], found["voters"]) == (5, [{"voterId": 6}])


@pytest.mark.conformance("MemoryRecordsTest.testWithRecords")
@every_format
def test_with_records(magic, codec):
    records = records_of(SimpleRecord(b"key1", b"value1", 10), magic=magic, compression=codec)
    (record,) = records.records()
    assert (record.key, record.value) == (b"key1", b"value1")
    assert record.timestamp == (10 if magic else -1)


@pytest.mark.conformance("MemoryRecordsTest.testUnsupportedCompress")
@pytest.mark.parametrize("magic", [0, 1])
def test_unsupported_compress(magic):
    with pytest.raises(ValueError, match=f"magic {magic} have no zstd"):
        records_of(
            SimpleRecord(b"key1", b"value1", 10), magic=magic, compression=CompressionType.ZSTD
        )
