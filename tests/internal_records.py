"""Records of Kafka's internal topics for tests: random ones, and damaged ones."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from engine.coding.varint import encode_unsigned_varint
from engine.topics import internal_topics as topics
from engine.topics.coordinator_records import RecordType
from engine.topics.framed_records import FramedType
from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from engine.topics.message.schema import Message
from tests.messages import encode, random_fields

COORDINATORS: dict[str, dict[int, RecordType]] = {
    topics.CONSUMER_OFFSETS: topics.GROUP_RECORDS,
    topics.TRANSACTION_STATE: topics.TRANSACTION_RECORDS,
    topics.SHARE_GROUP_STATE: topics.SHARE_STATE_RECORDS,
}
FRAMED: dict[str, dict[int, FramedType]] = {
    topics.CLUSTER_METADATA: topics.METADATA_RECORDS,
    topics.REMOTE_LOG_METADATA: topics.REMOTE_RECORDS,
}


def versioned(message: Message, version: int, fields: dict[str, Any]) -> bytes:
    """A message behind its version, as the values of coordinators have it."""
    return struct.pack(">h", version) + encode(message, version, fields)


def framed(number: int, version: int, body: bytes, *, frame: int = 1) -> bytes:
    """A message in a frame, as __cluster_metadata has it."""
    return b"".join(map(encode_unsigned_varint, (frame, number, version))) + body


def random_record(topic: str, random: Random) -> tuple[bytes | None, bytes | None]:
    """The key and value of a good record of any type and version of a topic, now and then a tombstone."""
    if topic in FRAMED:
        number, (_, message, _) = random.choice(sorted(FRAMED[topic].items()))
        version = random.randint(message.first_version, message.last_version)
        body = encode(message, version, random_fields(message, version, random))
        return None, framed(number, version, body)
    number, kind = random.choice(sorted(COORDINATORS[topic].items()))
    key = struct.pack(">h", number) + encode(kind.key, 0, random_fields(kind.key, 0, random))
    if random.random() < 0.1:
        return key, None
    version = random.randint(kind.value.first_version, kind.value.last_version)
    fields = random_fields(kind.value, version, random)
    if kind.name == "GROUP_METADATA":
        fields["protocolType"] = random.choice(("consumer", "consumer", "connect", ""))
        for member in fields["members"]:
            member["subscription"] = _carried(CONSUMER_PROTOCOL_SUBSCRIPTION, random)
            member["assignment"] = _carried(CONSUMER_PROTOCOL_ASSIGNMENT, random)
    return key, versioned(kind.value, version, fields)


def _carried(message: Message, random: Random) -> bytes:
    version = random.randint(0, message.last_version)
    data = versioned(message, version, random_fields(message, version, random))
    return random.choice((data, data, data, damaged(data, random), b"", b"\0", random.randbytes(9)))


def damaged(data: bytes, random: Random, *, at_most: int = 3) -> bytes:
    """The bytes with some of them changed, and perhaps cut off."""
    hurt = bytearray(data)
    for _ in range(random.randint(1, at_most)):
        if hurt:
            hurt[random.randrange(len(hurt))] = random.choice(
                (0, 1, 127, 128, 255, random.randrange(256))
            )
    if random.random() < 0.3:
        del hurt[random.randrange(len(hurt) + 1) :]
    return bytes(hurt)
