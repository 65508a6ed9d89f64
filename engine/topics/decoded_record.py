"""What a record of an internal topic says, or why that cannot be told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


LARGEST_VALUE = 4 * 1024 * 1024
"""Bytes of a value that is decoded. Objects take up to two hundred times the bytes of what they say, and brokers
take no record of more than a MiB unless they are told to."""


class Failure(NamedTuple):
    """Why Kafka's own tool does not decode a record.

    Attributes:
        says: the message of the exception that it prints; None: the exception has none.
        unknown_type: the record's type, when it is that.
    """

    says: str | None
    unknown_type: int | None = None


class DecodedRecord(NamedTuple):
    """Key and value of a record, as plain JSON.

    Attributes:
        kind: Kafka's name of the record's type, "OFFSET_COMMIT", "TOPIC_RECORD"; empty when it is not known.
        key, value: JSON objects, not to be changed; None: there is none, or the note says why it stays bytes.
        key_note, value_note: why the key or value stays bytes; None else.
        failure: set when Kafka's tool would print an error in place of the record.
    """

    kind: str
    key: JsonObject | None = None
    value: JsonObject | None = None
    key_note: str | None = None
    value_note: str | None = None
    failure: Failure | None = None


class TopicDecoder(ABC):
    """Decodes the records of one internal topic."""

    @abstractmethod
    def decode(
        self, key: bytes | None, value: bytes | None, *, as_kafka: bool = False
    ) -> DecodedRecord:
        """What a record says; never raises for what its bytes are.

        Args:
            key, value: the record's; None is null.
            as_kafka: know the types and versions that Kafka 4.3.1 knows, and no others: a type that only
                older versions wrote is unknown, and a newer version is read like the last one where Kafka
                does not check.
        """


def too_large(value: bytes) -> str | None:
    """Why a value is not decoded although it might be; None when it is not that large."""
    if len(value) <= LARGEST_VALUE:
        return None
    return f"a value of {len(value)} bytes is not decoded, the most are {LARGEST_VALUE}"
