"""What Kafka's ControlRecordUtilsTest asks."""

import pytest

from engine.record.attributes import TimestampType
from engine.record.control_records import (
    ControlRecordType,
    parse_quorum_record,
    quorum_record_of,
)
from engine.record.record import Record

NO_DIRECTORY = bytes(16)
VOTERS = (
    bytes.fromhex("0000 02 00000000") + NO_DIRECTORY + bytes.fromhex("01 0000 0000 00 00") + b"\x00"
)
"""Version 0, one voter: id 0, no directory, no endpoint, versions 0 to 0; tags of feature, voter, record."""


def record(kind: ControlRecordType, value: bytes) -> Record:
    key = bytes([0, 0, 0, kind.value])
    return Record(0, 0, TimestampType.CREATE_TIME, key, value)


@pytest.mark.conformance("ControlRecordUtilsTest.testCurrentVersions")
def test_current_versions():
    directory = bytes(range(16))
    voter = bytes.fromhex("00000001") + directory + b"\x00"
    newest = {
        ControlRecordType.LEADER_CHANGE: bytes.fromhex("0001 00000001 02") + voter + b"\x01\x00",
        ControlRecordType.SNAPSHOT_HEADER: bytes.fromhex("0000 0000018bcfe56800 00"),
        ControlRecordType.SNAPSHOT_FOOTER: bytes.fromhex("0000 00"),
        ControlRecordType.KRAFT_VERSION: bytes.fromhex("0000 0001 00"),
        ControlRecordType.KRAFT_VOTERS: VOTERS,
    }
    read = {kind: parse_quorum_record(kind, value) for kind, value in newest.items()}
    assert read[ControlRecordType.LEADER_CHANGE] == {
        "version": 1,
        "leaderId": 1,
        "voters": [{"voterId": 1, "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw"}],
        "grantingVoters": [],
    }
    assert read[ControlRecordType.SNAPSHOT_HEADER] == {
        "version": 0,
        "lastContainedLogTimestamp": 1700000000000,
    }
    assert read[ControlRecordType.SNAPSHOT_FOOTER] == {"version": 0}
    assert read[ControlRecordType.KRAFT_VERSION] == {"version": 0, "kRaftVersion": 1}


@pytest.mark.conformance("ControlRecordUtilsTest.testInvalidControlRecordType")
def test_invalid_control_record_type():
    with pytest.raises(ValueError, match="expected a KRAFT_VOTERS record, found COMMIT"):
        quorum_record_of(ControlRecordType.KRAFT_VOTERS, record(ControlRecordType.COMMIT, VOTERS))


@pytest.mark.conformance("ControlRecordUtilsTest.testDeserializeByteData")
def test_deserialize_byte_data():
    kind = ControlRecordType.KRAFT_VOTERS
    assert quorum_record_of(kind, record(kind, VOTERS))["voters"] == [
        {
            "voterId": 0,
            "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
            "endpoints": [],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 0},
        }
    ]
