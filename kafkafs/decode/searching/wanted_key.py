"""Keys that a search looks for: some bytes, or JSON that the record line shows for a key."""

from __future__ import annotations

import base64
import json
import os
from typing import Protocol

import numpy as np

from engine.columns.columns import Columns
from engine.lines.line_decoder import LineDecoder
from kafkafs.records.decoded import json_of
from kafkafs.records.visible import Indices
from kafkafs.schemas.topic_type import TopicType


class WantedKey(Protocol):
    """A key.

    Attributes:
        content: bytes that the key contains.
    """

    content: bytes

    def among(self, columns: Columns, records: Indices) -> Indices:
        """Return those of some records whose key it is; the key of each one holds `content`."""


class KeyOfBytes:
    """A key with exactly some bytes.

    Args:
        content: the bytes.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content

    def among(self, columns: Columns, records: Indices) -> Indices:
        """Return the records whose key is no longer than the bytes."""
        found: Indices = records[columns.key_size[records] == len(self.content)]
        return found


class KeyOfJson:
    """A key that is shown as some JSON: decoded with a schema, a type or as Kafka's own, JSON itself, or text.

    Spaces and the order of names do not count. Each key of the log is decoded.

    Args:
        text: one JSON value.
        decoder: decoder of the topic's keys; None without one.
        may_be_text: whether a key that is shown as the text itself is also meant.

    Raises:
        ValueError: the text is no JSON, and has to be.
    """

    content = b""

    def __init__(
        self, text: str, decoder: LineDecoder | None, *, may_be_text: bool = False
    ) -> None:
        self._wanted = [json.dumps(text)] if may_be_text else []
        self._decoder = decoder
        try:
            self._wanted.append(_canonical(text))
        except (ValueError, RecursionError):
            if not may_be_text:
                raise

    def among(self, columns: Columns, records: Indices) -> Indices:
        """Return the records whose key is shown as the JSON."""
        return np.array([each for each in records.tolist() if self._is_at(columns, each)], np.intp)

    def _is_at(self, columns: Columns, index: int) -> bool:
        key = columns.key(index)
        field = None
        if key is not None and self._decoder is not None:
            headers, timestamp = columns.headers(index), int(columns.timestamp[index])
            field = self._decoder.shown(key, None, headers, timestamp)[0]
        text = json_of(key, field)
        try:
            return text is not None and _canonical(text) in self._wanted
        except (ValueError, RecursionError):  # Python's own bounds on numbers and depth
            return False


def _canonical(text: str | bytes) -> str:
    """Return the one form of all equal JSON texts."""
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def wanted_key(
    text: str, form: str, kind: TopicType | None, decoder: LineDecoder | None
) -> WantedKey:
    """Return a key that is written in a form.

    Args:
        text: the key.
        form: text, hex, base64, or json, as a record line shows it; text is written as the type shows it.
        kind: type of the topic's keys; None without one.
        decoder: decoder of the topic's keys; None without one.

    Raises:
        ValueError: the text does not have the form, or the type.
        RecursionError: the JSON is nested too deeply.
    """
    if form == "hex":
        return KeyOfBytes(bytes.fromhex(text))
    if form == "base64":
        return KeyOfBytes(base64.b64decode(text, validate=True))
    if form == "json":
        return KeyOfJson(text, decoder)
    if kind is None:
        return KeyOfBytes(os.fsencode(text))
    # Imported here: most keys have no type.
    from kafkafs.schemas.types.typed_field import key_bytes

    data = key_bytes(text, kind)
    return KeyOfJson(text, decoder, may_be_text=True) if data is None else KeyOfBytes(data)
