"""Convert messages to the JSON of Kafka's generated converters.

Fields come in the schema's order, without those that the version does not have and tagged ones with
their default. BYTES are base64, a UUID is its text, numbers are numbers, and a floating-point
number without a JSON form is the string that Kafka's JSON library writes.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from engine.coding.layout import Buffer
from engine.topics.message.decoding import Reader, message_reader
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, Type

Json: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
_Convert: TypeAlias = Callable[[Any], Any]


def json_form(message: Message, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object for fields from `read_message` of a version; `values` is not changed."""
    convert = _message_form(message, version)
    return values if convert is None else convert(values)


def read_json(
    message: Message, version: int, buffer: Buffer, position: int = 0, *, lenient: bool = False
) -> tuple[dict[str, Any], int]:
    """Return the JSON object of the message at a position, and the position after it. Raises as
    `read_message` does.
    """
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    return json_reader(message, version, lenient=lenient)(data, position)


@lru_cache(maxsize=1024)
def json_reader(message: Message, version: int, *, lenient: bool = False) -> Reader:
    """Return the reader that `read_json` uses for a version, to read many messages.

    Raises:
        UnknownVersionError: the schema does not have the version.
    """
    read, convert = (
        message_reader(message, version, lenient=lenient),
        _message_form(message, version),
    )
    if convert is None:
        return read

    def both(data: bytes, position: int) -> tuple[Any, int]:
        values, position = read(data, position)
        return convert(values), position

    return both


@lru_cache(maxsize=1024)
def _message_form(message: Message, version: int) -> _Convert | None:
    return _struct_form(message.fields, max(version, message.first_version))


def _struct_form(fields: tuple[Field, ...], version: int) -> _Convert | None:
    """Return a function that turns a structure's dict into JSON; None if the dict already is."""
    plan = [
        (field.name, _form(field.type, version), field.tag is not None, field.absent())
        for field in fields
        if field.is_in(version)
    ]
    if len(plan) == len(fields) and not any(form or tagged for _, form, tagged, _ in plan):
        return None

    def convert(values: dict[str, Any]) -> dict[str, Any]:
        out = {}
        for name, form, tagged, absent in plan:
            value = values[name]
            if tagged and value == absent:
                continue
            out[name] = value if form is None or value is None else form(value)
        return out

    return convert


def _form(kind: Type, version: int) -> _Convert | None:
    if isinstance(kind, Struct):
        return _struct_form(kind.fields, version)
    if isinstance(kind, Array):
        inner = _form(kind.element, version)
        return None if inner is None else lambda values: [inner(value) for value in values]
    if kind is Scalar.BYTES:
        return lambda value: base64.b64encode(value).decode("ascii")
    if kind is Scalar.FLOAT64:
        return _float_form
    return None


def _float_form(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
