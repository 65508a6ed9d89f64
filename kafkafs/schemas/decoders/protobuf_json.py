"""Protobuf messages as ProtoJSON, as Confluent's console consumer prints them.

Fields come in the order of their numbers, with their JSON names. Fields that are not set are shown with their defaults,
except for messages and members of a oneof (`optional` of proto3 is one), as
`JsonFormat.printer().includingDefaultValueFields()` of Java does. Unknown fields are left out.
Well-known types have their own forms. A part that has no such form costs itself, not the value: a time out of range and a
mask that is none have the fields of any message, an Any of an unknown type has its bytes in base64, a required field that
is missing is null; a note says so. Unlike `google.protobuf.json_format` the cost is bounded: a message of
two bytes may have thousands of default values.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkafs.schemas.decoders.avro_reader import double_json, float_json
from kafkafs.schemas.decoders.limits import CONTAINER_COST, MOST_DEPTH, Purse, pay
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import JsonValue

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

Proto: TypeAlias = Any
"""A message: its class is made at run time."""
Item: TypeAlias = Any
"""A field's value, or one of its values."""
Form: TypeAlias = Callable[[Item, int, Purse], JsonValue]
"""Makes JSON of a field's item: (item, depth, purse)."""

_DEFAULT_COST = 8


class MessagePrinter:
    """Printer of the messages of one pool. Thread-safe: what two threads make twice is equal.

    Args:
        pool: descriptors of the types that an Any may hold.
    """

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._messages: dict[str, _Fields] = {}
        self._special: dict[str, Form] = {
            "google.protobuf.Any": self._any,
            "google.protobuf.Struct": self._struct,
            "google.protobuf.Value": self._value,
            "google.protobuf.ListValue": self._list_value,
            **dict.fromkeys(_IN_A_STRING, self._as_string),
            **dict.fromkeys(_WRAPPERS, self._wrapper),
        }

    def json(self, message: Message, depth: int, purse: Purse) -> JsonValue:
        """Return a message as plain JSON.

        Raises:
            UndecodableError: it is too deep, or costs too much.
        """
        if depth > MOST_DEPTH:
            raise UndecodableError(f"the value is nested deeper than {MOST_DEPTH} levels")
        descriptor = message.DESCRIPTOR
        special = self._special.get(descriptor.full_name)
        if special is not None:
            return special(message, depth, purse)
        return self._fields(descriptor).json(message, depth, purse)

    def defaults(self, descriptor: Descriptor) -> dict[str, JsonValue]:
        """Return the defaults that a type's messages show, by JSON name, in the order of the fields' numbers."""
        from google.protobuf.message_factory import GetMessageClass

        return self._fields(descriptor).json(GetMessageClass(descriptor)(), 0, Purse())

    def cost(self, descriptor: Descriptor) -> int:
        """Return the cost of a message of a type, without its values."""
        return self._fields(descriptor).cost

    def _fields(self, descriptor: Descriptor) -> _Fields:
        known = self._messages.get(descriptor.full_name)
        if known is None:
            known = self._messages[descriptor.full_name] = _Fields(descriptor, self.json)
        return known

    # Well-known types

    def _any(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        if not message.type_url and not message.value:
            return {}
        inner = self._unpacked(message, purse)
        if inner is None:
            return {"@type": message.type_url, "value": b64encode(message.value).decode()}
        shown = self.json(inner, depth + 1, purse)
        if inner.DESCRIPTOR.full_name in self._special:
            shown = {"value": shown}
        return {"@type": message.type_url, **shown}

    def _unpacked(self, message: Proto, purse: Purse) -> Message | None:
        """Return what an Any holds; None, with a note, if that is not known."""
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        name = message.type_url.rpartition("/")[2]
        try:
            inner = GetMessageClass(self._pool.FindMessageTypeByName(name))()
            inner.ParseFromString(message.value)
        except KeyError:
            purse.note(f"an Any holds a type that the schema does not have: {name[:200]}")
            return None
        except DecodeError:
            purse.note(f"an Any holds bytes that are no {name[:200]}")
            return None
        return inner

    def _as_string(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        try:
            return message.ToJsonString()
        except ValueError as error:
            purse.note(f"a {message.DESCRIPTOR.full_name}: {error}")
            return self._fields(message.DESCRIPTOR).json(message, depth, purse)

    def _wrapper(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        field = message.DESCRIPTOR.fields_by_name["value"]
        return _form(field, self.json)(message.value, depth, purse)

    def _struct(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        pay(purse, CONTAINER_COST, 0)
        fields = message.fields
        return {key: self.json(fields[key], depth + 1, purse) for key in sorted(fields)}

    def _list_value(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        pay(purse, CONTAINER_COST, 0)
        return [self.json(item, depth + 1, purse) for item in message.values]

    def _value(self, message: Proto, depth: int, purse: Purse) -> JsonValue:
        kind = message.WhichOneof("kind")
        if kind is None:
            purse.note("a google.protobuf.Value holds nothing")
            return None
        if kind == "null_value":
            return None
        item = getattr(message, kind)
        if kind in ("struct_value", "list_value"):
            return self.json(item, depth, purse)
        if kind == "number_value":
            number = double_json(item)
            if isinstance(number, str):
                purse.note("a google.protobuf.Value holds a number that is not finite")
            return number
        return item


_WRAPPERS = [
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
]
_IN_A_STRING = [f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "FieldMask")]


class _Fields:
    """Printer of one type's fields."""

    def __init__(self, descriptor: Descriptor, message: Form) -> None:
        fields = sorted(descriptor.fields, key=lambda field: field.number)
        self._plan = [_FieldPlan(field, message) for field in fields]
        self.cost = CONTAINER_COST + sum(
            len(plan.name) + _DEFAULT_COST for plan in self._plan if not plan.may_lack
        )
        self._has_extensions = bool(descriptor.extension_ranges)
        self._message = message

    def json(self, message: Proto, depth: int, purse: Purse) -> dict[str, JsonValue]:
        """Return a message's fields as an object."""
        pay(purse, self.cost, 0)
        found: dict[str, JsonValue] = {}
        for plan in self._plan:
            if plan.is_required and not message.HasField(plan.field_name):
                found[plan.name] = None
                purse.note(f"required fields are missing: {plan.field_name[:200]}")
            elif not plan.may_lack or message.HasField(plan.field_name):
                found[plan.name] = plan.json(getattr(message, plan.field_name), depth + 1, purse)
        if self._has_extensions:
            for field, item in message.ListFields():
                if field.is_extension:
                    plan = _FieldPlan(field, self._message)
                    found[f"[{field.full_name}]"] = plan.json(item, depth + 1, purse)
        return found


class _FieldPlan:
    """How one field is printed."""

    __slots__ = (
        "_form", "_is_map", "_is_repeated", "field_name", "is_required", "may_lack", "name",
    )  # fmt: skip

    def __init__(self, field: FieldDescriptor, message: Form) -> None:
        self.field_name, self.name = field.name, field.json_name
        kind = field.message_type
        is_message = kind is not None and not field.is_repeated
        self.may_lack = is_message or field.containing_oneof is not None
        self.is_required = field.is_required
        self._is_map = kind is not None and kind.GetOptions().map_entry
        self._is_repeated = field.is_repeated
        if self._is_map:
            field = kind.fields_by_name["value"]
        self._form = _form(field, message)

    def json(self, item: Item, depth: int, purse: Purse) -> JsonValue:
        """Return a field's item as JSON."""
        form = self._form
        if self._is_map:
            pay(purse, CONTAINER_COST * len(item), 0)
            try:
                return {_key(key): form(item[key], depth, purse) for key in sorted(item)}
            except UnicodeDecodeError:
                purse.note("a map has a key that is not UTF-8, and is not shown")
                return None
        if self._is_repeated:
            return [form(each, depth, purse) for each in item]
        return form(item, depth, purse)


def _key(key: Item) -> str:
    """Return a map's key, which is a string in JSON."""
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _form(field: FieldDescriptor, message: Form) -> Form:
    kind = field.cpp_type
    if kind == field.CPPTYPE_MESSAGE:
        return message
    if kind == field.CPPTYPE_ENUM:
        return _enum_form(field.enum_type)
    if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return lambda item, depth, purse: str(item)
    if kind == field.CPPTYPE_FLOAT:
        return lambda item, depth, purse: float_json(item)
    if kind == field.CPPTYPE_DOUBLE:
        return lambda item, depth, purse: double_json(item)
    if field.type == field.TYPE_BYTES:
        return lambda item, depth, purse: b64encode(item).decode()
    if field.type == field.TYPE_STRING:
        return lambda item, depth, purse: text_of(item, purse)
    return lambda item, depth, purse: item


def text_of(item: Item, purse: Purse) -> Item:
    """Return a string; in base64, with a note, if it is bytes, as proto2 has strings that are not UTF-8."""
    if isinstance(item, bytes):
        purse.note("a string is not UTF-8, and shown in base64")
        return b64encode(item).decode()
    return item


def _enum_form(kind: EnumDescriptor) -> Form:
    if kind.full_name == "google.protobuf.NullValue":
        return lambda item, depth, purse: None
    names: dict[int, str] = {}
    for value in kind.values:
        names.setdefault(value.number, value.name)
    return lambda item, depth, purse: names.get(item, item)
