"""Numbers of a fixed width, by the names of their types: big-endian, as Kafka's serializers write them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkafs.schemas.decoders.avro_reader import double_json, float_json
from kafkafs.schemas.decoders.value_decoder import json_bytes
from kafkafs.schemas.errors import UndecodableError


class Number(NamedTuple):
    """A type of numbers.

    Attributes:
        packing: its bytes.
        form: returns what JSON has for a number.
        parse: returns the number that a text has; KeyError or ValueError for another text.
    """

    packing: struct.Struct
    form: Callable[[Any], Any]
    parse: Callable[[str], Any]

    def json(self, data: bytes) -> bytes:
        """Return a number as JSON. Raises UndecodableError for another number of bytes."""
        if len(data) != self.packing.size:
            raise UndecodableError(f"{len(data)} bytes, expected {self.packing.size}")
        return json_bytes(self.form(self.packing.unpack(data)[0]))

    def bytes_of(self, text: str) -> bytes:
        """Return the bytes of a number. Raises ValueError if the type does not have it."""
        try:
            return self.packing.pack(self.parse(text))
        except (KeyError, ValueError, OverflowError, struct.error):
            raise ValueError(f"{text!r} is not a number of {self.packing.size} bytes") from None


def _boolean(byte: int) -> bool:
    if byte > 1:
        raise UndecodableError(f"the byte {byte} is neither 0 nor 1")
    return byte == 1


NUMBERS = {
    "boolean": Number(struct.Struct(">B"), _boolean, {"false": 0, "true": 1}.__getitem__),
    "int16": Number(struct.Struct(">h"), int, int),
    "int32": Number(struct.Struct(">i"), int, int),
    "int64": Number(struct.Struct(">q"), int, int),
    "half": Number(struct.Struct(">e"), double_json, float),
    "float": Number(struct.Struct(">f"), float_json, float),
    "double": Number(struct.Struct(">d"), double_json, float),
}
"""By name; `half` is only inside of CBOR."""
