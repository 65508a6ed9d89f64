"""Records of the coordinators: the key starts with the record's type, the value with its version.

As in Kafka's CoordinatorRecordSerde both are 16-bit numbers, a null value deletes its key's entry,
and bytes after a message are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from engine.errors import CorruptMessageError
from engine.topics.decoded_record import (
    DecodedRecord,
    Failure,
    JsonObject,
    TopicDecoder,
    too_large,
)
from engine.topics.message.decoding import Reader
from engine.topics.message.json_form import json_reader, read_json
from engine.topics.message.schema import Message

_MOST_KEYS = 4096
_LARGEST_KEY = 512


class RecordType(NamedTuple):
    """A type of record.

    Attributes:
        name: Kafka's name of it.
        key, value: schemas of key and value; keys have one version.
        finish: changes a value's JSON in place.
        wider: schema of the value's versions that `value` does not have.
        is_retired: whether Kafka 4.4.0 no longer has the type.
    """

    name: str
    key: Message
    value: Message
    finish: Callable[[JsonObject], None] | None = None
    wider: Message | None = None
    is_retired: bool = False


class _Key(NamedTuple):
    type: RecordType | None
    json: JsonObject | None
    note: str | None
    failure: Failure | None


class CoordinatorDecoder(TopicDecoder):
    """Decoder for the records of a coordinator's topic.

    Args:
        types: the record types by their number.
    """

    def __init__(self, types: Mapping[int, RecordType]) -> None:
        self._types = types
        self._keys: dict[bytes, _Key] = {}
        self._readers: dict[tuple[str, bytes, bool], tuple[str, Reader]] = {}

    def decode(
        self, key: bytes | None, value: bytes | None, *, as_kafka: bool = False
    ) -> DecodedRecord:
        """Return a decoded record; never raises for bad bytes."""
        found = self._key(key)
        kind = found.type
        if kind is None:
            return DecodedRecord(
                "", None, None, found.note, _value_note(value, found.note), found.failure
            )
        if as_kafka and kind.is_retired and key is not None:
            number = int.from_bytes(key[:2], "big", signed=True)
            note = f"record type {number} is not known"
            return DecodedRecord("", None, None, note, _value_note(value, note), _unknown(number))
        if found.json is None or value is None:
            value_note = _value_note(value, found.note)
            return DecodedRecord(kind.name, found.json, None, found.note, value_note, found.failure)
        return self._with_value(kind, found.json, value, as_kafka=as_kafka)

    def _with_value(
        self, kind: RecordType, key: JsonObject, value: bytes, *, as_kafka: bool
    ) -> DecodedRecord:
        """Return a record with a decoded key and a non-null value."""
        if (note := too_large(value)) is not None:
            return DecodedRecord(kind.name, key, None, None, note, Failure(note))
        prefix = kind.name, value[:2], as_kafka
        known = self._readers.get(prefix)
        if known is None:
            known = _value_reader(kind, value[:2], as_kafka=as_kafka)
            if known is None:
                return _unread(kind, key, value)
            self._readers[prefix] = known
        version, read = known
        try:
            data, _ = read(value, 2)
        except CorruptMessageError as error:
            return _unread(kind, key, value, error)
        if kind.finish is not None:
            kind.finish(data)
        return DecodedRecord(kind.name, key, {"version": version, "data": data})

    def _key(self, key: bytes | None) -> _Key:
        """Return a decoded key, cached for recent ones."""
        if key is None:
            return _Key(None, None, None, Failure("(message had a missing key)"))
        found = self._keys.get(key)
        if found is None:
            found = self._read_key(key)
            if len(key) <= _LARGEST_KEY:
                if len(self._keys) >= _MOST_KEYS:
                    self._keys = {}
                self._keys[key] = found
        return found

    def _read_key(self, key: bytes) -> _Key:
        if len(key) < 2:
            says = "Could not read version from key's buffer."
            return _Key(None, None, "the key is too short for a record type", Failure(says))
        number = int.from_bytes(key[:2], "big", signed=True)
        kind = self._types.get(number)
        if kind is None:
            return _Key(None, None, f"record type {number} is not known", _unknown(number))
        try:
            data, _ = read_json(kind.key, 0, key, 2)
        except CorruptMessageError as error:
            return _Key(kind, None, str(error), _unreadable(number, "key", error))
        return _Key(kind, {"type": str(number), "data": data}, None, None)


def _value_reader(
    kind: RecordType, version_bytes: bytes, *, as_kafka: bool
) -> tuple[str, Reader] | None:
    """Return the version of a value, as text, and its reader; None for an unknown version."""
    version = int.from_bytes(version_bytes, "big", signed=True)
    message = kind.value
    if kind.wider is not None and not as_kafka and not message.knows(version):
        message = kind.wider
    if len(version_bytes) < 2 or not message.knows(version):
        return None
    return str(version), json_reader(message, version)


def _unread(
    kind: RecordType, key: JsonObject, value: bytes, error: CorruptMessageError | None = None
) -> DecodedRecord:
    """Return a record with a decoded key and an undecoded value."""
    if len(value) < 2:
        note, says = (
            "the value is too short for a version",
            "Could not read version from value's buffer.",
        )
        return DecodedRecord(kind.name, key, None, None, note, Failure(says))
    version = int.from_bytes(value[:2], "big", signed=True)
    if error is not None:
        failure = _unreadable(version, "value", error)
        return DecodedRecord(kind.name, key, None, None, str(error), failure)
    note = f"version {version} of {kind.value.name} is not known"
    failure = Failure(f"Found an unknown record version {version} for {key['type']} type")
    return DecodedRecord(kind.name, key, None, None, note, failure)


def _value_note(value: bytes | None, key_note: str | None) -> str | None:
    """Return why a value stays bytes because its key does."""
    if value is None:
        return None
    return "its key does not say what it is" if key_note else "it has no key that says what it is"


def _unknown(number: int) -> Failure:
    return Failure(f"Found an unknown record type {number}", number)


def _unreadable(version: int, name: str, error: CorruptMessageError) -> Failure:
    says = "null" if error.kafka_says is None else error.kafka_says
    return Failure(
        f"Could not read record with version {version} from {name}'s buffer due to: {says}."
    )
