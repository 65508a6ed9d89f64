"""Hostile schemas and values in a log: each stays bytes with a note, and the records around it are decoded."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

import kafkafs
from engine.budgets import MiB
from kafkafs.api.opened_source import OpenedSource
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog

GUID = UUID(int=7)
NODE = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
ENDLESS = '{"type":"record","name":"T","fields":[{"name":"t","type":"T"}]}'
NAMES = [f'{{"name":"f{number}","type":"int"}}' for number in range(1000)]
ROW = f'{{"type":"record","name":"Row","fields":[{",".join(NAMES)}]}}'
ROWS = [f'{{"name":"r{number}","type":{"@" if not number else chr(34) + "Row" + chr(34)}}}'
        for number in range(1000)]  # fmt: skip
MILLION = f'{{"type":"record","name":"Million","fields":[{",".join(ROWS)}]}}'.replace("@", ROW)
WIDE = ",".join(f'{{"name":"f{number}","type":"int"}}' for number in range(1_000_000))
PROTO = 'syntax = "proto3"; message N { N next = 1; repeated int32 many = 2; string text = 3; }'
SCHEMAS = {
    1: ("AVRO", '{"type":"array","items":"string"}'),
    2: ("AVRO", '["null","int"]'),
    3: ("AVRO", NODE),
    4: ("AVRO", ENDLESS),
    5: ("AVRO", MILLION),
    6: ("AVRO", f'{{"type":"record","name":"Wide","fields":[{WIDE}]}}'),
    7: ("PROTOBUF", PROTO),
    8: ("JSON", '{"type":"object"}'),
    9: ("AVRO", '{"type":"array","items":"null"}'),
}
LEAST = b"\xff" * 9 + b"\x01"
"""The smallest number of 64 bits."""


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">i", number) + payload


def glue(payload: bytes) -> bytes:
    return b"\x03\x05" + GUID.bytes + zlib.compress(payload)


GOOD = framed(1, b"\x02\x04ok\0")
HOSTILE = {
    "negative count": framed(1, LEAST + b"\0"),
    "negative count and size": framed(1, b"\x01" + LEAST),
    "more items than bytes": framed(1, b"\xfe" + b"\xff" * 8 + b"\x01"),
    "items of no bytes": framed(9, LEAST + b"\0\0"),
    "truncated varint": framed(1, b"\x02\x80\x80"),
    "endless varint": framed(1, b"\xff" * 11),
    "size below zero": framed(1, b"\x02\x01"),
    "no UTF-8": framed(1, b"\x02\x04\xff\xff\0"),
    "union out of range": framed(2, b"\x04\x02"),
    "union below zero": framed(2, b"\x01"),
    "deep value": framed(3, b"\x02" * 1_000_000),
    "endless schema": framed(4, b""),
    "a million fields, cut off": framed(5, b"\x02" * 999_999),
    "a schema of a million fields": framed(6, b"\x02" * 1_000_000),
    "protobuf: truncated varint": framed(7, b"\0\x08\xff"),
    "protobuf: length outside": framed(7, b"\0\x1a\x7fx"),
    "protobuf: no UTF-8": framed(7, b"\0\x1a\x02\xff\xff"),
    "protobuf: no such message": framed(7, b"\x02\x7e"),
    "JSON: cut off": framed(8, b'{"a":'),
    "JSON: deep": framed(8, b"[" * 100_000),
    "Glue: a bomb": glue(bytes(64 * MiB + 1)),
    "Glue: a bomb that grows on": glue(zlib.compress(bytes(64 * MiB))),
    "Glue: damaged": glue(b"\0")[:-3],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedSource]:
    """A topic in which a good value follows each hostile one."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    mapping = folder / "mapping.toml"
    mapping.write_text(f'[[ids]]\nguid = "{GUID}"\nfile = "strings.avsc"\n')
    (folder / "strings.avsc").write_text(SCHEMAS[1][1])
    registry = BuiltLog(folder / "data", "_schemas-0")
    registry.segment([batch([registered(number)], number - 1) for number in SCHEMAS], 0)
    records = [Rec(each) for value in HOSTILE.values() for each in (value, GOOD)]
    BuiltLog(folder / "data").segment([batch(records)], 0)
    with kafkafs.open(folder / "data", schemas=[str(folder / "data"), str(mapping)]) as opened:
        yield opened


def registered(number: int) -> Rec:
    """The record of a registry's topic with a schema."""
    kind, text = SCHEMAS[number]
    subject = f"s{number}"
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": number, "schemaType": kind, "schema": text}
    return Rec(json.dumps({**value, "deleted": False}).encode(), json.dumps(key).encode())


def test_each_line_is_there_with_a_note_or_its_value(source: OpenedSource) -> None:
    lines = [json.loads(line) for line in source.read("orders-0/offset/0..").splitlines()]
    assert [line["offset"] for line in lines] == list(range(2 * len(HOSTILE)))
    for name, line in zip(HOSTILE, lines[::2], strict=True):
        assert line["valueNote"], name
    for line in lines[1::2]:
        assert (line["value"], line["valueEncoding"], line.get("valueNote")) == (
            ["ok"],
            "avro",
            None,
        )


def test_each_row_is_there_with_its_bytes_and_a_note_or_its_value(source: OpenedSource) -> None:
    rows = source.scan("orders", columns=["value", "decodedValue", "valueNote"]).to_arrow()
    found = rows.to_pylist()
    assert [row["value"] for row in found[::2]] == list(HOSTILE.values())
    for name, row in zip(HOSTILE, found[::2], strict=True):
        assert row["decodedValue"] is None, name
        assert row["valueNote"], name
    for row in found[1::2]:
        assert (row["decodedValue"], row["valueNote"]) == ('["ok"]', None)
