"""Internal topics by name, with their record types."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import CorruptMessageError
from engine.topics import message as messages
from engine.topics.coordinator_records import CoordinatorDecoder, RecordType
from engine.topics.decoded_record import JsonObject, TopicDecoder
from engine.topics.framed_records import FramedDecoder, FramedType
from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from engine.topics.message.json_form import read_json
from engine.topics.message.notation import read_messages
from engine.topics.message.schema import Message
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from engine.topics.transaction_states import name_state

_WORD_START = re.compile("(?<=[a-z])(?=[A-Z])")
_WIDER = {"LEGACY_OFFSET_COMMIT": "OffsetCommitValue"}
"""Messages with the versions of a value that its own message does not have."""


CONSUMER_PROTOCOL = "consumer"
"""Protocol type of consumer groups; groups of other types have other bytes in their members."""


def expand_members(data: JsonObject) -> None:
    """Replace each member's subscription and assignment with the decoded message, where possible."""
    if data["protocolType"] != CONSUMER_PROTOCOL:
        return
    for member in data["members"]:
        _expand(member, "subscription", CONSUMER_PROTOCOL_SUBSCRIPTION)
        _expand(member, "assignment", CONSUMER_PROTOCOL_ASSIGNMENT)


_FINISH: Mapping[str, Callable[[JsonObject], None]] = {
    "GROUP_METADATA": expand_members,
    "TRANSACTION_LOG": name_state,
}


def _expand(member: dict[str, Any], name: str, message: Message) -> None:
    raw = base64.b64decode(member[name])
    if len(raw) < 2:
        return
    version = int.from_bytes(raw[:2], "big", signed=True)
    try:
        member[name], _ = read_json(message, version, raw, 2, lenient=True)
    except CorruptMessageError:
        return  # it stays base64


def _messages(*names: str) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for name in names:
        found |= read_messages(messages.__name__, f"{name}.txt")
    return found


def _type_name(message: str) -> str:
    """Return Kafka's name of a type of record, such as TOPIC_RECORD for the message TopicRecord."""
    return _WORD_START.sub("_", message).upper()


def _framed_types(name: str) -> dict[int, FramedType]:
    return {
        each.type_id: FramedType(_type_name(each.name), each, each.is_retired)
        for each in _messages(name).values()
        if each.type_id is not None
    }


def _coordinator_types(*names: str) -> dict[int, RecordType]:
    known, found = _messages(*names), {}
    for key in known.values():
        kind = key.name.removesuffix("Key")
        if key.type_id is None or kind == key.name:
            continue
        name = _type_name(kind)
        found[key.type_id] = RecordType(
            name,
            key,
            known[f"{kind}Value"],
            _FINISH.get(name),
            known[_WIDER[name]] if name in _WIDER else None,
            key.is_retired,
        )
    return found


GROUP_RECORDS = _coordinator_types(
    "consumer_offsets", "consumer_groups", "share_groups", "streams_groups"
)
"""Record types of __consumer_offsets by number."""
TRANSACTION_RECORDS = _coordinator_types("transaction_log")
"""Record types of __transaction_state by number."""
SHARE_STATE_RECORDS = _coordinator_types("share_group_state")
"""Record types of __share_group_state by number."""
METADATA_RECORDS = _framed_types("cluster_metadata")
"""Record types of __cluster_metadata and its snapshots by number."""
REMOTE_RECORDS = _framed_types("remote_log_metadata")
"""Record types of __remote_log_metadata by number."""

_DECODERS: dict[str, TopicDecoder] = {
    CONSUMER_OFFSETS: CoordinatorDecoder(GROUP_RECORDS),
    TRANSACTION_STATE: CoordinatorDecoder(TRANSACTION_RECORDS),
    SHARE_GROUP_STATE: CoordinatorDecoder(SHARE_STATE_RECORDS),
    CLUSTER_METADATA: FramedDecoder(METADATA_RECORDS, "Error while reading frame version"),
    REMOTE_LOG_METADATA: FramedDecoder(
        REMOTE_RECORDS,
        'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
        '"org.apache.kafka.common.record.internal.Record.value()" is null',
    ),
}


def decoder_for(topic: str) -> TopicDecoder | None:
    """Return the decoder for a topic; None for a topic that is not internal, by its exact name."""
    return _DECODERS.get(topic)
