"""What classic consumers send to each other: the bytes of subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import CorruptMessageError
from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from engine.topics.message.decoding import read_message
from tests.messages import encode

Places = Mapping[str, Sequence[int]]
"""Partitions by topic."""


def subscription(
    topics: Sequence[str], owned: Places | None = None, rack: str | None = None, version: int = 3
) -> bytes:
    """The bytes of a subscription."""
    fields = {
        "topics": list(topics), "userData": None, "ownedPartitions": _topics(owned or {}), "generationId": -1,
        "rackId": rack,
    }  # fmt: skip
    return version.to_bytes(2, "big") + encode(CONSUMER_PROTOCOL_SUBSCRIPTION, version, fields)


def assignment(places: Places, data: bytes | None = None) -> bytes:
    """The bytes of an assignment."""
    fields = {"assignedPartitions": _topics(places), "userData": data}
    return b"\0\1" + encode(CONSUMER_PROTOCOL_ASSIGNMENT, 1, fields)


def assigned(data: bytes) -> dict[str, list[int]]:
    """What an assignment assigns; nothing for bytes that are none."""
    try:
        version = int.from_bytes(data[:2], "big", signed=True)
        fields, _ = read_message(CONSUMER_PROTOCOL_ASSIGNMENT, version, data, 2, lenient=True)
    except CorruptMessageError:
        return {}
    return {each["topic"]: each["partitions"] for each in fields["assignedPartitions"]}


def with_sorted_assignments(value: Any, name: str = "") -> Any:
    """An answer with assignments in one order: that of several topics is a hash map's."""
    if isinstance(value, dict):
        return {key: with_sorted_assignments(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [with_sorted_assignments(each) for each in value]
    if isinstance(value, bytes) and "ssignment" in name and len(assigned(value)) > 1:
        return value[:2], sorted(assigned(value).items()), len(value)
    return value


def _topics(places: Places) -> list[dict[str, object]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in places.items()]
