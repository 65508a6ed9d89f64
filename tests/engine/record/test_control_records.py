"""Control records: what they say, and that no bytes break the saying."""

import json
import struct

import pytest
from hypothesis import given, strategies as st

from engine.errors import InvalidRecordError
from engine.record.attributes import TimestampType
from engine.record.control_records import (
    ControlRecordType,
    describe_control,
    end_marker_of,
    parse_control_key,
    parse_end_marker,
    parse_quorum_record,
)
from engine.record.default_records import DefaultRecordBatch
from engine.record.record import Record
from tests.builders import Producer, control_batch, end_marker

QUORUM = list(ControlRecordType)[2:7]
VOTER = (
    struct.pack(">i", 7)
    + bytes(range(16))
    + b"\x02\x0bCONTROLLER\x0alocalhost\x23\x84\x00"
    + struct.pack(">hh", 0, 1)
    + b"\x00\x00"
)
VOTERS = b"\x00\x00\x02" + VOTER + b"\x00"


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, TimestampType.CREATE_TIME, key, value)


def described(kind: int, value: bytes | None) -> dict[str, object]:
    (made,) = DefaultRecordBatch(control_batch(kind, value)).records()
    return describe_control(made)


def test_a_record_is_the_first_of_its_batch_and_has_no_size_unless_it_is_told():
    made = record(None, None)
    assert (made.index, made.size, made.sequence, made.leader_epoch) == (0, 0, -1, -1)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_marker_says_how_it_ended_and_who_ended_it(commit):
    data = end_marker(5, Producer(id=7, epoch=1), commit=commit, coordinator_epoch=3)
    (made,) = DefaultRecordBatch(data).records()
    name = "COMMIT" if commit else "ABORT"
    assert describe_control(made) == {"type": name, "version": 0, "coordinatorEpoch": 3}
    assert end_marker_of(made).coordinator_epoch == 3


def test_a_leader_change_reads_as_kafkas_own_dump_prints_it():
    value = bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00")
    assert described(2, value) == {
        "type": "LEADER_CHANGE",
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }


def test_voters_have_directories_endpoints_and_versions():
    assert described(6, VOTERS) == {
        "type": "KRAFT_VOTERS",
        "version": 0,
        "voters": [
            {
                "voterId": 7,
                "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw",
                "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9092}],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
        ],
    }


def test_tagged_fields_that_are_not_known_are_passed_over():
    value = bytes.fromhex("0000 0001 02 05 03 616263 80 01 00")
    assert parse_quorum_record(ControlRecordType.KRAFT_VERSION, value) == {
        "version": 0,
        "kRaftVersion": 1,
    }


def test_an_unknown_type_is_shown_with_its_number():
    assert described(99, b"anything") == {"type": "UNKNOWN(99)"}
    assert described(-5, None) == {"type": "UNKNOWN(-5)"}


@pytest.mark.parametrize(
    ("value", "found"), [(None, "null"), (b"", "0 bytes"), (b"\x00\x00", "2 bytes")]
)
def test_a_marker_without_a_whole_value_still_says_its_type(value, found):
    shown = described(1, value)
    assert shown["type"] == "COMMIT"
    assert found in str(shown["error"])


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_key_that_is_none_is_shown_as_invalid(key):
    assert describe_control(record(key, b""))["type"] == "INVALID"
    with pytest.raises(InvalidRecordError):
        parse_control_key(key)


@pytest.mark.parametrize("kind", QUORUM)
def test_a_quorum_record_cut_anywhere_is_an_invalid_record(kind):
    whole = {
        ControlRecordType.LEADER_CHANGE: bytes.fromhex("0000 00000001 02 00000001 00 01 00"),
        ControlRecordType.SNAPSHOT_HEADER: bytes.fromhex("0000 0000018bcfe56800 00"),
        ControlRecordType.SNAPSHOT_FOOTER: bytes.fromhex("0000 00"),
        ControlRecordType.KRAFT_VERSION: bytes.fromhex("0000 0001 00"),
        ControlRecordType.KRAFT_VOTERS: VOTERS,
    }[kind]
    assert parse_quorum_record(kind, whole)["version"] == 0
    for end in range(len(whole)):
        with pytest.raises(InvalidRecordError):
            parse_quorum_record(kind, whole[:end])
    with pytest.raises(InvalidRecordError):
        parse_quorum_record(kind, b"\xff\xff" + whole[2:])
    with pytest.raises(InvalidRecordError, match="null value"):
        parse_quorum_record(kind, None)
    assert "error" in described(kind, whole[:-1])


def test_tagged_fields_inside_an_array_end_where_the_next_field_begins():
    voter = bytes.fromhex("00000001 01 05 03 616263")
    value = bytes.fromhex("0000 00000001 02") + voter + bytes.fromhex("02 00000002 00 00")
    found = parse_quorum_record(ControlRecordType.LEADER_CHANGE, value)
    assert (found["voters"], found["grantingVoters"]) == ([{"voterId": 1}], [{"voterId": 2}])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(2, "0000 00000001 00 00 00", id="null array"),
        pytest.param(5, "0000 0001 01 00 05 61", id="tagged field past the end"),
        pytest.param(5, "0000 0001 01 00 ffffffff0f", id="tagged field of length -1"),
    ],
)
def test_a_length_outside_the_message_is_refused(kind, value):
    with pytest.raises(InvalidRecordError, match="does not parse"):
        parse_quorum_record(ControlRecordType(kind), bytes.fromhex(value))


def test_a_tagged_field_of_negative_length_does_not_go_back_for_ever():
    value = bytes.fromhex("0000 0001 ffffffff07 00 fbffffff0f")
    with pytest.raises(InvalidRecordError):
        parse_quorum_record(ControlRecordType.KRAFT_VERSION, value)


@given(kind=st.integers(-2, 9), value=st.none() | st.binary(max_size=60))
def test_any_value_of_any_type_is_described_in_json(kind, value):
    shown = describe_control(record(struct.pack(">hh", 0, kind), value))
    assert json.loads(json.dumps(shown)) == shown


def test_only_the_two_end_markers_are_end_markers():
    for kind in (*QUORUM, ControlRecordType.UNKNOWN):
        with pytest.raises(ValueError, match="does not end a transaction"):
            parse_end_marker(kind, bytes(6))
    with pytest.raises(ValueError, match="is not a quorum record"):
        parse_quorum_record(ControlRecordType.ABORT, bytes(6))
    assert ControlRecordType.UNKNOWN == -1
    with pytest.raises(ValueError, match="unknown control record type"):
        ControlRecordType.UNKNOWN.record_key()
