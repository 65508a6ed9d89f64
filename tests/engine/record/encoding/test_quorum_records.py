import pytest

from engine.record.control_records import ControlRecordType, parse_quorum_record
from engine.record.encoding.quorum_records import encode_quorum_record

LEADER_CHANGE = ControlRecordType.LEADER_CHANGE


def test_a_leader_change_of_version_1_names_directories():
    fields = {
        "version": 1,
        "leaderId": 5,
        "voters": [{"voterId": 6, "voterDirectoryId": "MkU3OEVBNTcwNTJENDM2Qg"}],
        "grantingVoters": [{"voterId": 6}],
    }
    found = parse_quorum_record(LEADER_CHANGE, encode_quorum_record(LEADER_CHANGE, fields))
    assert found["voters"] == fields["voters"]
    assert found["grantingVoters"] == [{"voterId": 6, "voterDirectoryId": "A" * 22}]


def test_a_leader_change_of_version_0_has_no_directories():
    made = encode_quorum_record(LEADER_CHANGE, {"leaderId": 5, "voters": [{"voterId": 6}]})
    assert made.hex() == "0000000000050200000006000100"


@pytest.mark.parametrize(
    ("kind", "fields", "what"),
    [
        (ControlRecordType.COMMIT, {}, "COMMIT is not a quorum record"),
        (LEADER_CHANGE, {"leaderId": 2**31}, "cannot be written"),
        (ControlRecordType.KRAFT_VERSION, {"kRaftVersion": "one"}, "cannot be written"),
        (
            LEADER_CHANGE,
            {"version": 1, "leaderId": 5, "voters": [{"voterId": 6, "voterDirectoryId": "AAAA"}]},
            "'AAAA' is not a UUID",
        ),
    ],
)
def test_what_does_not_fit_is_refused(kind, fields, what):
    with pytest.raises(ValueError, match=what):
        encode_quorum_record(kind, fields)
