"""Messages as bytes, from the same declarations that read them."""

from __future__ import annotations

import base64
import struct
from typing import Any

from engine.coding.varint import encode_unsigned_varint
from engine.message.schema import Array, Field, Message, Scalar, Struct, Type, empty

FORMATS = {
    Scalar.BOOL: ">?",
    Scalar.INT8: ">b",
    Scalar.INT16: ">h",
    Scalar.UINT16: ">H",
    Scalar.INT32: ">i",
    Scalar.UINT32: ">I",
    Scalar.INT64: ">q",
    Scalar.FLOAT64: ">d",
}


def message_bytes(message: Message, version: int = 0, **values: Any) -> bytes:
    """A message of a version; fields that are not given have their defaults."""
    return _struct(message.fields, values, version, flexible=message.is_flexible(version))


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


def _struct(
    fields: tuple[Field, ...], values: dict[str, Any], version: int, *, flexible: bool
) -> bytes:
    unknown = values.keys() - {field.name for field in fields}
    assert not unknown, unknown
    row, tagged = [], []
    for field in fields:
        if not field.is_in(version):
            continue
        value = values.get(field.name, field.absent())
        if field.tag is None:
            row.append(_value(field.type, value, version, flexible=flexible))
        elif value != field.absent():
            data = _value(field.type, value, version, flexible=True)
            tagged.append((field.tag, data))
    if flexible:
        row.append(encode_unsigned_varint(len(tagged)))
        for tag, data in sorted(tagged):
            row += [encode_unsigned_varint(tag), encode_unsigned_varint(len(data)), data]
    return b"".join(row)


def _value(kind: Type, value: Any, version: int, *, flexible: bool) -> bytes:
    if isinstance(kind, Struct):
        return _struct(kind.fields, value, version, flexible=flexible)
    if isinstance(kind, Array):
        items = value or []
        data = b"".join(_value(kind.element, item, version, flexible=flexible) for item in items)
        return _length(value, len(items), ">i", flexible=flexible) + data
    if kind is Scalar.STRING:
        text = (value or "").encode()
        return _length(value, len(text), ">h", flexible=flexible) + text
    if kind is Scalar.BYTES:
        return _length(value, len(value or b""), ">i", flexible=flexible) + (value or b"")
    if kind is Scalar.UUID:
        return base64.urlsafe_b64decode((value or empty(kind)) + "==")
    return struct.pack(FORMATS[kind], value)


def _length(value: Any, length: int, form: str, *, flexible: bool) -> bytes:
    if flexible:
        return encode_unsigned_varint(0 if value is None else length + 1)
    return struct.pack(form, -1 if value is None else length)
