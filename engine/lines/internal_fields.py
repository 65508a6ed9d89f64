"""Decoded keys and values of internal topics in record lines, as JSON objects.

A decoded key or value has the Encoding "kafka". One that cannot be decoded is shown as in any other
topic, with a Note that says why.
"""

from __future__ import annotations

import json
from functools import lru_cache

from engine.lines.json_text import Values, bytes_json, hide, string_json
from engine.topics.decoded_record import JsonObject, TopicDecoder

_LARGEST_KEPT = 512

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def object_json(decoded: JsonObject) -> bytes:
    """Return the text of a decoded key or value, safe to print."""
    text = _encode(decoded)
    return text.encode() if text.isascii() and "\x7f" not in text else hide(text).encode()


def internal_fields(
    decoder: TopicDecoder, key: bytes | None, value: bytes | None, mode: Values
) -> bytes:
    """Return the key and value of a record line with their Encodings and Notes, without a leading comma."""
    found = decoder.decode(key, value)
    if found.key is not None and key is not None and len(key) <= _LARGEST_KEPT:
        shown = _kept_key(decoder, key)
    else:
        shown = _field("key", key, found.key, found.key_note, mode)
    return b"%s,%s" % (shown, _field("value", value, found.value, found.value_note, mode))


def internal_texts(
    decoder: TopicDecoder, key: bytes | None, value: bytes | None
) -> tuple[bytes | None, bytes | None]:
    """Return the key and value to search in: text if decoded, else bytes."""
    found = decoder.decode(key, value)
    return (
        key if found.key is None else object_json(found.key),
        value if found.value is None else object_json(found.value),
    )


@lru_cache(maxsize=4096)
def _kept_key(decoder: TopicDecoder, key: bytes) -> bytes:
    """Return the field of a decoded key, cached: few keys are in most records."""
    return _field("key", key, decoder.decode(key, None).key, None, Values.AUTO)


def _field(
    name: str, data: bytes | None, decoded: JsonObject | None, note: str | None, mode: Values
) -> bytes:
    if decoded is not None:
        return b'"%s":%s,"%sEncoding":"kafka"' % (
            name.encode(),
            object_json(decoded),
            name.encode(),
        )
    if data is None:
        return b'"%s":null' % name.encode()
    text, encoding = bytes_json(data, mode)
    field = b'"%s":%s' % (name.encode(), text)
    if encoding is not None:
        field += f',"{name}Encoding":"{encoding}"'.encode()
    return field if note is None else field + f',"{name}Note":{string_json(note)}'.encode()
