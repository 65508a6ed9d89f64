"""Random Avro schemas, older schemas of them, and payloads."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

Schema = Any

UNITS = ("millis", "micros", "nanos")
SCALARS: tuple[Schema, ...] = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    *({"type": "long", "logicalType": f"{zone}timestamp-{unit}"} for zone in ("", "local-") for unit in UNITS),
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 7},
    {"type": "bytes", "logicalType": "decimal", "precision": 80, "scale": 1},
    {"type": "bytes", "logicalType": "big-decimal"},
)  # fmt: skip
FIXED: tuple[Schema, ...] = (
    {"type": "fixed", "size": 0},
    {"type": "fixed", "size": 5},
    {"type": "fixed", "size": 16, "logicalType": "uuid"},
    {"type": "fixed", "size": 12, "logicalType": "duration"},
    {"type": "fixed", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 3},
)
WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
DEFAULTS: tuple[tuple[Schema, Any], ...] = (
    ("int", 7),
    ("string", "é"),
    ("bytes", "\u00ff"),
    ("boolean", True),
    (["null", "double"], None),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001"),
    ({"type": "int", "logicalType": "date"}, 19675),
    (["int", "string"], 5),
)


class Maker:
    """Maker of schemas and payloads."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def schema(self, depth: int = 0) -> Schema:
        """A schema."""
        chance = self._chance
        kind = chance.choice(("scalar", "fixed", "enum") + 2 * ("record", "array", "map", "union"))
        if depth > 3 or kind == "scalar":
            return chance.choice(SCALARS)
        if kind == "fixed":
            return {**chance.choice(FIXED), "name": self._name()}
        if kind == "enum":
            return {"type": "enum", "name": self._name(), "symbols": ["A", "Bé", "C"]}
        if kind == "array":
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth + 1)}
        if kind == "record":
            fields = [
                {"name": f"f{place}", "type": self.schema(depth + 1)}
                for place in range(chance.randrange(5))
            ]
            return {"type": "record", "name": self._name(), "fields": fields}
        branches = [self.schema(depth + 1) for _ in range(chance.choice((0, 1, 1, 1, 2)))]
        branches = [each for each in branches if each != "null" and not isinstance(each, list)]
        branches.insert(chance.randrange(len(branches) + 1), "null")
        return branches

    def newer(self, schema: Schema) -> Schema:
        """A schema that values of another one may be read as."""
        chance = self._chance
        if isinstance(schema, list):
            found = [self.newer(each) for each in schema]
            if chance.random() < 0.1:
                found = [each for each in found if each != "null"] or found
            return found
        if isinstance(schema, str):
            if chance.random() < 0.2:
                return ["null", schema] if schema != "null" else schema
            return chance.choice((schema, *WIDER.get(schema, ())))
        if schema["type"] == "array":
            return {**schema, "items": self.newer(schema["items"])}
        if schema["type"] == "map":
            return {**schema, "values": self.newer(schema["values"])}
        if schema["type"] != "record":
            return schema
        fields = [{**each, "type": self.newer(each["type"])} for each in schema["fields"]]
        if fields and chance.random() < 0.3:
            fields.pop(chance.randrange(len(fields)))
        if fields and chance.random() < 0.3:
            place = chance.randrange(len(fields))
            name = fields[place]["name"]
            fields[place] = {**fields[place], "name": f"new_{name}", "aliases": [name]}
        for _ in range(chance.choice((0, 0, 1, 2))):
            kind, default = chance.choice(DEFAULTS)
            fields.append({"name": self._name(), "type": kind, "default": default})
        chance.shuffle(fields)
        return {**schema, "fields": fields}

    def payload(self, schema: Schema) -> bytes:
        """A value of a schema, most often a right one."""
        chance = self._chance
        if isinstance(schema, list):
            branch = chance.randrange(len(schema))
            return number(branch) + self.payload(schema[branch])
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if kind == "record":
            return b"".join(self.payload(each["type"]) for each in schema["fields"])
        if kind in ("array", "map"):
            return self._blocks(schema, kind)
        if kind == "enum":
            return number(chance.randrange(len(schema["symbols"])))
        if kind == "fixed":
            return chance.randbytes(schema["size"])
        if logical in ("time-millis", "time-micros"):
            return number(chance.randrange(86_400_000))
        if logical == "big-decimal":
            return sized(sized(chance.randbytes(chance.randrange(5))) + number(chance.randrange(4)))
        return self._primitive(kind)

    def _blocks(self, schema: Schema, kind: str) -> bytes:
        chance, made = self._chance, b""
        for _ in range(chance.choice((0, 1, 1, 2))):
            items = [
                (sized(f"k{chance.randrange(30)}".encode()) if kind == "map" else b"")
                + self.payload(schema["items" if kind == "array" else "values"])
                for _ in range(chance.choice((1, 2, 12)))
            ]
            data = b"".join(items)
            if chance.random() < 0.3:
                made += number(-len(items)) + number(len(data)) + data
            else:
                made += number(len(items)) + data
        return made + b"\0"

    def _primitive(self, kind: str) -> bytes:
        chance = self._chance
        if kind == "null":
            return b""
        if kind == "boolean":
            return bytes([chance.randrange(3)])
        if kind == "int":
            return number(chance.choice((0, -1, 2**31 - 1, -(2**31), chance.randrange(10**6))))
        if kind == "long":
            return number(chance.choice((0, -1, 2**63 - 1, -(2**63), chance.randrange(10**15))))
        if kind == "float":
            return struct.pack("<f", chance.choice((0.1, -0.0, 1e30, float("inf"), float("nan"))))
        if kind == "double":
            return struct.pack("<d", chance.choice((0.1, 5e-324, 1e300, float("-inf"))))
        if kind == "string":
            return sized(
                "".join(chance.choices('ab\u00e9\u2028\n"', k=chance.randrange(9))).encode()
            )
        return sized(chance.randbytes(chance.choice((0, 1, 2, 9, 16, 20))))


def number(value: int) -> bytes:
    """A zigzag number."""
    rest, made = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def sized(data: bytes) -> bytes:
    """Bytes behind their size."""
    return number(len(data)) + data
