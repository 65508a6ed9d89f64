"""Records of internal topics say what Kafka's dump tool prints of them, or why they do not."""

from __future__ import annotations

import json
import re
import struct
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.coding.varint import encode_unsigned_varint
from engine.columns.batch_table import BATCH_ROW
from engine.record.attributes import CONTROL_MASK
from engine.topics import internal_topics as topics
from engine.topics.decoded_record import (
    LARGEST_VALUE,
    DecodedRecord,
    Failure,
    TopicDecoder,
)
from engine.topics.internal_topics import decoder_for
from tests.fixtures_data import dump_text, log_dir
from tests.internal_records import COORDINATORS, FRAMED, damaged, framed, random_record
from tests.kafkafs.dump.truth_text import as_current

TOPICS = (*COORDINATORS, *FRAMED)
TRUTH = [
    ("current", "__consumer_offsets-0"),
    ("current", "__transaction_state-1"),
    ("current", "__cluster_metadata-0"),
]
COMMIT_KEY = b"\0\1\0\1g\0\1t\0\0\0\7"
COMMIT_VALUE = b"\0\0" + struct.pack(">qh1sq", 42, 1, b"m", 1000)


def decoder_of(topic: str) -> TopicDecoder:
    decoder = decoder_for(topic)
    assert decoder is not None
    return decoder


def offsets(key: bytes | None, value: bytes | None, **how: bool) -> DecodedRecord:
    return decoder_of(topics.CONSUMER_OFFSETS).decode(key, value, **how)


def metadata(value: bytes | None, key: bytes | None = None, **how: bool) -> DecodedRecord:
    return decoder_of(topics.CLUSTER_METADATA).decode(key, value, **how)


# -- what brokers wrote ----------------------------------------------------------------------------


def records_of(kind: str, partition: str) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the records of a partition that are not control records."""
    for path in sorted((log_dir(kind) / partition).glob("*.log")):
        data = path.read_bytes()
        table = np.zeros(10_000, BATCH_ROW.dtype)
        rows, _, _ = kernel.walk(data, table, 0, 0, True)
        columns = kernel.decode(data, table, 0, rows, start_position=0)
        for index, row in enumerate(columns.row.tolist()):
            if not table["attributes"][row] & CONTROL_MASK:
                yield int(columns.offset[index]), columns.key(index), columns.value(index)


def printed(decoded: DecodedRecord, value: bytes | None) -> str:
    def text(found: dict[str, Any]) -> str:
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    key = "" if decoded.key is None else f" key: {text(decoded.key)}"
    return f"{key} payload: {'<DELETE>' if value is None else text(decoded.value or {})}"


@pytest.mark.parametrize(("kind", "partition"), TRUTH)
def test_a_brokers_records_are_what_the_dump_tool_printed(kind: str, partition: str) -> None:
    lines = re.findall(
        r"^\| offset: (\d+) .*headerKeys: \[\](.*)$",
        as_current(dump_text(kind, partition) or ""),
        re.MULTILINE,
    )
    truth = {int(offset): text for offset, text in lines}
    decoder = decoder_of(partition.rpartition("-")[0])
    found = 0
    for offset, key, value in records_of(kind, partition):
        decoded = decoder.decode(key, value)
        assert printed(decoded, value) == truth[offset]
        assert (decoded.key_note, decoded.value_note, decoded.failure) == (None, None, None)
        assert decoded.kind
        found += 1
    assert found > 10


def test_other_topics_have_no_decoder() -> None:
    for name in ("orders", "__consumer_offset", "__consumer_offsets-0", "_consumer_offsets", ""):
        assert decoder_for(name) is None


# -- any record ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", TOPICS)
@given(chance=st.randoms(use_true_random=False))
def test_every_good_record_is_decoded(topic: str, chance: Random) -> None:
    key, value = random_record(topic, chance)
    decoded = decoder_of(topic).decode(key, value)
    assert (decoded.key_note, decoded.value_note, decoded.failure) == (None, None, None)
    assert (decoded.key is None, decoded.value is None) == (key is None, value is None)
    json.dumps((decoded.key, decoded.value), allow_nan=False)
    assert decoder_of(topic).decode(key, value) == decoded


@pytest.mark.parametrize("topic", TOPICS)
@given(chance=st.randoms(use_true_random=False))
def test_a_damaged_record_is_decoded_or_noted(topic: str, chance: Random) -> None:
    key, value = random_record(topic, chance)
    key = None if key is None else damaged(key, chance)
    value = None if value is None else damaged(value, chance)
    check(decoder_of(topic), key, value)


@pytest.mark.parametrize("topic", TOPICS)
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=60))
def test_any_bytes_are_decoded_or_noted(topic: str, key: bytes | None, value: bytes | None) -> None:
    check(decoder_of(topic), key, value)


def check(decoder: TopicDecoder, key: bytes | None, value: bytes | None) -> None:
    """Each of key and value is null, decoded, or has a note."""
    for as_kafka in (False, True):
        decoded = decoder.decode(key, value, as_kafka=as_kafka)
        for data, found, note in (
            (key, decoded.key, decoded.key_note),
            (value, decoded.value, decoded.value_note),
        ):
            assert (data is not None) == ((found is not None) + (note is not None))
        json.dumps((decoded.key, decoded.value), allow_nan=False)


# -- what is not known -----------------------------------------------------------------------------


def test_a_type_that_is_not_known_stays_bytes() -> None:
    assert offsets(b"\0\x63rest", b"\0\0") == DecodedRecord(
        "", None, None, "record type 99 is not known", "its key does not say what it is",
        Failure("Found an unknown record type 99", 99),
    )  # fmt: skip


def test_a_version_that_is_not_known_stays_bytes() -> None:
    decoded = offsets(COMMIT_KEY, b"\0\5" + bytes(100))
    assert decoded.key == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert decoded.value is None
    assert decoded.value_note == "version 5 of OffsetCommitValue is not known"
    assert decoded.failure == Failure("Found an unknown record version 5 for 1 type")


def test_bytes_that_are_no_message_stay_bytes() -> None:
    decoded = offsets(COMMIT_KEY, COMMIT_VALUE[:-1])
    assert decoded.value_note == (
        "the message ends inside commitTimestamp: expected 8 bytes, found 7 bytes at byte 13"
    )
    assert decoded.failure == Failure(
        "Could not read record with version 0 from value's buffer due to: null."
    )


def test_a_key_that_is_no_message_keeps_its_value_from_being_read() -> None:
    decoded = offsets(COMMIT_KEY[:-1], COMMIT_VALUE)
    assert decoded.kind == "OFFSET_COMMIT"
    assert decoded.key_note is not None
    assert decoded.value_note == "its key does not say what it is"


@pytest.mark.parametrize("key", [b"", b"\0"])
def test_a_key_without_a_type_is_noted(key: bytes) -> None:
    assert offsets(key, None).key_note == "the key is too short for a record type"


def test_keys_beyond_those_that_are_kept_decode_as_well() -> None:
    decoder = decoder_of(topics.CONSUMER_OFFSETS)

    def group(size: int) -> object:
        key = b"\0\1" + size.to_bytes(2, "big") + b"g" * size + COMMIT_KEY[5:]
        decoded = decoder.decode(key, COMMIT_VALUE)
        assert decoded.key is not None
        return decoded.key["data"]["group"]

    for _ in range(2):
        assert group(1000) == "g" * 1000
    for number in range(5000):
        key = COMMIT_KEY[:-4] + number.to_bytes(4, "big")
        decoded = decoder.decode(key, COMMIT_VALUE)
        assert decoded.key is not None
        assert decoded.key["data"]["partition"] == number


def test_a_record_without_a_key_is_noted() -> None:
    assert offsets(None, COMMIT_VALUE).value_note == "it has no key that says what it is"
    assert offsets(None, None)[:5] == ("", None, None, None, None)


def test_a_value_without_a_version_is_noted() -> None:
    assert offsets(COMMIT_KEY, b"\0").value_note == "the value is too short for a version"


def test_a_tombstone_has_a_key_alone() -> None:
    decoded = offsets(COMMIT_KEY, None)
    assert decoded.key is not None
    assert decoded[2:] == (None, None, None, None)


def test_a_value_that_would_take_too_much_memory_stays_bytes() -> None:
    body = b"\1" * (LARGEST_VALUE + 1)
    note = f"a value of {len(body)} bytes is not decoded, the limit is {LARGEST_VALUE}"
    decoded = offsets(COMMIT_KEY, body)
    assert (decoded.value, decoded.value_note) == (None, note)
    assert decoded.key is not None
    assert metadata(body).value_note == note


def test_objects_take_at_most_two_hundred_times_their_bytes() -> None:
    count = 5000
    tasks = encode_unsigned_varint(count + 1) + b"\1\1\0" * count
    key = b"\0\x15\0\1g\0\1m"
    tracemalloc.start()
    decoded = offsets(key, b"\0\0" + tasks + b"\1\1\0")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded.value is not None
    assert len(decoded.value["data"]["activeTasks"]) == count
    assert peak < 200 * len(tasks)


# -- older writers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_the_first_type_of_keys_goes_with_every_version_of_values(version: int) -> None:
    body = {
        0: b"\0\1m" + bytes(8), 1: b"\0\1m" + bytes(16), 2: b"\0\1m" + bytes(8),
        3: bytes(4) + b"\0\1m" + bytes(8), 4: bytes(4) + b"\2m" + bytes(9),
    }[version]  # fmt: skip
    value = struct.pack(">hq", version, 42) + body
    decoded = offsets(b"\0\0" + COMMIT_KEY[2:], value)
    assert decoded.value is not None
    assert decoded.value["version"] == str(version)
    assert decoded.value["data"]["metadata"] == "m"
    known = offsets(b"\0\0" + COMMIT_KEY[2:], value, as_kafka=True).failure is None
    assert known == (version == 0)


def test_a_retired_type_is_decoded_but_unknown_to_kafka() -> None:
    key = b"\0\x09\0\1g"
    assert offsets(key, b"\0\0\1\0").value == {"version": "0", "data": {"topics": []}}
    failure = offsets(key, b"\0\0\1\0", as_kafka=True).failure
    assert failure == Failure("Found an unknown record type 9", 9)
    removed = framed(16, 0, b"\2f\0")
    assert metadata(removed).kind == "REMOVE_FEATURE_LEVEL_RECORD"
    refused = metadata(removed, as_kafka=True)
    assert refused.failure is not None
    assert refused.failure.says is not None
    assert refused.failure.says.endswith("Unknown metadata id 16")


# -- members ---------------------------------------------------------------------------------------


def members(protocol: bytes, subscription: bytes) -> list[dict[str, Any]]:
    def sized(data: bytes, width: int = 2) -> bytes:
        return len(data).to_bytes(width, "big") + data

    member = b"".join(map(sized, (b"id", b"client", b"/host"))) + bytes(4)
    member += sized(subscription, 4) + sized(b"", 4)
    value = b"\0\0" + sized(protocol) + bytes(4) + b"\xff\xff\xff\xff" + bytes(3) + b"\1" + member
    decoded = offsets(b"\0\2\0\1g", value)
    assert decoded.value is not None, decoded
    found: list[dict[str, Any]] = decoded.value["data"]["members"]
    return found


def test_what_consumers_carry_is_expanded() -> None:
    (member,) = members(b"consumer", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    assert member["subscription"] == {"topics": ["t"], "userData": None}
    assert member["assignment"] == ""


def test_what_others_carry_stays_base64() -> None:
    (member,) = members(b"connect", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    assert member["subscription"] == "AAAAAAABAAF0/////w=="


def test_what_consumers_carry_and_cannot_be_read_stays_base64() -> None:
    assert members(b"consumer", b"\0\0\0\0\0\1\0\1")[0]["subscription"] == "AAAAAAABAAE="
    assert members(b"consumer", b"\0")[0]["subscription"] == "AA=="


# -- frames ----------------------------------------------------------------------------------------

UNKNOWN_FRAME = (
    "Could not deserialize metadata record due to unknown frame version 2"
    "(only frame version 1 is supported)"
)
TOPIC = framed(2, 0, b"\7orders" + bytes(16) + b"\0")


def test_a_frame_holds_type_version_and_message() -> None:
    assert metadata(TOPIC).value == {
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": {"name": "orders", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"},
    }


@pytest.mark.parametrize(
    ("value", "note", "says"),
    [
        (b"", "the frame version does not parse", "Error while reading frame version"),
        (b"\1", "the type does not parse", "Error while reading type"),
        (b"\1\2\x80", "the version does not parse", "Error while reading version"),
        (b"\1\xff\xff\x7f\0", "the type is too large", "Value for type was too large."),
        (b"\2\2\0", "frame version 2 is not known", UNKNOWN_FRAME),
        (TOPIC + b"!", "1 bytes follow the message", "Found 1 byte(s) of garbage after 2"),
        (TOPIC[:-1], "the message ends inside the tagged fields: expected 1 bytes, found 0 bytes at byte 26",
         "Failed to deserialize record with type 2"),
        (framed(77, 0, b""), "record type 77 is not known",
         "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 77"),
    ],
)  # fmt: skip
def test_a_bad_frame_stays_bytes(value: bytes, note: str, says: str) -> None:
    decoded = metadata(value)
    assert (decoded.value, decoded.value_note) == (None, note)
    assert decoded.failure is not None
    assert decoded.failure.says == says


def test_the_preview_of_kraft_is_named() -> None:
    note = metadata(framed(2, 0, b"", frame=0)).value_note
    assert note == "frame version 0 is that of the preview of KRaft in Kafka 2.8"


def test_a_newer_version_is_bytes_here_and_read_as_kafka_reads_it() -> None:
    newer = framed(2, 3, b"\7orders" + bytes(16) + b"\0")
    decoded = metadata(newer)
    assert decoded.value is None
    assert decoded.value_note == ("version 3 of TopicRecord is not known: expected 0 to 0, found 3")
    read = metadata(newer, as_kafka=True).value
    assert read is not None
    assert (read["version"], read["data"]["name"]) == (3, "orders")


def test_a_frame_has_no_key() -> None:
    decoded = metadata(TOPIC, b"key")
    assert decoded.key_note == "records of this topic have no key"
    assert decoded.value is not None
    assert metadata(None).failure == Failure("Error while reading frame version")
