"""Messages come back from their bytes, whatever their version; other bytes are refused with the place."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.errors import CorruptMessageError, UnknownVersionError
from engine.topics.message.decoding import read_message
from engine.topics.message.json_form import json_form, read_json
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct
from tests.internal_records import damaged
from tests.messages import MESSAGES, NAMED, VERSIONS, encode, names, random_fields

FEW = settings(max_examples=3)
EACH = pytest.mark.parametrize(("message", "version"), VERSIONS, ids=names())


def same(one: object, other: object) -> bool:
    """Whether values are the same; not-a-number is itself."""
    return repr(one) == repr(other)


@EACH
@FEW
@given(chance=st.randoms(use_true_random=False))
def test_every_message_comes_back_from_its_bytes(
    message: Message, version: int, chance: Random
) -> None:
    fields = random_fields(message, version, chance)
    data = encode(message, version, fields)
    found, end = read_message(message, version, b"..." + data + b"behind", 3)
    assert same(found, fields)
    assert list(found) == [field.name for field in message.fields]
    assert end == 3 + len(data)
    assert same(read_message(message, version, memoryview(data))[0], fields)


@EACH
@FEW
@given(chance=st.randoms(use_true_random=False))
def test_tags_that_are_not_known_are_passed_over(
    message: Message, version: int, chance: Random
) -> None:
    if not message.is_flexible(version):
        return
    fields = random_fields(message, version, chance)
    data = encode(message, version, fields, {40: b"", 4000: bytes(200)})
    found, end = read_message(message, version, data)
    assert same(found, fields)
    assert end == len(data)


@EACH
@FEW
@given(chance=st.randoms(use_true_random=False))
def test_damaged_bytes_are_read_or_refused(message: Message, version: int, chance: Random) -> None:
    data = damaged(encode(message, version, random_fields(message, version, chance)), chance)
    try:
        found, place = read_json(message, version, data)
    except CorruptMessageError as error:
        found, place = {}, -1 if error.position is None else error.position
    assert 0 <= place <= len(data)
    json.dumps(found, allow_nan=False)


@EACH
@FEW
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(message: Message, version: int, data: bytes) -> None:
    try:
        _, end = read_json(message, version, data)
    except CorruptMessageError:
        return
    assert end <= len(data)


@EACH
def test_every_cut_is_refused_at_its_place(message: Message, version: int) -> None:
    data = encode(message, version, random_fields(message, version, Random(7)))
    for cut in range(len(data)):
        with pytest.raises(CorruptMessageError) as raised:
            read_message(message, version, data[:cut])
        assert raised.value.position is not None
        assert raised.value.position <= cut


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_the_schemas_hold_together(message: Message) -> None:
    def check(fields: tuple[Field, ...]) -> None:
        tags = [field.tag for field in fields if field.tag is not None]
        assert sorted(tags) == list(range(len(tags)))
        assert len({field.name for field in fields}) == len(fields)
        for field in fields:
            assert message.first_version <= field.since <= message.last_version
            assert field.until is None or field.since <= field.until < message.last_version
            assert field.tag is None or message.is_flexible(field.since)
            kind = field.type.element if isinstance(field.type, Array) else field.type
            assert not isinstance(kind, Array)
            if isinstance(kind, Struct):
                check(kind.fields)

    check(message.fields)
    assert message.knows(message.last_version)
    assert not message.knows(message.last_version + 1)


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(
        UnknownVersionError, match=f"version {version} of OffsetCommitValue"
    ) as raised:
        read_message(NAMED["OffsetCommitValue"], version, bytes(100))
    assert (raised.value.expected, raised.value.found) == ("0 to 4", version)


def test_a_lenient_reading_takes_a_newer_version_for_the_last() -> None:
    fields = random_fields(NAMED["OffsetCommitValue"], 4, Random(1))
    data = encode(NAMED["OffsetCommitValue"], 4, fields)
    assert read_message(NAMED["OffsetCommitValue"], 9, data, lenient=True) == (fields, len(data))


def test_a_lenient_reading_stops_at_a_structure_inside() -> None:
    fields = random_fields(NAMED["RegisterBrokerRecord"], 4, Random(1))
    fields["endPoints"] = [{"name": "", "host": "", "port": 1, "securityProtocol": 0}]
    data = encode(NAMED["RegisterBrokerRecord"], 4, fields)
    with pytest.raises(CorruptMessageError) as raised:
        read_message(NAMED["RegisterBrokerRecord"], 5, data, lenient=True)
    assert raised.value.kafka_says == "Can't read version 5 of BrokerEndpoint"


REFUSED = {
    "the end": (NAMED["OffsetCommitKey"], 0, b"\0\3gr", 2, "the message ends inside group", "3 bytes", "2 bytes"),
    "a number": (NAMED["OffsetCommitValue"], 0, bytes(4), 0, "the message ends inside offset", "8 bytes", "4 bytes"),
    "null": (NAMED["OffsetCommitKey"], 0, b"\xff\xff", 0, "group is null", None, None),
    "a long string": (
        NAMED["ConsumerGroupMemberMetadataValue"], 0, b"\0\0\x81\x80\x02" + bytes(40_000), 2,
        "clientId is too long for a string", "at most 32767 bytes", 32_768,
    ),
    "a count": (
        NAMED["ClientQuotaRecord"], 0, b"\x09\0\0", 0, "entity has more elements than bytes are left", "at most 2", 8,
    ),
    "a long varint": (
        NAMED["ClientQuotaRecord"], 0, b"\xff" * 6, 0, "the length of entity is longer than 5 bytes", None, None,
    ),
    "a foreign tag": (
        NAMED["RegisterBrokerRecord"], 0, bytes(28) + b"\1\1\0\1\1\1\1", 33, "tag 1 does not belong to version 0", None, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_where_and_what(case: str) -> None:
    message, version, data, position, reason, expected, found = REFUSED[case]
    with pytest.raises(CorruptMessageError) as raised:
        read_message(message, version, data)
    error = raised.value
    assert (error.reason, error.position) == (reason, position)
    assert (error.expected, error.found) == (expected, found)


def test_fields_that_a_version_lacks_have_their_defaults() -> None:
    fields, _ = read_message(NAMED["OffsetCommitValue"], 0, bytes(18))
    assert fields == {
        "offset": 0,
        "leaderEpoch": -1,
        "metadata": "",
        "commitTimestamp": 0,
        "expireTimestamp": -1,
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
    }


def test_lists_of_one_reading_are_not_those_of_another() -> None:
    data = bytes(28) + b"\1\1\0\1\0"
    first, _ = read_message(NAMED["RegisterBrokerRecord"], 0, data)
    first["logDirs"].append("mine")
    second, _ = read_message(NAMED["RegisterBrokerRecord"], 0, data)
    assert second["logDirs"] == []


def test_a_tag_is_read_whatever_size_it_states() -> None:
    plain = encode(
        NAMED["OffsetCommitValue"], 4, random_fields(NAMED["OffsetCommitValue"], 0, Random(1))
    )
    tagged = plain[:-1] + b"\1\0\x7f" + b"\1" * 16
    fields, end = read_message(NAMED["OffsetCommitValue"], 4, tagged)
    assert (fields["topicId"], end) == ("AQEBAQEBAQEBAQEBAQEBAQ", len(tagged))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\xff\xfe", "��"),
        (b"a\xed\xa0\x80b", "a�b"),
        (b"a\xed\xa0", "a�"),
        (b"\xed\xbf\xc2b", "��b"),
        (b"\xf0\x9f\x99", "�"),
        (b"\xe2\x28\xa1", "�(�"),
        (b"\xc0\xaf", "��"),
    ],
)
def test_bytes_that_are_no_text_are_shown_as_java_shows_them(raw: bytes, shown: str) -> None:
    data = len(raw).to_bytes(2, "big") + raw + b"\0\0" + bytes(4)
    assert read_message(NAMED["OffsetCommitKey"], 0, data)[0]["group"] == shown


def test_only_bad_bytes_are_replaced() -> None:
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode("utf-8", "kafkafs-replace-as-java")


def test_a_schema_with_an_array_of_arrays_is_refused() -> None:
    nested = Message("Nested", lambda: (Field("lists", Array(Array(Scalar.INT8))),))
    with pytest.raises(TypeError, match="lists: an array of arrays"):
        read_message(nested, 0, bytes(8))


# -- JSON ------------------------------------------------------------------------------------------


@EACH
@FEW
@given(chance=st.randoms(use_true_random=False))
def test_json_has_the_fields_of_the_version_in_their_order(
    message: Message, version: int, chance: Random
) -> None:
    fields = random_fields(message, version, chance)
    before = repr(fields)
    found = json_form(message, version, fields)
    assert repr(fields) == before
    json.dumps(found, allow_nan=False)
    expected = [
        field.name
        for field in message.fields
        if field.is_in(version)
        and (field.tag is None or not same(fields[field.name], field.absent()))
    ]
    assert list(found) == expected


def first_of(message: Message, kind: Scalar, value: Any) -> Any:
    """The JSON of a field of a type, of the newest version."""
    fields = random_fields(message, message.last_version, Random(3))
    name = next(field.name for field in message.fields if field.type is kind)
    return json_form(message, message.last_version, fields | {name: value})[name]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_that_json_cannot_write_are_text(value: float, shown: object) -> None:
    assert first_of(NAMED["ClientQuotaRecord"], Scalar.FLOAT64, value) == shown


def test_bytes_are_base64() -> None:
    fields = random_fields(NAMED["GroupMetadataValue"], 3, Random(3))
    fields["members"] = [
        {
            "memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h",
            "rebalanceTimeout": 1, "sessionTimeout": 2, "subscription": b"\xff\xfe\xfd!", "assignment": b"",
        }
    ]  # fmt: skip
    (member,) = json_form(NAMED["GroupMetadataValue"], 3, fields)["members"]
    assert (member["subscription"], member["assignment"]) == ("//79IQ==", "")


def test_tagged_fields_are_left_out_when_they_say_nothing() -> None:
    fields = random_fields(NAMED["TransactionLogValue"], 1, Random(3))
    plain = fields | {
        "previousProducerId": -1,
        "nextProducerId": -1,
        "nextProducerEpoch": -1,
        "clientTransactionVersion": 0,
    }
    assert set(fields) - set(json_form(NAMED["TransactionLogValue"], 1, plain)) == {
        "previousProducerId",
        "nextProducerId",
        "nextProducerEpoch",
        "clientTransactionVersion",
    }
    stated = json_form(NAMED["TransactionLogValue"], 1, plain | {"nextProducerEpoch": 0})
    assert stated["nextProducerEpoch"] == 0
