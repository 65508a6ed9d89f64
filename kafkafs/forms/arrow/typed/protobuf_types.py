"""Arrow types of Protobuf messages, and the values of messages in them.

| Protobuf | Arrow |
|---|---|
| message, group | struct of its fields by number, with their names in the schema; null where not set |
| repeated, map | list, map by key |
| double, float, bool, string, bytes | float64, float32, bool, string, binary |
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int32; int64 |
| uint32, fixed32; uint64, fixed64 | uint32; uint64 |
| enum | string: the name, or the number where it has none |
| `google.protobuf.Timestamp`, `Duration` | timestamp in UTC, duration; in microseconds, digits below are cut |
| `google.protobuf.Int64Value` and the other wrappers | the value, null where not set |
| `google.protobuf.Struct`, `Value`, `ListValue`, `Any`; a message inside of itself; types nested deeper than MOST_NESTED | string: the JSON of the value |

A field with presence (`optional`, in a oneof, of proto2) is null where it is not set; any other has its default.

Microseconds hold all times of Protobuf, of the years 1 to 9999, and are what Spark, Parquet's readers and Python's own
types take. Nanoseconds, on demand, hold all digits of the years 1677 to 2262. A time that a column does not hold is null, and
so is a required field that is missing; the value stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from kafkafs.forms.arrow.typed.retyped import with_leaves
from kafkafs.schemas.decoders.limits import Purse
from kafkafs.schemas.decoders.protobuf_json import MessagePrinter, text_of
from kafkafs.schemas.decoders.value_decoder import json_bytes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

MOST_NESTED = 32
"""Levels of messages in a column."""
_MOST_TYPES = 10_000

Path: TypeAlias = tuple[str, ...]
"""Full names of the messages that a message lies in."""
ValueOf: TypeAlias = Callable[[Any, Purse], Any]
"""Function from a message, or a field's item, to what PyArrow takes; the purse takes notes on parts that do not fit."""

_GOOGLE = "google.protobuf."
_WRAPPERS = {
    f"{_GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_AS_JSON = {f"{_GOOGLE}{name}" for name in ("Struct", "Value", "ListValue", "Any")}
TIMESTAMP, DURATION = f"{_GOOGLE}Timestamp", f"{_GOOGLE}Duration"
_TIMES = {TIMESTAMP: pa.timestamp("us", "UTC"), DURATION: pa.duration("us")}
_IN_NANOS = {_TIMES[TIMESTAMP]: pa.timestamp("ns", "UTC"), _TIMES[DURATION]: pa.duration("ns")}
_MOST_NANOS = 999_999_999
_SECOND = 1_000_000_000
NANOS_A_TICK = {"us": 1000, "ns": 1}
"""Nanoseconds of what times are counted in, by unit."""


def arrow_type(descriptor: Descriptor, *, nanoseconds: bool = False) -> pa.DataType:
    """Return the Arrow type of a type's messages.

    Args:
        descriptor: the type.
        nanoseconds: whether times are in nanoseconds.

    Raises:
        ValueError: it has more fields than a column may have.
    """
    found = _arrow_type(descriptor, (), [_MOST_TYPES])
    return with_leaves(found, lambda kind: _IN_NANOS.get(kind, kind)) if nanoseconds else found


def value_of(
    descriptor: Descriptor, printer: MessagePrinter, *, nanoseconds: bool = False
) -> ValueOf:
    """Return the function from a type's messages to what PyArrow takes.

    Args:
        descriptor: the type.
        printer: printer of what columns show as JSON.
        nanoseconds: whether times are in nanoseconds.
    """
    return _value_of(descriptor, _Shown(printer, "ns" if nanoseconds else "us"), ())


def fields_of(descriptor: Descriptor) -> list[FieldDescriptor]:
    """Return the fields of a type by number."""
    return sorted(descriptor.fields, key=lambda field: field.number)


def is_text(descriptor: Descriptor, path: Path) -> bool:
    """Return whether a column shows messages of a type as JSON text."""
    name = descriptor.full_name
    return name in _AS_JSON or name in path or len(path) >= MOST_NESTED


def is_wrapper(descriptor: Descriptor) -> bool:
    """Return whether a column shows messages of a type as the value in them."""
    return descriptor.full_name in _WRAPPERS


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    kind = field.message_type
    return kind is not None and field.is_repeated and bool(kind.GetOptions().map_entry)


# Types


def _arrow_type(descriptor: Descriptor, path: Path, left: list[int]) -> pa.DataType:
    if is_text(descriptor, path):
        return pa.string()
    if descriptor.full_name in _TIMES:
        return _TIMES[descriptor.full_name]
    if is_wrapper(descriptor):
        return _item_type(descriptor.fields_by_name["value"], path, left)
    inside = (*path, descriptor.full_name)
    return pa.struct(
        [(field.name, _field_type(field, inside, left)) for field in fields_of(descriptor)]
    )


def _field_type(field: FieldDescriptor, path: Path, left: list[int]) -> pa.DataType:
    if is_map(field):
        key, value = fields_of(field.message_type)
        return pa.map_(_item_type(key, path, left), _item_type(value, path, left))
    item = _item_type(field, path, left)
    return pa.list_(item) if field.is_repeated else item


def _item_type(field: FieldDescriptor, path: Path, left: list[int]) -> pa.DataType:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError(f"the schema has more than {_MOST_TYPES} columns")
    if field.message_type is not None:
        return _arrow_type(field.message_type, path, left)
    return _SCALARS[field.type]


_SCALARS = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), 12: pa.binary(), 13: pa.uint32(), 14: pa.string(), 15: pa.int32(), 16: pa.int64(),
    17: pa.int32(), 18: pa.int64(),
}  # fmt: skip
"""By FieldDescriptorProto.Type."""


# Values


class _Shown(NamedTuple):
    """How values are shown: with a printer of JSON, and times in a unit."""

    printer: MessagePrinter
    unit: str


def _value_of(descriptor: Descriptor, shown: _Shown, path: Path) -> ValueOf:
    if is_text(descriptor, path):
        return lambda message, purse: json_bytes(shown.printer.json(message, 0, purse)).decode()
    if descriptor.full_name in _TIMES:
        return lambda message, purse: _ticks(message, shown.unit, purse)
    if is_wrapper(descriptor):
        wrapped = _item_of(descriptor.fields_by_name["value"], shown, path)
        return lambda message, purse: wrapped(message.value, purse)
    inside = (*path, descriptor.full_name)
    fields = [
        (field.name, field.has_presence, _field_of(field, shown, inside))
        for field in fields_of(descriptor)
    ]

    def value(message: Any, purse: Purse) -> dict[str, Any]:  # noqa: ANN401
        return {
            name: None
            if may_lack and not message.HasField(name)
            else of(getattr(message, name), purse)
            for name, may_lack, of in fields
        }

    return value


def _field_of(field: FieldDescriptor, shown: _Shown, path: Path) -> ValueOf:
    if is_map(field):
        key, value = (_item_of(each, shown, path) for each in fields_of(field.message_type))

        def pairs(items: Any, purse: Purse) -> list[tuple[Any, Any]] | None:  # noqa: ANN401
            try:
                return [(key(each, purse), value(items[each], purse)) for each in sorted(items)]
            except UnicodeDecodeError:
                return None  # the note on the JSON says why

        return pairs
    item = _item_of(field, shown, path)
    if field.is_repeated:
        return lambda items, purse: [item(each, purse) for each in items]
    return item


def _item_of(field: FieldDescriptor, shown: _Shown, path: Path) -> ValueOf:
    if field.message_type is not None:
        return _value_of(field.message_type, shown, path)
    if field.enum_type is not None:
        return _enum_of(field.enum_type)
    return text_of if field.type == field.TYPE_STRING else _same


def _enum_of(kind: EnumDescriptor) -> ValueOf:
    names: dict[int, str] = {}
    for value in kind.values:
        names.setdefault(value.number, value.name)
    return lambda number, purse: names.get(number, str(number))


def _same(item: Any, purse: Purse) -> Any:  # noqa: ANN401
    return item


def _ticks(message: Any, unit: str, purse: Purse) -> int | None:  # noqa: ANN401
    """Return a Timestamp or Duration in a unit, without the digits below, whatever the sign of a Duration; None if out of range."""
    seconds, nanos, name = message.seconds, message.nanos, message.DESCRIPTOR.full_name
    size = NANOS_A_TICK[unit]
    least = -_MOST_NANOS if name == DURATION else 0
    if not least <= nanos <= _MOST_NANOS or (name == DURATION and seconds * nanos < 0):
        purse.note(f"a {name} has {seconds} s and {nanos} ns")
        return None
    part = abs(nanos) // size
    found: int = seconds * (_SECOND // size) + (part if nanos > 0 else -part)
    if not -(2**63) <= found < 2**63:
        purse.note(f"a {name} of {seconds} s is not counted in {unit}")
        return None
    return found
