"""A decoded record of an internal topic, or the reason why it is not decoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


LARGEST_VALUE = 4 * 1024 * 1024
"""Most bytes of a value that is decoded.

Its objects take up to two hundred times the bytes of the value; brokers by default accept no record
above a MiB.
"""


class Failure(NamedTuple):
    """Why Kafka's own tool does not decode a record.

    Attributes:
        says: message of the exception that the tool prints; None without a message.
        unknown_type: the record's type, if that is unknown.
    """

    says: str | None
    unknown_type: int | None = None


class DecodedRecord(NamedTuple):
    """Key and value of a record, as plain JSON.

    Attributes:
        kind: Kafka's name of the record's type, "OFFSET_COMMIT", "TOPIC_RECORD"; empty if unknown.
        key, value: JSON objects, not to be changed; None if null, or if the note says why it stays bytes.
        key_note, value_note: why the key or value stays bytes, or None.
        failure: set if Kafka's tool would print an error instead of the record.
    """

    kind: str
    key: JsonObject | None = None
    value: JsonObject | None = None
    key_note: str | None = None
    value_note: str | None = None
    failure: Failure | None = None


class TopicDecoder(ABC):
    """Decoder for the records of one internal topic."""

    @abstractmethod
    def decode(
        self, key: bytes | None, value: bytes | None, *, as_kafka: bool = False
    ) -> DecodedRecord:
        """Return a decoded record; never raises for bad bytes.

        Args:
            key, value: of the record, None for null.
            as_kafka: decode as Kafka 4.4.0 does: a type that only older versions wrote is unknown,
                and a newer version is read like the last one where Kafka does not check.
        """


def too_large(value: bytes) -> str | None:
    """Return why a value is too large to be decoded, or None."""
    if len(value) <= LARGEST_VALUE:
        return None
    return f"a value of {len(value)} bytes is not decoded, the limit is {LARGEST_VALUE}"
