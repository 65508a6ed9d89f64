"""The CRC-64-AVRO fingerprint of an Avro schema, over its Parsing Canonical Form; source: Avro's specification 1.12.

Names of types that the text does not define stay as they are, as full names.
"""

from __future__ import annotations

import json
from functools import cache

from kafkafs.schemas.avro_names import PRIMITIVES, full_name
from kafkafs.schemas.schema import JsonValue, Schema

_EMPTY = 0xC15D213AA4D7A795
_KEPT = ("name", "type", "fields", "symbols", "items", "values", "size")
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def fingerprint_of(schema: Schema) -> int | None:
    """Return the fingerprint of an Avro schema; None if the text is no schema."""
    try:
        return crc_64_avro(canonical_form(schema.text).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def canonical_form(text: str) -> str:
    """Return the Parsing Canonical Form of a schema.

    Raises ValueError, KeyError, TypeError, AttributeError or RecursionError if it is no schema.

    >>> canonical_form('{"type": "fixed", "doc": "a hash", "namespace": "x", "name": "Hash", "size": 4}')
    '{"name":"x.Hash","type":"fixed","size":4}'
    """
    return json.dumps(_canonical(json.loads(text), ""), separators=(",", ":"), ensure_ascii=False)


def crc_64_avro(data: bytes) -> int:
    """Return the fingerprint of bytes, unsigned.

    >>> hex(crc_64_avro(b'"null"'))
    '0x63dd24e7cc258f8a'
    """
    table = _table()
    crc = _EMPTY
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
        return value

    return tuple(map(entry, range(256)))


def _canonical(schema: JsonValue, namespace: str) -> JsonValue:
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else full_name(schema, namespace)
    if isinstance(schema, list):
        return [_canonical(branch, namespace) for branch in schema]
    kind = schema["type"]
    if not isinstance(kind, str):
        return _canonical(kind, namespace)
    if kind in PRIMITIVES:
        return kind
    if kind not in _NAMED and kind not in ("array", "map"):
        return full_name(kind, namespace)
    found = {field: schema[field] for field in _KEPT if field in schema}
    if kind in _NAMED:
        found["name"] = full_name(schema["name"], schema.get("namespace", namespace) or "")
        namespace = found["name"].rpartition(".")[0]
    for part in ("items", "values"):
        if part in found:
            found[part] = _canonical(found[part], namespace)
    if "fields" in found:
        found["fields"] = [
            {"name": field["name"], "type": _canonical(field["type"], namespace)}
            for field in found["fields"]
        ]
    if "size" in found:
        found["size"] = int(found["size"])
    return found
