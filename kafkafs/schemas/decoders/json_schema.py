"""Decoder of values with a JSON Schema: their payload is JSON text."""

from __future__ import annotations

import json

from engine.lines.json_text import hide, minified_container
from kafkafs.schemas.decoders.limits import Purse, check_size
from kafkafs.schemas.decoders.value_decoder import DecodedJson, ValueDecoder
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Message
from kafkafs.schemas.schema import JsonValue

_SPACE = " \n\r\t"


class JsonSchemaDecoder(ValueDecoder):
    """Decoder of payloads that are JSON text; the schema does not change how they are shown."""

    __slots__ = ()

    def json(self, payload: bytes, message: Message = None) -> DecodedJson:
        """Return the text without whitespace between tokens; numbers and the order of keys stay."""
        check_size(len(payload))
        return DecodedJson(hide(_minified(payload)).encode())

    def read(self, payload: bytes, message: Message, purse: Purse) -> tuple[JsonValue, int]:
        return json.loads(_minified(payload)), 0


def _minified(payload: bytes) -> str:
    try:
        text = payload.decode().strip(_SPACE)
    except UnicodeDecodeError as error:
        raise UndecodableError("the JSON is not UTF-8", error.start) from None
    if text[:1] in ("{", "["):
        found = minified_container(text)
    else:
        # One item in an array: two of them are no JSON value, and only the array would be.
        wrapped = minified_container(f"[{text}]")
        found = None if wrapped is None or not _is_scalar(text) else wrapped[1:-1]
    if found is None:
        raise UndecodableError("the bytes are not one JSON value")
    return found


def _is_scalar(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
