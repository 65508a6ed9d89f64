"""Requests from bytes, and answers to bytes around the records that stay in their files."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from engine import kernel
from engine.coding.fixed_width import read_int16, read_int32
from engine.errors import CorruptMessageError
from engine.topics.message.notation import parse_messages
from engine.topics.message.schema import Message
from engine.units import MAX_INT32
from kafkafs.serve.file_slice import Piece, size_of
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.request import Fields

MOST_REPEATS = 1000
"""Elements of an array of a request that may be there before."""
_HEADER = 8
"""Bytes of key, version and correlation id."""
_SIZE = 4
"""Bytes of the size of an answer, which does not count them."""
_NO_FIELDS = parse_messages("RequestHeader  0  flexible 0+")["RequestHeader"]


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
    message = _known(key, version)
    if message is None:
        return ReceivedRequest(key, version, correlation, None, None)
    client_id, position = _client_id(frame, _HEADER)
    if message.is_flexible(version):
        _, position = kernel.read_message(_NO_FIELDS, 0, frame, position)
    # Bytes after the request are ignored, as brokers do: librdkafka's Metadata for all topics has three.
    fields, _ = kernel.read_message(message, version, frame, position, most_elements=most_elements)
    if len(frame) > MOST_REPEATS:  # an element has a byte or more
        _check_repeats(fields)
    return ReceivedRequest(key, version, correlation, client_id, fields)


@lru_cache(maxsize=1024)
def _known(key: int, version: int) -> Message | None:
    """Return the request of an API; None if the API or its version is not known."""
    try:
        request = Api(key).request
    except ValueError:
        return None
    return request if request.knows(version) else None


def _check_repeats(fields: Fields) -> None:
    """Refuse a request that names the same things many times: its answer would be far larger.

    Raises:
        CorruptMessageError: it does.
    """
    for name, value in fields.items():
        if not isinstance(value, list):
            continue
        if len(value) > MOST_REPEATS and len(value) - _distinct(value) > MOST_REPEATS:
            raise CorruptMessageError(f"{name} repeats more than {MOST_REPEATS} elements")
        for each in value:
            if isinstance(each, dict):
                _check_repeats(each)


def _distinct(values: list[Any]) -> int:
    """Return how many values differ, by hashes: texts of 100,000 values would take more memory than the values."""
    return len({hash(repr(each)) for each in values})


def _client_id(frame: bytes, position: int) -> tuple[str | None, int]:
    if len(frame) < position + 2:
        raise CorruptMessageError("a request is cut off within its header")
    size, start = read_int16(frame, position), position + 2
    if size < 0:
        return None, start
    if start + size > len(frame):
        raise CorruptMessageError("the client id of a request is cut off")
    return frame[start : start + size].decode("utf-8", "replace"), start + size


def write_response(key: int, version: int, correlation: int, fields: Fields) -> list[Piece]:
    """Return the pieces of an answer with its length, in order; the first one is a bytearray.

    Args:
        fields: fields by name; those that are missing have their defaults. Records are a tuple of pieces, other bytes are bytes.
    """
    message, has_tags = _answer_of(key, version)
    head = bytes(_SIZE) + correlation.to_bytes(4, "big", signed=True)
    if has_tags:
        head += b"\0"
    pieces = kernel.write_message(message, version, fields, head)
    pieces[0][:_SIZE] = (size_of(pieces) - _SIZE).to_bytes(_SIZE, "big")
    return pieces


@lru_cache(maxsize=1024)
def _answer_of(key: int, version: int) -> tuple[Message, bool]:
    """Return the answer of an API, and whether its header has tagged fields."""
    message = Api(key).response
    # A client that does not know the versions yet cannot know whether the header has tags.
    return message, message.is_flexible(version) and key != Api.API_VERSIONS
