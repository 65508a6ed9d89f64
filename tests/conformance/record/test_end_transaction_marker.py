"""What Kafka's EndTransactionMarkerTest asks."""

import struct

import pytest

from engine.coding.varint import size_of_varint, size_of_varlong
from engine.errors import InvalidRecordError
from engine.record.control_records import (
    KEY_SIZE,
    ControlRecordType,
    EndTransactionMarker,
    parse_end_marker,
)
from engine.record.encoding.batch_encoding import BATCH_OVERHEAD
from engine.record.encoding.building import end_transaction_marker

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


@pytest.mark.conformance("EndTransactionMarkerTest.testCannotDeserializeUnknownControlType")
def test_cannot_deserialize_unknown_control_type():
    with pytest.raises(ValueError, match="UNKNOWN does not end a transaction"):
        parse_end_marker(ControlRecordType.UNKNOWN, b"")


@pytest.mark.conformance("EndTransactionMarkerTest.testIllegalVersion")
def test_illegal_version():
    for rest in (b"", struct.pack(">i", 1)):
        with pytest.raises(InvalidRecordError):
            parse_end_marker(ABORT, struct.pack(">h", -1) + rest)


@pytest.mark.conformance("EndTransactionMarkerTest.testSerde")
def test_serde():
    value = EndTransactionMarker(COMMIT, 79).value()
    assert value == struct.pack(">hi", 0, 79)
    assert parse_end_marker(COMMIT, value).coordinator_epoch == 79


@pytest.mark.conformance("EndTransactionMarkerTest.testDeserializeNewerVersion")
def test_deserialize_newer_version():
    newer = struct.pack(">hih", 5, 79, 0)
    assert parse_end_marker(COMMIT, newer) == EndTransactionMarker(COMMIT, 79, version=5)


@pytest.mark.conformance("EndTransactionMarkerTest.testSerializeAndDeserialize")
@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_serialize_and_deserialize(kind):
    marker = EndTransactionMarker(kind, 1)
    assert parse_end_marker(kind, marker.value()) == marker


@pytest.mark.conformance("EndTransactionMarkerTest.testBackwardDeserializeCompatibility")
@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_backward_deserialize_compatibility(kind):
    found = parse_end_marker(kind, struct.pack(">hi", 0, 10))
    assert (found.type, found.coordinator_epoch) == (kind, 10)


@pytest.mark.conformance("EndTransactionMarkerTest.testForwardDeserializeCompatibility")
@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_forward_deserialize_compatibility(kind):
    marker = EndTransactionMarker(kind, 10)
    version, coordinator_epoch = struct.unpack_from(">hi", marker.value())
    assert version == 0
    assert EndTransactionMarker(kind, coordinator_epoch) == marker


@pytest.mark.conformance("EndTransactionMarkerTest.testUnknownControlTypeNotAllowed")
def test_unknown_control_type_not_allowed():
    with pytest.raises(ValueError, match="UNKNOWN does not end a transaction"):
        EndTransactionMarker(ControlRecordType.UNKNOWN, 24)


@pytest.mark.conformance("EndTransactionMarkerTest.testEndTxnMarkerValueSize")
@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_end_txn_marker_value_size(kind):
    marker = EndTransactionMarker(kind, 1)
    value_size = len(marker.value())
    total = 1 + size_of_varint(0) + size_of_varlong(0)
    total += size_of_varint(KEY_SIZE) + KEY_SIZE
    total += size_of_varint(value_size) + value_size + size_of_varint(0)
    made = end_transaction_marker(marker, producer_id=1, producer_epoch=0, timestamp=5)
    assert made.size - BATCH_OVERHEAD == size_of_varint(total) + total
