"""Whether kafkafs shows a key or value as an official deserializer reads it.

- Protobuf: the JSON that kafkafs shows, read by Google's JSON parser, is the message of the deserializer: the same bytes
  when both are serialized again. Fields that the type does not have are left out, and proto2's defaults are filled in,
  which kafkafs shows as Java does.
- Avro and JSON: the same structure; bytes are base64, durations an object of their three numbers, decimals have the same
  digits, UUIDs their text; dates, times and timestamps are the same moment, and a timestamp has UTC where Python has it;
  a float is the same number of its size, NaN and infinities have the names that Java gives them. fastavro leaves
  timestamps of nanoseconds numbers, and UUIDs in 16 bytes as they are.
"""

from __future__ import annotations

import math
import re
import struct
from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from google.protobuf import json_format

LARGEST_FLOAT = 3.4028234663852886e38
DURATION = ("months", "days", "milliseconds")
NANOSECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z?")


def is_same_message(message: Any, shown: Any) -> bool:
    """Whether JSON is a Protobuf message, for Google's parser."""
    pool = message.DESCRIPTOR.file.pool
    parsed = json_format.ParseDict(plain_numbers(shown), type(message)(), descriptor_pool=pool)
    message.DiscardUnknownFields()
    return serialized(parsed) == serialized(message)


def plain_numbers(value: Any) -> Any:
    """JSON with floats; Google's parser takes the largest one of 32 bits only with all digits of a double."""
    if isinstance(value, dict):
        return {name: plain_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_numbers(each) for each in value]
    if isinstance(value, Decimal):
        number = float(value)
        return math.copysign(LARGEST_FLOAT, number) if abs(number) == 3.4028235e38 else number
    return value


def serialized(message: Any) -> bytes:
    """A message's bytes, after the defaults that a member of no oneof has were filled in."""
    fill(message)
    found: bytes = message.SerializePartialToString(deterministic=True)
    return found


def fill(message: Any) -> None:
    """Set the fields that have a default, in the message and in those inside it."""
    for field in message.DESCRIPTOR.fields:
        is_message = field.message_type is not None
        if not is_message and field.has_presence and field.containing_oneof is None:
            setattr(message, field.name, getattr(message, field.name))
        elif is_message and not field.is_repeated and message.HasField(field.name):
            fill(getattr(message, field.name))
        elif is_message and field.is_repeated and not field.message_type.GetOptions().map_entry:
            for each in getattr(message, field.name):
                fill(each)


def is_same(value: Any, shown: Any) -> bool:
    """Whether a value of Python, out of JSON or Avro, is the JSON that kafkafs shows."""
    if isinstance(value, dict):
        return (
            isinstance(shown, dict)
            and value.keys() == shown.keys()
            and all(is_same(value[name], shown[name]) for name in value)
        )
    if isinstance(value, list):
        return (
            isinstance(shown, list) and len(value) == len(shown) and all(map(is_same, value, shown))
        )
    if isinstance(value, float):
        return is_same_float(value, shown)
    if isinstance(value, bytes) and isinstance(shown, dict):
        return dict(zip(DURATION, struct.unpack("<3I", value), strict=True)) == shown
    if isinstance(value, bytes) and len(value) == 16:
        return shown in (str(UUID(bytes=value)), plain(value))
    if isinstance(value, (datetime, time)):
        return isinstance(shown, str) and type(value).fromisoformat(shown) == value
    if isinstance(value, int) and isinstance(shown, str):
        return is_same_nanosecond(value, shown)
    return type(shown) is type(plain(value)) and bool(shown == plain(value))


def plain(value: Any) -> Any:
    """A value that is a string in JSON, as the string."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def is_same_float(value: float, shown: Any) -> bool:
    if not math.isfinite(value):
        return bool(shown == {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)])
    if not isinstance(shown, (Decimal, int)):
        return False
    with np.errstate(over="ignore"):
        is_float = np.float32(value) == value
        return float(shown) == value or bool(is_float and np.float32(float(shown)) == value)


def is_same_nanosecond(value: int, shown: str) -> bool:
    """Whether a text is the moment so many nanoseconds after 1970."""
    if not NANOSECONDS.fullmatch(shown):
        return False
    moment = datetime.fromisoformat(shown[:19]) - datetime(1970, 1, 1)  # noqa: DTZ001 - of a local time too
    return (moment.days * 86_400 + moment.seconds) * 10**9 + int(shown[20:29]) == value
