"""Decode the consumer protocol's messages inside GroupMetadataValue, the metadata of a classic group's members."""

from __future__ import annotations

import base64
from typing import Any

from engine.errors import CorruptMessageError
from engine.topics.decoded_record import JsonObject
from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from engine.topics.message.json_form import read_json
from engine.topics.message.schema import Message

CONSUMER_PROTOCOL = "consumer"
"""Protocol type of consumer groups; groups of other types have other bytes in their members."""


def expand_members(data: JsonObject) -> None:
    """Replace each member's subscription and assignment with the decoded message, where possible."""
    if data["protocolType"] != CONSUMER_PROTOCOL:
        return
    for member in data["members"]:
        _expand(member, "subscription", CONSUMER_PROTOCOL_SUBSCRIPTION)
        _expand(member, "assignment", CONSUMER_PROTOCOL_ASSIGNMENT)


def _expand(member: dict[str, Any], name: str, message: Message) -> None:
    raw = base64.b64decode(member[name])
    if len(raw) < 2:
        return
    version = int.from_bytes(raw[:2], "big", signed=True)
    try:
        member[name], _ = read_json(message, version, raw, 2, lenient=True)
    except CorruptMessageError:
        return  # it stays base64
