"""Kafka's generated classes judge how messages are read, and its dump tool's parsers what records say."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CorruptMessageError
from engine.topics.decoded_record import DecodedRecord
from engine.topics.internal_topics import decoder_for
from engine.topics.message.json_form import read_json
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tests.internal_records import damaged, random_record
from tests.kafka.conftest import SEED, why_not
from tests.kafka.judge import Judge
from tests.messages import VERSIONS, encode, file_of, random_fields

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
SOURCE = Path(__file__).parent / "judge" / "Messages.java"
GROUPS = "org.apache.kafka.coordinator.group.generated"
PACKAGES = {
    "cluster_metadata": "org.apache.kafka.common.metadata",
    "consumer_groups": GROUPS,
    "consumer_offsets": GROUPS,
    "consumer_protocol": "org.apache.kafka.common.message",
    "control_records": "org.apache.kafka.common.message",
    "remote_log_metadata": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "share_group_state": "org.apache.kafka.coordinator.share.generated",
    "share_groups": GROUPS,
    "streams_groups": GROUPS,
    "transaction_log": "org.apache.kafka.coordinator.transaction.generated",
}
PARSERS = {
    CONSUMER_OFFSETS: "OffsetsMessageParser",
    TRANSACTION_STATE: "TransactionLogMessageParser",
    SHARE_GROUP_STATE: "ShareGroupStateMessageParser",
    CLUSTER_METADATA: "ClusterMetadataLogMessageParser",
}
KNOWN = [(message, version) for message, version in VERSIONS if not message.is_retired]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(source=SOURCE) as judge:
        yield judge


def base64_of(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def ours(message: Any, version: int, data: bytes) -> dict[str, Any]:
    try:
        found, end = read_json(message, version, data)
    except CorruptMessageError as error:
        return {"failed": error.kafka_says}
    return {"json": found, "left": len(data) - end}


@pytest.mark.parametrize("part", range(4))
def test_every_message_of_every_version_reads_as_kafka_reads_it(judge: Judge, part: int) -> None:
    chance = random.Random(SEED + part)
    for message, version in KNOWN[part::4]:
        name = f"{PACKAGES[file_of(message)]}.{message.name}"
        for turn in range(12):
            extra = {90 + tag: chance.randbytes(3) for tag in range(chance.choice((0, 0, 2)))}
            extra = extra if message.is_flexible(version) else {}
            data = encode(message, version, random_fields(message, version, chance), extra)
            data = damaged(data, chance) if turn % 3 == 2 else data
            asked = {"class": name, "version": version, "bytes": base64_of(data)}
            answer = judge.ask("read", **asked)
            found = ours(message, version, data)
            if "failed" in answer:
                assert "failed" in found, (name, version, data.hex())
                # A buffer that is not copied says it with other words there.
                assert found == answer or "newLimit" in answer["failed"], (name, data.hex())
                continue
            theirs = {"json": json.loads(answer["json"]), "left": answer["left"]}
            assert json.dumps(found) == json.dumps(theirs), (name, version, data.hex())
            if answer["bytes"] is not None:  # as Kafka itself writes it
                again = base64.b64decode(answer["bytes"])
                written = ours(message, version, again)
                assert json.dumps(written) == json.dumps(theirs | {"left": 0}), (name, again.hex())


def shown(decoded: DecodedRecord, topic: str, value: bytes | None) -> tuple[Any, Any]:
    """What the dump tool prints as key and payload: text, or JSON where it is that."""
    failure = decoded.failure
    if topic == CLUSTER_METADATA:
        said = None if failure is None else f"Error at 0, skipping. {failure.says}"
        return None, decoded.value if said is None else said
    if failure is not None and failure.unknown_type is not None:
        return f"Unknown record type {failure.unknown_type} at offset 0, skipping.", None
    if failure is not None:
        return f"Error at offset 0, skipping. {failure.says}", None
    return decoded.key, "<DELETE>" if value is None else decoded.value


def parsed(text: str | None) -> Any:
    return json.loads(text) if text is not None and text.startswith("{") else text


@pytest.mark.parametrize("topic", PARSERS)
def test_records_say_what_the_dump_tool_makes_of_them(judge: Judge, topic: str) -> None:
    chance = random.Random(SEED)
    decoder = decoder_for(topic)
    assert decoder is not None
    for turn in range(600):
        key, value = random_record(topic, chance)
        if turn % 3 == 2:
            key = None if key is None else damaged(key, chance, at_most=1) or b"\0"
            value = None if value is None else damaged(value, chance)
        parser = PARSERS[topic]
        fields = {"parser": parser, "key": base64_of(key), "value": base64_of(value)}
        answer = judge.ask("dump", **fields)
        theirs = parsed(answer["key"]), parsed(answer["payload"])
        found = shown(decoder.decode(key, value, as_kafka=True), topic, value)
        assert json.dumps(found) == json.dumps(theirs), (fields, found, theirs)
