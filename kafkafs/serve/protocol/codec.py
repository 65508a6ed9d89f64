"""Requests from bytes, and answers to bytes around the records that stay in their files."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple, TypeAlias

from engine.coding.fixed_width import encode_float64, read_int16, read_int32
from engine.coding.varint import encode_unsigned_varint
from engine.errors import CorruptMessageError
from engine.topics.message.decoding import CountedBytes, read_message
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, Type
from engine.units import MAX_INT32
from kafkafs.serve.asked import Fields
from kafkafs.serve.file_slice import Piece, size_of
from kafkafs.serve.protocol.apis import APIS
from kafkafs.serve.protocol.messages.cluster import API_VERSIONS

MOST_REPEATS = 1000
"""Elements of an array of a request that may be there before."""
_HEADER = 8
"""Bytes of key, version and correlation id."""
_SIZES = {
    Scalar.BOOL: 1, Scalar.INT8: 1, Scalar.INT16: 2, Scalar.UINT16: 2, Scalar.INT32: 4, Scalar.INT64: 8,
}  # fmt: skip
_UNSIGNED = (Scalar.BOOL, Scalar.UINT16)
_NULL, _NOT_NULL = b"\xff", b"\1"
"""The byte before a structure that may be null."""
_NO_FIELDS = Message("RequestHeader", (), 32_767, 0, 0)


class ReceivedRequest(NamedTuple):
    """A request; `fields` is None for an API or a version that is not known.

    Attributes:
        key, version: number and version of the API.
        correlation: number of the request, which its answer repeats.
        client_id: name that the client states, or None.
    """

    key: int
    version: int
    correlation: int
    client_id: str | None
    fields: Fields | None


def read_request(frame: bytes, most_elements: int = MAX_INT32) -> ReceivedRequest:
    """Return the request in the bytes after a length.

    Args:
        frame: the bytes.
        most_elements: most elements of all its arrays together.

    Raises:
        CorruptMessageError: the bytes are no request.
    """
    if len(frame) < _HEADER:
        raise CorruptMessageError("a request is cut off within its header")
    key, version, correlation = (
        read_int16(frame, 0),
        read_int16(frame, 2),
        read_int32(frame, 4),
    )
    api = APIS.get(key)
    if api is None or not api.request.knows(version):
        return ReceivedRequest(key, version, correlation, None, None)
    client_id, position = _client_id(frame, _HEADER)
    if api.request.is_flexible(version):
        _, position = read_message(_NO_FIELDS, 0, frame, position)
    # Bytes after the request are ignored, as brokers do: librdkafka's Metadata for all topics has three.
    counted = CountedBytes.of(frame, most_elements)
    fields, _ = read_message(api.request, version, counted, position)
    _check_repeats(fields)
    return ReceivedRequest(key, version, correlation, client_id, fields)


def _check_repeats(fields: Fields) -> None:
    """Refuse a request that names the same things many times: its answer would be far larger.

    Raises:
        CorruptMessageError: it does.
    """
    for name, value in fields.items():
        if not isinstance(value, list):
            continue
        if len(value) > MOST_REPEATS and len(value) - len(set(map(repr, value))) > MOST_REPEATS:
            raise CorruptMessageError(f"{name} repeats more than {MOST_REPEATS} elements")
        for each in value:
            if isinstance(each, dict):
                _check_repeats(each)


def _client_id(frame: bytes, position: int) -> tuple[str | None, int]:
    if len(frame) < position + 2:
        raise CorruptMessageError("a request is cut off within its header")
    size, start = read_int16(frame, position), position + 2
    if size < 0:
        return None, start
    if start + size > len(frame):
        raise CorruptMessageError("the client id of a request is cut off")
    return frame[start : start + size].decode("utf-8", "replace"), start + size


_Pieces: TypeAlias = "list[Piece]"


def write_response(key: int, version: int, correlation: int, fields: Fields) -> tuple[Piece, ...]:
    """Return the pieces of an answer with its length, in order.

    Args:
        fields: fields by name; those that are missing have their defaults. Records are a tuple of pieces, other bytes are bytes.
    """
    message = APIS[key].response
    pieces: _Pieces = [correlation.to_bytes(4, "big", signed=True)]
    # A client that does not know the versions yet cannot know whether the header has tags.
    if message.is_flexible(version) and key != API_VERSIONS.key:
        pieces.append(b"\0")
    _write_struct(message, message.fields, version, fields, pieces)
    size = size_of(tuple(pieces))
    return (size.to_bytes(4, "big"), *pieces)


def _write_struct(
    message: Message, fields: tuple[Field, ...], version: int, values: Fields, pieces: _Pieces
) -> None:
    tagged: dict[int, bytes] = {}
    for field in fields:
        if not field.is_in(version):
            continue
        value = values[field.name] if field.name in values else field.absent()
        if field.tag is None:
            if field.nullable and isinstance(field.type, Struct):
                pieces.append(_NULL if value is None else _NOT_NULL)
            _write(message, field.type, version, value, pieces)
        elif value != field.absent():
            inner: _Pieces = []
            _write(message, field.type, version, value, inner)
            tagged[field.tag] = b"".join(inner)  # type: ignore[arg-type]  # tags hold no records
    if message.is_flexible(version):
        pieces.append(encode_unsigned_varint(len(tagged)))
        for tag in sorted(tagged):
            head = encode_unsigned_varint(tag) + encode_unsigned_varint(len(tagged[tag]))
            pieces.append(head + tagged[tag])


def _write(message: Message, kind: Type, version: int, value: Any, pieces: _Pieces) -> None:  # noqa: ANN401
    if isinstance(kind, Struct):
        if value is not None:
            _write_struct(message, kind.fields, version, value, pieces)
    elif isinstance(kind, Array):
        pieces.append(_length(message, version, None if value is None else len(value), 4))
        for each in value or ():
            _write(message, kind.element, version, each, pieces)
    elif kind is Scalar.UUID:
        pieces.append(base64.urlsafe_b64decode(value + "=="))
    elif kind is Scalar.STRING:
        data = None if value is None else value.encode()
        pieces.append(_length(message, version, None if data is None else len(data), 2))
        pieces.append(data or b"")
    elif kind is Scalar.FLOAT64:
        pieces.append(encode_float64(value))
    elif kind is Scalar.BYTES:
        parts = (value,) if isinstance(value, bytes) else value
        pieces.append(_length(message, version, None if parts is None else size_of(parts), 4))
        pieces += parts or ()
    else:
        pieces.append(int(value).to_bytes(_SIZES[kind], "big", signed=kind not in _UNSIGNED))


def _length(message: Message, version: int, length: int | None, size: int) -> bytes:
    if message.is_flexible(version):
        return encode_unsigned_varint(0 if length is None else length + 1)
    return (-1 if length is None else length).to_bytes(size, "big", signed=True)
