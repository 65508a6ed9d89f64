"""Readers of Avro's binary form, made of a schema once: each takes bytes at a position and returns JSON and the next one.

Every reader has the arguments (data, at, depth, purse): the bytes, where the value begins, how many values it lies in, and
what is left of the value's cost. `IndexError` says that the bytes end too early. Kept apart from libraries on purpose:
fastavro's compiled reader ends the process at a few thousand nested values, and makes as many values of no bytes as a
count says.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

from kafkafs.schemas.decoders.avro_logical import (
    decimal_text,
    duration_json,
    number_form,
    uuid_text,
)
from kafkafs.schemas.decoders.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
    may_be_empty,
)
from kafkafs.schemas.decoders.limits import CONTAINER_COST, ITEM_COST, MOST_DEPTH, pay
from kafkafs.schemas.errors import UndecodableError

Read: TypeAlias = Callable[[bytes, int, int, list[int]], tuple[Any, int]]
"""Reader of one value: (data, at, depth, purse) to (JSON, next position)."""

_SMALLEST_NORMAL = 2.0**-126
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_MOST_LONG_BYTES, _MOST_INT_BYTES = 10, 5


def reader_of(schema: AvroType) -> Read:
    """Return the reader of a schema's values."""
    return _Compiler().reader(schema)


class _Compiler:
    """Compiler of readers; a record has one reader, which a recursive schema reaches again."""

    def __init__(self) -> None:
        self._records: dict[int, Read] = {}

    def reader(self, schema: AvroType) -> Read:
        """Return the reader of a type."""
        if isinstance(schema, AvroPrimitive):
            return _primitive(schema)
        if isinstance(schema, AvroRecord):
            return self._record(schema)
        if isinstance(schema, AvroUnion):
            return _union([self.reader(branch) for branch in schema.branches])
        if isinstance(schema, AvroArray):
            return _array(self.reader(schema.items), may_be_empty(schema.items))
        if isinstance(schema, AvroMap):
            return _map(self.reader(schema.values))
        if isinstance(schema, AvroEnum):
            return _enumeration(schema.symbols)
        return _fixed(schema)

    def _record(self, schema: AvroRecord) -> Read:
        known = self._records.get(id(schema))
        if known is None:
            fields: list[tuple[str, Read]] = []
            known = self._records[id(schema)] = _record(fields, _names_cost(schema))
            fields += [(name, self.reader(kind)) for name, kind in schema.fields]
        return known


def _names_cost(schema: AvroRecord) -> int:
    return CONTAINER_COST + sum(len(name) + ITEM_COST for name, _ in schema.fields)


# Numbers


def read_long(data: bytes, at: int, most_bytes: int = _MOST_LONG_BYTES) -> tuple[int, int]:
    """Return a zigzag number of up to 64 bits, and the next position."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, shift, start = byte & 0x7F, 7, at
    while byte >= 0x80:
        at += 1
        if at - start == most_bytes:
            raise UndecodableError(f"a number has more than {most_bytes} bytes", start)
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    if number >> 64:
        raise UndecodableError("a number has more than 64 bits", start)
    return (number >> 1) ^ -(number & 1), at + 1


def put_long(number: int) -> bytes:
    """Return a number of up to 64 bits as `read_long` reads it."""
    rest = (number << 1) ^ (number >> 63)
    made = bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    number, end = read_long(data, at, _MOST_INT_BYTES)
    if not -(2**31) <= number < 2**31:
        raise UndecodableError("an int has more than 32 bits", at)
    return number, end


def _number(read: Callable[[bytes, int], tuple[int, int]], logical: Logical | None) -> Read:
    form = number_form(logical)

    def plain(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        return read(data, at)

    if form is None:
        return plain

    def shown(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        number, at = read(data, at)
        return form(number), at

    return shown


def _null(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
    return None, at


def _boolean(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
    return data[at] == 1, at + 1  # Java takes other bytes for false, too


def _float(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
    return float_json(_FLOAT.unpack_from(data, at)[0]), at + 4


def _double(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
    return double_json(_DOUBLE.unpack_from(data, at)[0]), at + 8


def double_json(number: float) -> float | str:
    """Return a number, or the string for one that JSON has no number for."""
    if isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def float_json(number: float) -> float | str:
    """Return a number of 32 bits so that its shortest digits are shown: 0.1, not 0.10000000149011612."""
    if not isfinite(number):
        return double_json(number)
    for digits in range(1 if abs(number) < _SMALLEST_NORMAL else 6, 9):
        short = float(f"{number:.{digits}g}")
        with suppress(OverflowError):
            if _FLOAT.unpack(_FLOAT.pack(short))[0] == number:
                return short
    return float(f"{number:.9g}")


# Bytes


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Return the end of bytes behind their size, and where they begin."""
    size, start = read_long(data, at)
    if size < 0:
        raise UndecodableError(f"a size is {size}", at)
    end = start + size
    if end > len(data):
        raise UndecodableError(f"{size} bytes are stated, {len(data) - start} are left", at)
    return end, start


def _string(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
    end, start = _size(data, at)
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise UndecodableError("a string is not UTF-8", start + error.start) from None


def _bytes(form: Callable[[bytes], Any]) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        end, start = _size(data, at)
        return form(data[start:end]), end

    return read


def _fixed(schema: AvroFixed) -> Read:
    size, form = schema.size, bytes_form(schema.logical, schema.scale)

    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        end = at + size
        if end > len(data):
            raise UndecodableError(f"{size} bytes are needed, {len(data) - at} are left", at)
        return form(data[at:end]), end

    return read


def bytes_form(logical: Logical | None, scale: int) -> Callable[[bytes], Any]:
    """Return what makes the JSON of bytes or of a fixed value."""
    if logical is Logical.DECIMAL:
        return partial(decimal_text, scale)
    if logical is Logical.BIG_DECIMAL:
        return _big_decimal
    if logical is Logical.UUID:
        return uuid_text
    return duration_json if logical is Logical.DURATION else _base64


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _big_decimal(data: bytes) -> str:
    """Return a decimal that has its scale behind its number."""
    end, start = _size(data, 0)
    scale, stop = _read_int(data, end)
    if stop != len(data):
        raise UndecodableError("a big-decimal has bytes behind its scale")
    return decimal_text(scale, data[start:end])


def _primitive(schema: AvroPrimitive) -> Read:
    name, logical = schema.name, schema.logical
    if name == "string":
        return _string
    if name == "bytes":
        return _bytes(bytes_form(logical, schema.scale))
    if name == "int":
        return _number(_read_int, logical)
    if name == "long":
        return _number(read_long, logical)
    return {"null": _null, "boolean": _boolean, "float": _float, "double": _double}[name]


# Values of values


def _check_depth(depth: int, at: int) -> None:
    if depth > MOST_DEPTH:
        raise UndecodableError(f"the value is nested deeper than {MOST_DEPTH} levels", at)


def _enumeration(symbols: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        index, end = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise UndecodableError(f"an enum has no symbol {index}, only {len(symbols)}", at)
        symbol = symbols[index]
        pay(purse, len(symbol), at)
        return symbol, end

    return read


def _union(branches: list[Read]) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        index, end = read_long(data, at)
        if not 0 <= index < len(branches):
            raise UndecodableError(f"a union has no branch {index}, only {len(branches)}", at)
        return branches[index](data, end, depth, purse)

    return read


def _record(fields: list[tuple[str, Read]], cost: int) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        purse[0] -= cost
        if depth >= MOST_DEPTH or purse[0] < 0:
            _check_depth(depth + 1, at)
            pay(purse, 0, at)
        found = {}
        for name, read_field in fields:
            found[name], at = read_field(data, at, depth + 1, purse)
        return found, at

    return read


def _block(data: bytes, at: int, is_empty: bool, purse: list[int]) -> tuple[int, int]:
    """Return the number of items in a block, and where they begin; checks that as many can follow."""
    start = at
    count, at = read_long(data, at)
    if count < 0:
        count = -count
        _, at = read_long(data, at)  # the size of the block, which Java does not check
    if not is_empty and count > len(data) - at:
        raise UndecodableError(f"{count} items are stated, {len(data) - at} bytes are left", start)
    pay(purse, count * ITEM_COST, start)
    return count, at


def _array(read_item: Read, is_empty: bool) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        _check_depth(depth + 1, at)
        pay(purse, CONTAINER_COST, at)
        found: list[Any] = []
        while True:
            count, at = _block(data, at, is_empty, purse)
            if not count:
                return found, at
            for _ in range(count):
                item, at = read_item(data, at, depth + 1, purse)
                found.append(item)

    return read


def _map(read_value: Read) -> Read:
    def read(data: bytes, at: int, depth: int, purse: list[int]) -> tuple[Any, int]:
        _check_depth(depth + 1, at)
        pay(purse, CONTAINER_COST, at)
        found: dict[str, Any] = {}
        while True:
            count, at = _block(data, at, False, purse)
            if not count:
                return found, at
            for _ in range(count):
                name, at = _string(data, at, depth, purse)
                found[name], at = read_value(data, at, depth + 1, purse)

    return read
