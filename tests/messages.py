"""Messages of Kafka's protocol for tests: random ones, and their bytes."""

from __future__ import annotations

import base64
import math
import struct
from pathlib import Path
from random import Random
from typing import Any

import engine.topics.message
from engine.coding.varint import encode_unsigned_varint
from engine.topics.message.notation import read_messages
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, Type

FILES = {
    path.stem: read_messages(engine.topics.message.__name__, path.name)
    for path in sorted(Path(*engine.topics.message.__path__).glob("*.txt"))
}
"""The messages of internal topics and control records, by the files that declare them."""
NAMED = {name: message for messages in FILES.values() for name, message in messages.items()}
MESSAGES = tuple(NAMED.values())
VERSIONS: tuple[tuple[Message, int], ...] = tuple(
    (message, version)
    for message in MESSAGES
    for version in range(message.first_version, message.last_version + 1)
)
_LAYOUTS = {
    Scalar.BOOL: "?", Scalar.INT8: "b", Scalar.INT16: "h", Scalar.UINT16: "H", Scalar.INT32: "i",
    Scalar.UINT32: "I", Scalar.INT64: "q", Scalar.FLOAT64: "d",
}  # fmt: skip
_BITS = {
    Scalar.INT8: 8, Scalar.INT16: 16, Scalar.UINT16: 16, Scalar.INT32: 32, Scalar.UINT32: 32,
    Scalar.INT64: 64,
}  # fmt: skip
_TEXTS = ("", "orders", "gruppe-ß", 'say "hi"\\', "\x00\x1f\x7f\n", "🙂 ✓", "a" * 300)
_NUMBERS = (0.0, 1.5, -0.25, 1e10, 1e-7, 123456.789, math.inf, -math.inf, math.nan)


def file_of(message: Message) -> str:
    """The file that declares a message, without its ending."""
    return next(file for file, messages in FILES.items() if message.name in messages)


def names() -> list[str]:
    """A name for each of VERSIONS."""
    return [f"{message.name}-{version}" for message, version in VERSIONS]


def random_fields(message: Message, version: int, random: Random) -> dict[str, Any]:
    """The fields of a random message, in the form that `read_message` gives."""
    return _random_struct(message.fields, version, random)


def _random_struct(fields: tuple[Field, ...], version: int, random: Random) -> dict[str, Any]:
    return {field.name: _random_field(field, version, random) for field in fields}


def _random_field(field: Field, version: int, random: Random) -> Any:
    if not field.is_in(version) or (field.tag is not None and random.random() < 0.4):
        return field.absent()
    if field.nullable and random.random() < 0.3:
        return None
    return _random_value(field.type, version, random)


def _random_value(kind: Type, version: int, random: Random) -> Any:
    if isinstance(kind, Struct):
        return _random_struct(kind.fields, version, random)
    if isinstance(kind, Array):
        count = random.choice((0, 1, 2, 3, 3, 130))
        if count > 3 and not isinstance(kind.element, Scalar):
            count = 4
        return [_random_value(kind.element, version, random) for _ in range(count)]
    if kind is Scalar.BOOL:
        return random.random() < 0.5
    if kind is Scalar.UUID:
        raw = random.choice((bytes(16), random.randbytes(16), b"\xff" * 16))
        return base64.urlsafe_b64encode(raw)[:22].decode()
    if kind is Scalar.STRING:
        return random.choice(_TEXTS)
    if kind is Scalar.BYTES:
        return random.randbytes(random.choice((0, 1, 20, 200)))
    if kind is Scalar.FLOAT64:
        return random.choice(_NUMBERS)
    signed = kind not in (Scalar.UINT16, Scalar.UINT32)
    low, high = (
        (-(1 << _BITS[kind] - 1), (1 << _BITS[kind] - 1) - 1)
        if signed
        else (0, (1 << _BITS[kind]) - 1)
    )
    return random.choice((0, 1, low, high, high // 2, random.randint(low, high)))


def encode(
    message: Message,
    version: int,
    values: dict[str, Any],
    extra_tags: dict[int, bytes] | None = None,
) -> bytes:
    """The bytes of a message; fields that are not given have their defaults.

    `extra_tags` are added to those of the outermost structure.
    """
    return _struct(message, message.fields, version, values, extra_tags or {})


def _struct(
    message: Message,
    fields: tuple[Field, ...],
    version: int,
    values: dict[str, Any],
    extra_tags: dict[int, bytes],
) -> bytes:
    unknown = values.keys() - {field.name for field in fields}
    assert not unknown, unknown
    present = [field for field in fields if field.is_in(version)]
    given = {field.name: values.get(field.name, field.absent()) for field in present}
    row = [
        _field(message, field, version, given[field.name]) for field in present if field.tag is None
    ]
    if not message.is_flexible(version):
        return b"".join(row)
    tags = dict(extra_tags)
    for field in present:
        if field.tag is not None and given[field.name] != field.absent():
            tags[field.tag] = _field(message, field, version, given[field.name])
    parts = [encode_unsigned_varint(len(tags))]
    for tag in sorted(tags):
        parts += [encode_unsigned_varint(tag), encode_unsigned_varint(len(tags[tag])), tags[tag]]
    return b"".join(row + parts)


def _field(message: Message, field: Field, version: int, value: Any) -> bytes:
    flexible = message.is_flexible(version)
    if isinstance(field.type, Struct) and field.nullable:
        if field.tag is not None:
            mark = encode_unsigned_varint(0 if value is None else 1)
        else:
            mark = b"\xff" if value is None else b"\x01"
        return mark + (b"" if value is None else _value(message, field.type, version, value))
    if value is None:
        return _length(field.type, None, flexible=flexible)
    return _value(message, field.type, version, value)


def _value(message: Message, kind: Type, version: int, value: Any) -> bytes:
    flexible = message.is_flexible(version)
    if isinstance(kind, Struct):
        return _struct(message, kind.fields, version, value, {})
    if isinstance(kind, Array):
        items = [_value(message, kind.element, version, item) for item in value]
        return _length(kind, len(value), flexible=flexible) + b"".join(items)
    if kind is Scalar.UUID:
        return base64.urlsafe_b64decode(value + "==")
    if kind in (Scalar.STRING, Scalar.BYTES):
        raw = value.encode() if kind is Scalar.STRING else value
        return _length(kind, len(raw), flexible=flexible) + raw
    return struct.pack(f">{_LAYOUTS[kind]}", value)


def _length(kind: Type, length: int | None, *, flexible: bool) -> bytes:
    if flexible:
        return encode_unsigned_varint(0 if length is None else length + 1)
    return struct.pack(">h" if kind is Scalar.STRING else ">i", -1 if length is None else length)
