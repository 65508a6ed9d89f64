"""Programs of Protobuf types: tables that the compiled extension reads messages with.

A program covers a type and all types that its fields can hold. Types that it cannot cover, such as message sets, have no
program: their messages stay with `google.protobuf`.
"""

from __future__ import annotations

from dataclasses import dataclass, field as dataclass_field
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.protobuf_json import MessagePrinter
from kafkafs.schemas.decoders.value_decoder import json_bytes
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.programs import extension

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

    from kafkafs.schemas.programs import compiled

_MOST_FIELDS = 20_000
"""Most fields of a program's types together."""
_MOST_TYPES = 2000


class FieldShape(IntEnum):
    """How often a field comes."""

    ONE = 0
    MANY = 1
    MAP = 2


class Special(IntEnum):
    """Messages with a JSON form of their own."""

    NONE = 0
    ANY = 1
    STRUCT = 2
    VALUE = 3
    LIST = 4
    TIMESTAMP = 5
    DURATION = 6
    FIELD_MASK = 7
    WRAPPER = 8


@dataclass(slots=True)
class FieldRow:
    """A field.

    Attributes:
        number: its number.
        type: FieldDescriptorProto.Type.
        shape: how often it comes.
        may_lack: whether nothing is shown if it is not set.
        is_required, is_closed: required; of an enum without unknown numbers.
        oneof: from 1; 0 without other fields in it.
        inner: index of its message or enum in the program.
        name: a comma, and its name as in JSON with the colon.
        missing: JSON of its default.
    """

    number: int
    type: int
    shape: FieldShape
    may_lack: bool
    is_required: bool
    is_closed: bool
    oneof: int
    inner: int
    name: bytes
    missing: bytes


@dataclass(slots=True)
class TypeRow:
    """A message type; `cost` is that of its defaults, `ranges` are first and end of each range of extensions."""

    special: Special
    is_entry: bool
    cost: int
    ranges: list[int]
    oneofs: int = 0
    has_required: bool = False
    fields: list[FieldRow] = dataclass_field(default_factory=list)


@dataclass(slots=True)
class EnumRow:
    """An enum: its names as JSON by number."""

    is_null: bool
    names: dict[int, bytes]


class _NotCoveredError(Exception):
    """A type that a program cannot have."""


def compile_program(root: Descriptor, printer: MessagePrinter) -> compiled.ProtobufProgram | None:
    """Return the program of a type; None if it cannot have one, or without the compiled extension.

    Args:
        root: the type.
        printer: the twin, which knows the defaults.
    """
    if extension is None:
        return None
    tables = _Tables(printer)
    try:
        tables.fill(root)
    except (_NotCoveredError, UndecodableError):
        return None
    program: compiled.ProtobufProgram = extension.ProtobufProgram(
        tables.types, tables.enums, MOST_COST
    )
    return program


class _Tables:
    """Tables of a program, filled type by type."""

    def __init__(self, printer: MessagePrinter) -> None:
        self.types: list[TypeRow] = []
        self.enums: list[EnumRow] = []
        self._printer = printer
        self._messages: dict[str, int] = {}
        self._todo: list[tuple[Descriptor, TypeRow]] = []
        self._known_enums: dict[str, int] = {}
        self._fields = 0

    def fill(self, root: Descriptor) -> None:
        """Add a type and all that its fields hold. Raises _NotCoveredError."""
        self._message(root)
        while self._todo:
            descriptor, row = self._todo.pop()
            self._fill(descriptor, row)
        changed = True
        while changed:
            changed = False
            for row in self.types:
                if not row.has_required and any(map(self._needs, row.fields)):
                    row.has_required = changed = True

    def _needs(self, field: FieldRow) -> bool:
        return field.is_required or (
            field.type in _MESSAGE_TYPES and self.types[field.inner].has_required
        )

    def _message(self, descriptor: Descriptor) -> int:
        """Return the index of a type."""
        found = self._messages.get(descriptor.full_name)
        if found is None:
            found = self._messages[descriptor.full_name] = len(self.types)
            options = descriptor.GetOptions()
            self._fields += len(descriptor.fields)
            if (
                options.message_set_wire_format
                or self._fields > _MOST_FIELDS
                or found >= _MOST_TYPES
            ):
                raise _NotCoveredError
            self.types.append(
                TypeRow(
                    _special(descriptor),
                    options.map_entry,
                    self._printer.cost(descriptor),
                    [end for both in descriptor.extension_ranges for end in both],
                )
            )
            self._todo.append((descriptor, self.types[found]))
        return found

    def _enum(self, kind: EnumDescriptor) -> int:
        """Return the index of an enum."""
        found = self._known_enums.get(kind.full_name)
        if found is None:
            found = self._known_enums[kind.full_name] = len(self.enums)
            names: dict[int, bytes] = {}
            for value in kind.values:
                names.setdefault(value.number, json_bytes(value.name))
            self.enums.append(EnumRow(kind.full_name == "google.protobuf.NullValue", names))
        return found

    def _fill(self, descriptor: Descriptor, row: TypeRow) -> None:
        fields = sorted(descriptor.fields, key=lambda field: field.number)
        if len({field.json_name for field in fields}) != len(fields):
            raise _NotCoveredError
        shared = [oneof for oneof in descriptor.oneofs if len(oneof.fields) > 1]
        numbers = {oneof.name: number for number, oneof in enumerate(shared, 1)}
        row.oneofs = len(shared)
        defaults = self._printer.defaults(descriptor)
        for field in fields:
            oneof = field.containing_oneof
            kind, enum = field.message_type, field.enum_type
            may_lack = field.json_name not in defaults
            row.fields.append(
                FieldRow(
                    field.number,
                    field.type,
                    _shape(field),
                    may_lack,
                    field.is_required,
                    enum is not None and enum.is_closed,
                    0 if oneof is None else numbers.get(oneof.name, 0),
                    self._message(kind) if kind else self._enum(enum) if enum else 0,
                    b"," + json_bytes(field.json_name) + b":",
                    b"" if may_lack else json_bytes(defaults[field.json_name]),
                )
            )


def _shape(field: FieldDescriptor) -> FieldShape:
    if not field.is_repeated:
        return FieldShape.ONE
    kind = field.message_type
    return FieldShape.MAP if kind is not None and kind.GetOptions().map_entry else FieldShape.MANY


_BOOL, _STRING, _BYTES, _ENUM, _GROUP, _MESSAGE = 8, 9, 12, 14, 10, 11
_MESSAGE_TYPES = (_GROUP, _MESSAGE)
_INT32, _INT64, _DOUBLE = 5, 3, 1
_Layout = tuple[tuple[int, int, FieldShape], ...]
_SECONDS: _Layout = ((1, _INT64, FieldShape.ONE), (2, _INT32, FieldShape.ONE))
_LAYOUTS: dict[str, tuple[Special, _Layout]] = {
    "Any": (Special.ANY, ((1, _STRING, FieldShape.ONE), (2, _BYTES, FieldShape.ONE))),
    "Struct": (Special.STRUCT, ((1, _MESSAGE, FieldShape.MAP),)),
    "ListValue": (Special.LIST, ((1, _MESSAGE, FieldShape.MANY),)),
    "Value": (
        Special.VALUE,
        tuple(
            (number, kind, FieldShape.ONE)
            for number, kind in enumerate((_ENUM, _DOUBLE, _STRING, _BOOL, _MESSAGE, _MESSAGE), 1)
        ),
    ),
    "Timestamp": (Special.TIMESTAMP, _SECONDS),
    "Duration": (Special.DURATION, _SECONDS),
    "FieldMask": (Special.FIELD_MASK, ((1, _STRING, FieldShape.MANY),)),
    **{
        f"{name}Value": (Special.WRAPPER, ((1, kind, FieldShape.ONE),))
        for name, kind in {
            "Double": _DOUBLE, "Float": 2, "Int64": _INT64, "UInt64": 4, "Int32": _INT32, "UInt32": 13,
            "Bool": _BOOL, "String": _STRING, "Bytes": _BYTES,
        }.items()
    },
}  # fmt: skip
"""Google's types with a JSON form of their own, and their fields by number."""


def _special(descriptor: Descriptor) -> Special:
    package, _, name = descriptor.full_name.rpartition(".")
    if package != "google.protobuf" or name not in _LAYOUTS:
        return Special.NONE
    special, layout = _LAYOUTS[name]
    fields = sorted(descriptor.fields, key=lambda field: field.number)
    oneof = len(fields) if special is Special.VALUE else 0
    if (
        tuple((field.number, field.type, _shape(field)) for field in fields) != layout
        or [len(each.fields) for each in descriptor.oneofs] != [oneof] * bool(oneof)
        or any(field.is_required for field in fields)
    ):
        raise _NotCoveredError
    return special
