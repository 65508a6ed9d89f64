"""Write the fields of a message as bytes, for every version of its schema, around bytes that are elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, TypeAlias

from engine.coding.fixed_width import encode_float64
from engine.coding.layout import Buffer
from engine.coding.varint import encode_unsigned_varint
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, Type

_SIZES = {
    Scalar.BOOL: 1, Scalar.INT8: 1, Scalar.INT16: 2, Scalar.UINT16: 2, Scalar.INT32: 4, Scalar.UINT32: 4,
    Scalar.INT64: 8,
}  # fmt: skip
_UNSIGNED = (Scalar.BOOL, Scalar.UINT16, Scalar.UINT32)
_NULL, _TAGGED_NULL, _NOT_NULL = b"\xff", b"\0", b"\1"
"""The byte before a structure that may be null."""


Pieces: TypeAlias = list[Any]
"""Consecutive parts of a message, none of them empty but the first: bytearrays, and the parts of BYTES that are no buffers."""


def write_message(
    message: Message, version: int, values: Mapping[str, Any], head: bytes = b""
) -> Pieces:
    """Return a message: the buffers of its bytes, and between them the bytes that are elsewhere. The first is a buffer.

    Args:
        values: fields by name, in the form that `read_message` gives. Those that are missing have their defaults. BYTES
            may also be a tuple of parts: buffers, or objects with a `size` for bytes that are elsewhere, as in a file.
        head: bytes before the message.

    Raises:
        OverflowError: a number is out of its range.
        ValueError: a UUID or a text has no bytes.
    """
    pieces: Pieces = [bytearray(head)]
    _write_struct(message, message.fields, version, values, pieces)
    return pieces


def _put(pieces: Pieces, data: Buffer) -> None:
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += data
    elif data:
        pieces.append(bytearray(data))


def _write_struct(
    message: Message,
    fields: tuple[Field, ...],
    version: int,
    values: Mapping[str, Any],
    pieces: Pieces,
) -> None:
    tagged: dict[int, Buffer] = {}
    for field in fields:
        if not field.is_in(version):
            continue
        value = values[field.name] if field.name in values else field.absent()
        if field.tag is None:
            _write_field(message, field, version, value, pieces)
        elif value != field.absent():
            inner = bytearray()
            _write_field(message, field, version, value, [inner])
            tagged[field.tag] = inner
    if message.is_flexible(version):
        _put(pieces, encode_unsigned_varint(len(tagged)))
        for tag in sorted(tagged):
            head = encode_unsigned_varint(tag) + encode_unsigned_varint(len(tagged[tag]))
            _put(pieces, head + tagged[tag])


def _write_field(message: Message, field: Field, version: int, value: Any, pieces: Pieces) -> None:  # noqa: ANN401
    if field.nullable and isinstance(field.type, Struct):
        null = _NULL if field.tag is None else _TAGGED_NULL
        _put(pieces, null if value is None else _NOT_NULL)
    _write(message, field.type, version, value, pieces)


def _write(message: Message, kind: Type, version: int, value: Any, pieces: Pieces) -> None:  # noqa: ANN401
    if isinstance(kind, Struct):
        if value is not None:
            _write_struct(message, kind.fields, version, value, pieces)
    elif isinstance(kind, Array):
        _put(pieces, _length(message, version, None if value is None else len(value), 4))
        for each in value or ():
            _write(message, kind.element, version, each, pieces)
    elif kind is Scalar.UUID:
        _put(pieces, _uuid_bytes(value))
    elif kind is Scalar.STRING:
        data = None if value is None else value.encode()
        _put(pieces, _length(message, version, None if data is None else len(data), 2))
        _put(pieces, data or b"")
    elif kind is Scalar.FLOAT64:
        _put(pieces, encode_float64(value))
    elif kind is Scalar.BYTES:
        _write_bytes(message, version, value, pieces)
    else:
        _put(pieces, int(value).to_bytes(_SIZES[kind], "big", signed=kind not in _UNSIGNED))


def _uuid_bytes(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text + "==")
    if len(data) != 16:
        raise ValueError(f"{text!r} is not a UUID")
    return data


def _write_bytes(message: Message, version: int, value: Any, pieces: Pieces) -> None:  # noqa: ANN401
    parts = value if isinstance(value, tuple) else () if value is None else (value,)
    sizes = [len(part) if isinstance(part, Buffer) else part.size for part in parts]
    _put(pieces, _length(message, version, None if value is None else sum(sizes), 4))
    for part, size in zip(parts, sizes, strict=True):
        if isinstance(part, Buffer):
            _put(pieces, part)
        elif size:
            pieces.append(part)


def _length(message: Message, version: int, length: int | None, size: int) -> bytes:
    if message.is_flexible(version):
        return encode_unsigned_varint(0 if length is None else length + 1)
    return (-1 if length is None else length).to_bytes(size, "big", signed=True)
