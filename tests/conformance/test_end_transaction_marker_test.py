"""What Kafka's EndTransactionMarkerTest asks of reading."""

import struct

import pytest

from engine.errors import InvalidRecordError
from engine.record.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    parse_end_marker,
)

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
