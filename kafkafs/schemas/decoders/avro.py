"""Decoder of Avro's binary form."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from engine.arrays import np
from kafkafs.schemas.decoders.avro_program import program_of
from kafkafs.schemas.decoders.avro_reader import put_long, reader_of
from kafkafs.schemas.decoders.avro_schema import AvroPrimitive, parse_avro
from kafkafs.schemas.decoders.limits import ITEM_COST, MOST_BYTES, Purse, check_size, pay
from kafkafs.schemas.decoders.value_decoder import (
    DecodedJson,
    Payloads,
    PayloadTexts,
    ValueDecoder,
)
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Message
from kafkafs.schemas.schema import JsonValue


class AvroDecoder(ValueDecoder):
    """Decoder of payloads in Avro's binary form.

    Args:
        text: JSON text of the schema.
        references: texts of the schemas that it refers to, each after those that it needs itself.

    Attributes:
        schema: the schema as a tree of types.

    Raises:
        UndecodableError: the text is not an Avro schema.

    Example:
        >>> fields = '[{"name":"id","type":"long"},{"name":"who","type":["null","string"]}]'
        >>> decoder = AvroDecoder('{"type":"record","name":"R","fields":' + fields + "}")
        >>> decoder.decode(b"\\x02\\x02\\x04Jo")
        {'id': 1, 'who': 'Jo'}
    """

    __slots__ = ("_program", "_read", "schema")

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        self.schema = parse_avro(text, references)
        self._read = reader_of(self.schema)
        self._program = program_of(self.schema)

    @property
    def is_bytes(self) -> bool:
        """Whether the schema is `bytes`: Confluent's deserializer takes the whole payload as such a value."""
        return isinstance(self.schema, AvroPrimitive) and self.schema.name == "bytes"

    def json_of_bytes(self, payload: bytes) -> DecodedJson:
        """Return the JSON of a payload that is a value of `bytes` without its size; raises as `json`."""
        return self.json(put_long(len(payload)) + payload)

    def json(self, payload: bytes, message: Message = None) -> DecodedJson:
        check_size(len(payload))
        found = None if self._program is None else self._program.json(payload)
        return super().json(payload, message) if found is None else DecodedJson(*found)

    def texts(self, payloads: Payloads, suffix: bytes, enough: int) -> PayloadTexts | None:
        if self._program is None:
            return None
        arena, starts, sizes = payloads
        sizes = np.where(sizes > MOST_BYTES, -1, sizes)
        return PayloadTexts(*self._program.texts(arena, starts, sizes, suffix, enough))

    def read(self, payload: bytes, message: Message, purse: Purse) -> tuple[JsonValue, int]:
        try:
            value, end = self._read(payload, 0, 0, purse)
        except (IndexError, struct.error):
            raise UndecodableError("the bytes end before the value does", len(payload)) from None
        return value, len(payload) - end

    def read_many(self, data: bytes, count: int, purse: list[int]) -> list[JsonValue]:
        """Return some values that lie one behind the other and fill the bytes.

        Args:
            data: their bytes.
            count: their number.
            purse: what they may cost; is made less.

        Raises:
            UndecodableError: they do not decode, or do not fill the bytes.
        """
        found: list[JsonValue] = []
        at = 0
        if count < 0:
            raise UndecodableError(f"{count} values are stated")
        pay(purse, count * ITEM_COST, 0)
        try:
            for _ in range(count):
                value, at = self._read(data, at, 1, purse)
                found.append(value)
        except (IndexError, struct.error):
            raise UndecodableError("the bytes end before the value does", len(data)) from None
        if at != len(data):
            raise UndecodableError(f"{len(data) - at} bytes follow the last value", at)
        return found
