"""The record line: which fields it has, in which order, and what each says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from engine.lines.json_text import Values
from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.fate import Fate
from engine.record.record import Header, Record

OPTIONS = LineOptions("orders", 0)
CREATE_TIME = TimestampType.CREATE_TIME


def record(key: bytes | None = None, value: bytes | None = None, **fields: object) -> Record:
    facts = {"offset": 35, "timestamp": 1_700_000_035_123, "timestamp_type": CREATE_TIME} | fields
    return Record(key=key, value=value, **facts)  # type: ignore[arg-type]


def marker(kind: ControlRecordType, **fields: object) -> Record:
    value = EndTransactionMarker(kind, coordinator_epoch=3).value()
    return record(kind.record_key(), value, **fields)


START = (
    b'{"topic":"orders","partition":0,"offset":35,"timestamp":1700000035123,"time":"2023-11-14T22:13:55.123Z",'
    b'"timestampType":"CreateTime",'
)  # fmt: skip


def test_a_line_is_exactly_this():
    found = record_line(
        record(
            b"k17", b'{"id": 35}', headers=(Header(b"trace-id", b"9f3a"),), leader_epoch=0
        ),
        OPTIONS,
    )  # fmt: skip
    assert found == START + (
        b'"key":"k17","value":{"id":35},"valueEncoding":"json","headers":[{"key":"trace-id","value":"9f3a"}],"leaderEpoch":0}\n'
    )


def test_null_empty_and_the_word_null_are_three_things():
    for value, shown in ((None, b"null"), (b"", b'""'), (b"null", b'"null"')):
        found = record_line(record(value, value, headers=(Header(b"", value),)), OPTIONS)
        assert found == START + (
            b'"key":%s,"value":%s,"headers":[{"key":"","value":%s}],"leaderEpoch":-1}\n'
            % (shown, shown, shown)
        )


def test_doubled_header_keys_stay_in_order_and_a_header_key_is_always_a_name():
    headers = (
        Header(b"b", b"[1]"),
        Header(b"a", b"\xff"),
        Header(b"b", None),
        Header(b"{}", b""),
        Header(b"\xfe", b"x"),
    )
    for values in ("auto", "json"):
        line = json.loads(record_line(record(headers=headers), LineOptions("t", 1, values=values)))
        assert line["headers"] == [
            {"key": "b", "value": [1], "valueEncoding": "json"},
            {"key": "a", "value": "/w==", "valueEncoding": "base64"},
            {"key": "b", "value": None},
            {"key": "{}", "value": ""},
            {"key": "/g==", "keyEncoding": "base64", "value": "x"},
        ]


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ("auto", b'"key":{"a":1},"keyEncoding":"json","value":"x\\u001b","headers":[{"key":"h","value":[],"valueEncoding":"json"}]'),
        ("json", b'"key":{"a":1},"keyEncoding":"json","value":"x\\u001b","headers":[{"key":"h","value":[],"valueEncoding":"json"}]'),
        ("text", b'"key":"{\\"a\\": 1}","value":"x\\u001b","headers":[{"key":"h","value":"[]"}]'),
        ("base64", b'"key":"eyJhIjogMX0=","keyEncoding":"base64","value":"eBs=","valueEncoding":"base64","headers":[{"key":"h","value":"W10=","valueEncoding":"base64"}]'),
        ("hex", b'"key":"7b2261223a20317d","keyEncoding":"hex","value":"781b","valueEncoding":"hex","headers":[{"key":"h","value":"5b5d","valueEncoding":"hex"}]'),
        ("none", b'"keySize":8,"valueSize":2,"headers":[{"key":"h"}]'),
    ],
)  # fmt: skip
def test_values_says_how_bytes_are_shown(values, fields):
    shown = record(b'{"a": 1}', b"x\x1b", headers=(Header(b"h", b"[]"),), leader_epoch=2)
    found = record_line(shown, LineOptions("orders", 0, values=values))
    assert found == START + fields + b',"leaderEpoch":2}\n'


def test_without_values_a_null_has_size_minus_one():
    found = json.loads(record_line(record(None, b""), LineOptions("t", 0, values="none")))
    assert (found["keySize"], found["valueSize"]) == (-1, 0)


def test_values_must_be_one_of_the_six():
    assert [mode.name.lower() for mode in Values] == [
        "auto", "text", "json", "base64", "hex", "none",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="values must be one of auto, text, json, base64, hex, none, not 'xml'"):  # fmt: skip
        LineOptions("t", 0, values="xml")


@pytest.mark.parametrize(
    ("timestamp", "kind", "time", "label"),
    [
        (0, CREATE_TIME, "1970-01-01T00:00:00.000Z", "CreateTime"),
        (-1, TimestampType.NO_TIMESTAMP_TYPE, None, "NoTimestampType"),
        (-1, CREATE_TIME, None, "CreateTime"),
        (-5, CREATE_TIME, None, "CreateTime"),
        (1_700_000_000_000, TimestampType.LOG_APPEND_TIME, "2023-11-14T22:13:20.000Z", "LogAppendTime"),
        (2**63 - 1, CREATE_TIME, None, "CreateTime"),
        (-(2**63), CREATE_TIME, None, "CreateTime"),
    ],
)  # fmt: skip
def test_timestamps(timestamp, kind, time, label):
    line = json.loads(record_line(record(timestamp=timestamp, timestamp_type=kind), OPTIONS))
    assert (line["timestamp"], line["time"], line["timestampType"]) == (timestamp, time, label)


TAIL = b'"key":null,"value":null,"headers":[],"leaderEpoch":-1'


@pytest.mark.parametrize(
    ("fate", "state"),
    [
        (Fate.COMMITTED, b',"state":"committed"'),
        (Fate.ABORTED, b',"state":"aborted"'),
        (Fate.OPEN, b',"state":"open"'),
        (Fate.NONE, b""),
    ],
)
def test_a_transactional_record_says_whose_transaction_and_what_became_of_it(fate, state):
    found = record_line(
        record(sequence=12), OPTIONS, producer_id=7, producer_epoch=1, is_transactional=True, fate=fate
    )  # fmt: skip
    shown = b',"sequence":12,"transaction":{"producerId":7,"producerEpoch":1%s}}\n' % state
    assert found == START + TAIL + shown


def test_a_sequence_needs_a_producer_and_a_sequence():
    for producer_id, sequence, shown in ((7, 0, b',"sequence":0'), (7, -1, b""), (-1, 5, b"")):
        found = record_line(record(sequence=sequence), OPTIONS, producer_id=producer_id)
        assert found == START + TAIL + shown + b"}\n"


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_an_end_marker_says_whose_transaction_it_ends_and_has_no_sequence(kind):
    found = record_line(
        marker(kind, sequence=4), OPTIONS, producer_id=7, producer_epoch=1, is_transactional=True, is_control=True
    )  # fmt: skip
    assert found.endswith(
        b'"leaderEpoch":-1,"control":{"type":"%s","version":0,"coordinatorEpoch":3,"producerId":7,"producerEpoch":1}}\n'
        % kind.name.encode()
    )
    assert b"transaction" not in found
    assert b"sequence" not in found


def test_a_control_record_that_makes_no_sense_still_has_its_line():
    for key, value in ((None, None), (b"", b""), (b"\0\0\0\x63", b"x"), (b"\0\0\0\x01", b"\xff")):
        line = json.loads(record_line(record(key, value), OPTIONS, is_control=True))
        assert isinstance(line["control"]["type"], str)
        assert line["offset"] == 35


def test_a_host_name_in_a_voter_record_cannot_reach_the_terminal():
    host = "evil\x7f\x85\u202e\x1b[2J"
    endpoint = bytes([2]) + b"C" + bytes([len(host.encode()) + 1]) + host.encode() + b"\x23\x84\0"
    voter = b"\0\0\0\1" + bytes(16) + bytes([2]) + endpoint + b"\0\0\0\1\0\0"
    line = record_line(
        record(b"\0\0\0\6", b"\0\0" + bytes([2]) + voter + b"\0"), OPTIONS, is_control=True
    )
    control = line[line.index(b'"control"') :]
    assert b'"host":"evil\\u007f\\u0085\\u202e\\u001b[2J"' in control


def test_a_record_below_the_log_start_says_so():
    for log_start, shown in ((36, b',"belowLogStart":true'), (35, b""), (0, b"")):
        found = record_line(record(), LineOptions("orders", 0, log_start_offset=log_start))
        assert found == START + TAIL + shown + b"}\n"


@given(st.text() | st.just("a\udcff\udc80b"), st.integers(-(2**31), 2**31 - 1))
def test_any_topic_name_gives_a_safe_line(topic, partition):
    topic = topic.encode("utf-8", "replace").decode() if "\udcff" not in topic else topic
    line = json.loads(record_line(record(), LineOptions(topic, partition)))
    assert line["topic"] == topic.replace("\udcff", "\ufffd").replace("\udc80", "\ufffd")
    assert line["partition"] == partition


def test_options_are_values():
    assert LineOptions("t", 0) == LineOptions("t", 0, values="auto")
    assert LineOptions("t", 0) != LineOptions("t", 0, committed=True)
    assert hash(LineOptions("t", 0)) == hash(LineOptions("t", 0))
    with pytest.raises(AttributeError):
        LineOptions("t", 0).topic = "u"  # type: ignore[misc]
