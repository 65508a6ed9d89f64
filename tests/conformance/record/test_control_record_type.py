"""What Kafka's ControlRecordTypeTest asks."""

import struct

import pytest

from engine.record.control_records import CURRENT_KEY_VERSION, ControlRecordType, parse_control_key


@pytest.mark.conformance("ControlRecordTypeTest.testParseUnknownType")
def test_parse_unknown_type():
    key = parse_control_key(struct.pack(">hh", CURRENT_KEY_VERSION, 337))
    assert key.type is ControlRecordType.UNKNOWN
    assert key.type_id == 337


@pytest.mark.conformance("ControlRecordTypeTest.testParseUnknownVersion")
def test_parse_unknown_version():
    key = parse_control_key(struct.pack(">hhi", 5, ControlRecordType.ABORT, 23432))
    assert key.type is ControlRecordType.ABORT
    assert key.version == 5


@pytest.mark.conformance("ControlRecordTypeTest.testRoundTrip")
@pytest.mark.parametrize("expected", ControlRecordType)
def test_round_trip(expected):
    key = parse_control_key(struct.pack(">hh", CURRENT_KEY_VERSION, expected.value))
    assert key.type is expected
    if expected is not ControlRecordType.UNKNOWN:
        assert parse_control_key(expected.record_key()) == key
