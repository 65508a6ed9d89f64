"""Messages as bytes, from the same declarations that read them."""

from __future__ import annotations

import struct
from typing import Any

from engine.coding.varint import encode_unsigned_varint
from engine.topics.message.schema import Message
from tests.messages import encode


def message_bytes(message: Message, version: int = 0, **values: Any) -> bytes:
    """A message of a version; fields that are not given have their defaults."""
    return encode(message, version, values)


def coordinator_key(number: int, message: Message, **values: Any) -> bytes:
    """The key of a coordinator's record: its type and the message."""
    return struct.pack(">h", number) + message_bytes(message, 0, **values)


def coordinator_value(version: int, message: Message, **values: Any) -> bytes:
    """The value of a coordinator's record: its version and the message."""
    return struct.pack(">h", version) + message_bytes(message, version, **values)


def framed(number: int, version: int, message: Message, **values: Any) -> bytes:
    """The value of a record of the metadata topics: frame version, type, version, message."""
    head = b"".join(map(encode_unsigned_varint, (1, number, version)))
    return head + message_bytes(message, version, **values)
