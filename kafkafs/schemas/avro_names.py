"""Names of the types that an Avro schema defines and of those that it needs from other files."""

from __future__ import annotations

import json
from typing import NamedTuple

from kafkafs.schemas.schema import JsonValue

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_PLAIN = frozenset({*PRIMITIVES, *_NAMED, "array", "map"})


class AvroNames(NamedTuple):
    """Full names of types.

    Attributes:
        defined: types that the schema defines, in the order of the text.
        needed: types that it uses and does not define, in that order.
    """

    defined: tuple[str, ...]
    needed: tuple[str, ...]


def avro_names(text: str) -> AvroNames:
    """Return the names in a schema.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.

    >>> avro_names('{"type":"record","name":"shop.Order","fields":[{"name":"x","type":"Item"}]}')
    AvroNames(defined=('shop.Order',), needed=('shop.Item',))
    """
    defined: dict[str, None] = {}
    used: dict[str, None] = {}
    try:
        _walk(json.loads(text), "", defined, used)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    return AvroNames(tuple(defined), tuple(name for name in used if name not in defined))


def full_name(name: str, namespace: str) -> str:
    """Return the full name of a type in a namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _walk(
    schema: JsonValue, namespace: str, defined: dict[str, None], used: dict[str, None]
) -> None:
    if isinstance(schema, str):
        if schema not in _PLAIN:
            used[full_name(schema, namespace)] = None
    elif isinstance(schema, list):
        for branch in schema:
            _walk(branch, namespace, defined, used)
    elif isinstance(schema, dict):
        kind, name = schema.get("type"), schema.get("name")
        if isinstance(kind, str) and kind in _NAMED and isinstance(name, str):
            inner = schema.get("namespace", namespace)
            name = full_name(name, inner if isinstance(inner, str) else "")
            defined[name] = None
            namespace = name.rpartition(".")[0]
        _walk(kind, namespace, defined, used)
        _walk(schema.get("items"), namespace, defined, used)
        _walk(schema.get("values"), namespace, defined, used)
        fields = schema.get("fields")
        for field in fields if isinstance(fields, list) else ():
            _walk(field.get("type") if isinstance(field, dict) else None, namespace, defined, used)
