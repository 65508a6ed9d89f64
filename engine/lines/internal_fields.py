"""Decoder of the keys and values of internal topics for record lines, as JSON objects.

A decoded key or value has the Encoding "kafka". One that cannot be decoded is shown as in any other
topic, with a Note that says why.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from engine.lines.json_text import hide
from engine.lines.line_decoder import DecodedField, LineDecoder, Pair
from engine.record.record import Header
from engine.topics.decoded_record import JsonObject, TopicDecoder
from engine.topics.internal_topics import decoder_for
from engine.units import Timestamp

_LARGEST_KEPT = 512
_ENCODING = b"kafka"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def object_json(decoded: JsonObject) -> bytes:
    """Return the text of a decoded key or value, safe to print."""
    text = _encode(decoded)
    return text.encode() if text.isascii() and "\x7f" not in text else hide(text).encode()


class InternalDecoder(LineDecoder):
    """Decoder of an internal topic's records; decodes each of them."""

    __slots__ = ("_name", "_topic")

    def __init__(self, name: str, topic: TopicDecoder) -> None:
        self._name = name
        self._topic = topic

    def __reduce__(self) -> tuple[object, ...]:
        return internal_decoder_of, (self._name,)

    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        found = self._topic.decode(key, value)
        if found.key is not None and key is not None and len(key) <= _LARGEST_KEPT:
            shown = _kept_key(self._topic, key)
        else:
            shown = _field(found.key, found.key_note)
        return shown, _field(found.value, found.value_note)


def internal_decoder_of(topic: str) -> InternalDecoder | None:
    """Return the decoder of an internal topic by its name; None for another topic."""
    decoder = decoder_for(topic)
    return None if decoder is None else InternalDecoder(topic, decoder)


@lru_cache(maxsize=4096)
def _kept_key(topic: TopicDecoder, key: bytes) -> DecodedField | None:
    """Return the field of a decoded key, cached: few keys are in most records."""
    return _field(topic.decode(key, None).key, None)


def _field(decoded: JsonObject | None, note: str | None) -> DecodedField | None:
    if decoded is not None:
        return DecodedField(object_json(decoded), _ENCODING)
    return None if note is None else DecodedField(None, note=note)
