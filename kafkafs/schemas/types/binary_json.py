"""Readers of binary forms of JSON: one item of bytes as JSON text, within the bounds of a value."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod

from engine.lines.json_text import JSON_NUMBER, string_json
from kafkafs.schemas.decoders.limits import CONTAINER_COST, MOST_DEPTH, Purse, pay
from kafkafs.schemas.decoders.value_decoder import DecodedJson
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.types.numbers import NUMBERS

_ITEM_COST = 16
_NAME_COST = 1024
"""Cost of a byte of a name that is no text and has texts: their escapes double with each name around it."""
_MOST_NUMBER = JSON_NUMBER * 3 // 8
"""Bytes of a number that has no more digits than JSON may have here."""


class BinaryJson(ABC):
    """Reader of one item. Names of a map that are no text are the text of their JSON; names may repeat, as in JSON.

    Args:
        data: the item; bytes may follow it.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._purse = Purse()
        self._out = bytearray()

    def json(self) -> DecodedJson:
        """Return the item. Raises UndecodableError."""
        self.item(0)
        return DecodedJson(bytes(self._out), len(self._data) - self._at)

    @abstractmethod
    def item(self, depth: int) -> None:
        """Read an item and write its JSON. Raises UndecodableError.

        Args:
            depth: number of containers around it.
        """

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises UndecodableError if there are not so many."""
        start, end = self._at, self._at + size
        if end > len(self._data):
            raise UndecodableError("the value is cut off", start)
        self._at = end
        return self._data[start:end]

    def number(self, size: int, *, signed: bool = False) -> int:
        """Return the next integer, in big-endian order."""
        return int.from_bytes(self.take(size), "big", signed=signed)

    def containers(self, kind: bytes, count: int | None, depth: int) -> None:
        """Read an array (`[]`) or a map (`{}`); a count of None goes on until `is_end`."""
        if depth >= MOST_DEPTH:
            raise UndecodableError(f"the value is nested deeper than {MOST_DEPTH}", self._at)
        if count is not None and count > len(self._data) - self._at:
            raise UndecodableError(f"{count} items are expected, more than the bytes", self._at)
        pay(self._purse, CONTAINER_COST, self._at)
        self._out += kind[:1]
        done = 0
        while not self.is_end() if count is None else done < count:
            pay(self._purse, _ITEM_COST, self._at)
            if done:
                self._out += b","
            if kind == b"{}":
                self._name(depth + 1)
            self.item(depth + 1)
            done += 1
        self._out += kind[1:]

    def is_end(self) -> bool:
        """Return whether a container without a count ends here, and pass over its end."""
        return False

    def _name(self, depth: int) -> None:
        start = len(self._out)
        self.item(depth)
        if self._out[start] != ord('"'):
            text = self._out[start:].decode()
            pay(self._purse, len(text) * (_NAME_COST if '"' in text else 1), self._at)
            self._out[start:] = string_json(text).encode()
        self._out += b":"

    def write_text(self, data: bytes) -> None:
        """Write text. Raises UndecodableError if it is not UTF-8."""
        try:
            text = data.decode()
            is_plain = text.isascii() and text.isprintable() and '"' not in text
            if is_plain and "\\" not in text:
                self._out += b'"%s"' % data
            else:
                self._out += string_json(text).encode()
        except UnicodeDecodeError as error:
            raise UndecodableError(
                "text is not UTF-8", self._at - len(data) + error.start
            ) from None

    def write_bytes(self, data: bytes) -> None:
        """Write bytes in base64."""
        self._out += b'"%s"' % base64.b64encode(data)

    def write_number(self, number: int) -> None:
        """Write an integer. Raises UndecodableError if it has more digits than JSON may have here."""
        if number.bit_length() > _MOST_NUMBER * 8:
            raise UndecodableError("a number has too many digits", self._at)
        self._out += b"%d" % number

    def write_float(self, name: str) -> None:
        """Read a number of a type, and write its shortest digits."""
        number = NUMBERS[name]
        self._out += number.json(self.take(number.packing.size))
