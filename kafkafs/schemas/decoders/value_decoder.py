"""Decoders of keys and values: made of a schema once, they turn payloads into JSON.

A decoder's bounds hold for any bytes: depth, cost of the JSON, bytes of the payload (`limits`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from engine.arrays import np, npt
from engine.coding.layout import Buffer
from engine.lines.json_text import hide
from kafkafs.schemas.decoders.limits import Purse, check_size
from kafkafs.schemas.errors import UndecodableError, undecodable
from kafkafs.schemas.framing import Message
from kafkafs.schemas.schema import JsonValue

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class DecodedJson(NamedTuple):
    """A decoded payload.

    Attributes:
        text: one JSON value on one line in UTF-8, safe to print.
        left: number of bytes behind the value, which the deserializers of registries leave out too.
        notes: why parts of the value are not shown as their type says.
    """

    text: bytes
    left: int = 0
    notes: Sequence[str] = ()


class Payloads(NamedTuple):
    """Payloads of one schema in a buffer.

    Attributes:
        arena: bytes that have all payloads.
        starts, sizes: of each, int64; a payload with a size of -1 is left out.
    """

    arena: Buffer
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


class PayloadTexts(NamedTuple):
    """JSON of the first of some payloads.

    Attributes:
        text: bytes that have all texts.
        places: array (payloads read, 2) of int64: start and size of each payload's text; the size is -1 for a payload
            that `json` has to read: it is left out or refused, or bytes follow its value.
    """

    text: bytes
    places: npt.NDArray[np.int64]


class ValueDecoder(ABC):
    """Decoder of payloads of one schema. Thread-safe."""

    __slots__ = ()

    def texts(self, payloads: Payloads, suffix: bytes, enough: int) -> PayloadTexts | None:
        """Return the JSON of the first payloads, at least of one; None if the decoder has no program for its schema.

        Args:
            payloads: payloads in Confluent's form without the id, or bare ones: of Protobuf, with message indexes unless bare.
            suffix: is put behind each JSON.
            enough: stop once the text has so many bytes.
        """
        return None

    def made_of(self, payload: bytes, message: Message = None) -> object:
        """Return what made the text of a payload, for readers of the text (`DecodedField.made_by`)."""
        return self

    def decode(self, payload: bytes, message: Message = None) -> JsonValue:
        """Return the value as plain JSON: dict, list, str, int, float, bool or None.

        The arguments are those of `json`.
        """
        return self._decoded(payload, message, Purse())[0]

    def json(self, payload: bytes, message: Message = None) -> DecodedJson:
        """Return the value as JSON text.

        Args:
            payload: the encoded value, without the bytes of its wire form.
            message: message of a Protobuf payload.

        Raises:
            UndecodableError: the bytes do not decode.
        """
        purse = Purse()
        value, left = self._decoded(payload, message, purse)
        return DecodedJson(json_bytes(value), left, tuple(purse.notes))

    def _decoded(self, payload: bytes, message: Message, purse: Purse) -> tuple[JsonValue, int]:
        check_size(len(payload))
        try:
            return self.read(payload, message, purse)
        except Exception as error:  # noqa: BLE001 - hostile bytes, read by libraries
            raise undecodable(error, "the value") from None

    @abstractmethod
    def read(self, payload: bytes, message: Message, purse: Purse) -> tuple[JsonValue, int]:
        """Return the value as plain JSON, and the number of bytes behind it. Raises UndecodableError.

        Args:
            payload, message: as of `json`.
            purse: what the value may cost; takes the notes on its parts.
        """


def json_bytes(value: JsonValue) -> bytes:
    """Return the text of a value, safe to print.

    Raises:
        UndecodableError: a string has half of a character.
    """
    text = _encode(value)
    if text.isascii() and "\x7f" not in text:
        return text.encode()
    try:
        return hide(text).encode()
    except UnicodeEncodeError:
        raise UndecodableError("a string has half of a surrogate pair") from None
