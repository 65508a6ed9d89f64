"""Record lines of topics that Confluent's serializers wrote, equal to what its deserializers returned."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkafs
from tests.fixtures_data import DATA
from tests.schema_truth import schema_paths

SCHEMAS = DATA / "schemas-confluent"
TOPICS = sorted(path.name[: -len(".jsonl.gz")] for path in (SCHEMAS / "truth").glob("*-0.jsonl.gz"))

LENIENT = {
    ("avro-garbage-0", 15): "a string is not UTF-8, at byte 2",
    ("json-garbage-0", 6): "the bytes are not one JSON value",
    ("json-garbage-0", 9): "the bytes are not one JSON value",
    ("json-garbage-0", 11): "the bytes are not one JSON value",
}
"""Values that Java reads although they break their format: they stay bytes, with this note."""

PARTS = ("required fields are missing: ", "an Any holds a type that the schema does not have: ")
"""Notes on values that Java refuses, and of which all but a part is shown."""


@cache
def lines(name: str, values: str = "auto") -> list[dict[str, Any]]:
    schemas = schema_paths("schemas-confluent")
    with kafkafs.open(SCHEMAS / "data", values=values, schemas=schemas) as tree:
        return [json.loads(line) for line in tree.read(f"{name}/offset/0..").splitlines()]


def truth(name: str) -> list[dict[str, Any]]:
    with gzip.open(SCHEMAS / "truth" / f"{name}.jsonl.gz") as file:
        return [json.loads(line) for line in file]


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal; floats of 32 bits may have other digits in older releases of Java."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float) and isinstance(expected, float) and found != expected:
        return struct.pack("<f", found) == struct.pack("<f", expected)
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize("name", TOPICS)
def test_each_record_is_decoded_as_the_official_deserializer_does(name: str) -> None:
    found, expected = lines(name), truth(name)
    assert [line["offset"] for line in found] == [record["offset"] for record in expected]
    for line, record in zip(found, expected, strict=True):
        for part in ("key", "value"):
            check(line, part, record[part], (name, record["offset"]))


def check(line: dict[str, Any], part: str, expected: Any, where: tuple[str, int]) -> None:
    schema = line.get("schema" if part == "value" else "keySchema")
    encoding, note = line.get(f"{part}Encoding"), line.get(f"{part}Note")
    if expected is None:
        assert line[part] is None, where
    elif where in LENIENT and part == "value":
        assert note == LENIENT[where]
    elif "json" in expected:
        assert same(line[part], expected["json"]), where
        assert encoding == expected["kind"], where
        assert schema is not None, where
        assert schema.get("id") == expected.get("id", schema.get("id")), where
    else:  # without a schema, or refused: of some, only a part is not shown
        is_part = note is not None and note.startswith(PARTS)
        assert is_part or encoding in (None, "json", "base64"), where
        assert "error" not in expected or note or schema is None, where


def test_the_topics_have_what_they_are_for() -> None:
    kinds = [line.get("valueEncoding") for name in TOPICS for line in lines(name)]
    assert len(TOPICS) > 30
    assert all(kinds.count(kind) > 10 for kind in ("avro", "protobuf", "json-schema"))
    notes = [line["valueNote"] for name in TOPICS for line in lines(name) if "valueNote" in line]
    assert "4 bytes follow the value" in notes
    assert any(note.startswith("the schema id ") for note in notes)


@pytest.mark.parametrize("name", TOPICS)
def test_single_records_segments_and_ranges_show_the_same(name: str) -> None:
    with kafkafs.open(SCHEMAS / "data") as tree:
        whole = tree.read(f"{name}/offset/0..")
        assert tree.read(f"{name}/records/00000000000000000000.jsonl") == whole
        every = [tree.read(f"{name}/offset/{n}") for n in range(len(whole.splitlines()))]
        assert b"".join(every) == whole
        file = tree.tree.resolve(f"{name}/records/00000000000000000000.jsonl")
        content = file.open()
        assert content.size == len(whole)
        content.close()


def test_without_schemas_values_are_bytes(tmp_path: Path) -> None:
    shown = lines("avro-types-0", "base64")
    assert "schema" not in shown[0]
    alone = tmp_path / "data"
    shutil.copytree(SCHEMAS / "data" / "avro-types-0", alone / "avro-types-0")
    with kafkafs.open(alone) as tree:
        line = json.loads(tree.read("avro-types-0/offset/0"))
        assert "schema" not in line
        assert "valueNote" not in line
