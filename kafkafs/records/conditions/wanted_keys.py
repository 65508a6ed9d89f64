"""Keys that a search looks for: some bytes, or JSON that the record line shows for a key."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from engine.columns.columns import Columns
from engine.lines.line_decoder import LineDecoder
from kafkafs.records.decoded import json_of
from kafkafs.records.visible import Indices
from kafkafs.schemas.topic_type import TopicType


class KeyTextError(ValueError):
    """Text that is no key of the type that a topic's keys have."""


class KeySchemas(Protocol):
    """What tells how the keys of topics are shown."""

    def decoder(self, topic: str) -> LineDecoder | None:
        """Return the decoder of a topic's records; None without one."""

    def key_type(self, topic: str) -> TopicType | None:
        """Return the type of a topic's keys; None without one."""


class WantedKey(Protocol):
    """A key.

    Attributes:
        content: bytes that the key contains.
        is_exact: whether the key is these bytes, and no others.
    """

    content: bytes
    is_exact: bool

    def among(self, columns: Columns, records: Indices) -> Indices:
        """Return those of some records whose key it is."""


class KeyOfBytes:
    """A key with exactly some bytes.

    Args:
        content: the bytes.
    """

    is_exact = True

    def __init__(self, content: bytes) -> None:
        self.content = content

    def among(self, columns: Columns, records: Indices) -> Indices:
        """Return the records whose key is the bytes."""
        found: Indices = records[columns.key_size[records] == len(self.content)]
        arena = np.frombuffer(columns.arena, np.uint8)
        starts = columns.key_start
        for place, byte in enumerate(self.content):  # the first bytes rule out most records
            if not len(found):
                break
            found = found[arena[starts[found] + place] == byte]
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
    is_exact = False

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


def wanted_key(text: str, topic: str, known: KeySchemas, form: str = "text") -> WantedKey:
    """Return a key that is written in a form.

    Args:
        text: the key.
        topic: its topic.
        known: what tells the types and schemas of keys.
        form: text, hex, base64, or json, as a record line shows it; text is written as the type shows it.

    Raises:
        ValueError: the text does not have the form, or the type.
        RecursionError: the JSON is nested too deeply.
    """
    if form == "hex":
        return KeyOfBytes(bytes.fromhex(text))
    if form == "base64":
        return KeyOfBytes(base64.b64decode(text, validate=True))
    if form == "json":
        return KeyOfJson(text, known.decoder(topic))
    kind = known.key_type(topic)
    if kind is None:
        return KeyOfBytes(os.fsencode(text))
    # Imported here: most keys have no type.
    from kafkafs.schemas.types.typed_field import key_bytes

    data = key_bytes(text, kind)
    if data is None:
        return KeyOfJson(text, known.decoder(topic), may_be_text=True)
    return KeyOfBytes(data)


class TopicKeys:
    """Some keys as the keys of topics.

    Args:
        keys: bytes, or text as `wanted_key` takes it; None for the null key.
        known: what tells the types and schemas of keys.
    """

    def __init__(self, keys: Iterable[bytes | str | None], known: KeySchemas) -> None:
        self._keys = tuple(dict.fromkeys(keys))
        self._known = known
        self._by_topic: dict[str, list[WantedKey | None]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, topic: str) -> list[WantedKey | None]:
        """Return the keys of a topic; None for the null key.

        Raises:
            KeyTextError: a text does not have the type of the topic's keys.
        """
        found = self._by_topic.get(topic)
        if found is None:
            found = self._by_topic[topic] = [self._key(each, topic) for each in self._keys]
        return found

    def _key(self, key: bytes | str | None, topic: str) -> WantedKey | None:
        if key is None or isinstance(key, bytes):
            return None if key is None else KeyOfBytes(key)
        try:
            return wanted_key(key, topic, self._known)
        except (ValueError, RecursionError) as error:
            raise KeyTextError(f"{key!r} is no key of {topic}: {error}") from None
