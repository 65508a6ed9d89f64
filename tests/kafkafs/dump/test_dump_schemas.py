"""JSON lines of keys and values with a schema: decoded as by `cat`, beside the exact bytes."""

from __future__ import annotations

import base64
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.log.segment.scan import scan
from kafkafs.cli import cli
from kafkafs.dump import many_cores
from kafkafs.dump.records import log_batches
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import DATA
from tests.kafkafs.dump.dumped import dump

SOURCE = DATA / "schemas-confluent" / "data"
TOPIC = "avro-evolution"
LOG = SOURCE / f"{TOPIC}-0" / "00000000000000000000.log"
ANN = b"\x00\x00\x00\x00\n\x02\x06Ann"
DECODED_ANN = {
    "value": {"id": 1, "name": "Ann"},
    "valueEncoding": "avro",
    "schema": {"id": 10, "subject": "avro-evolution-value", "version": 1},
}


def records(*arguments: object) -> list[dict[str, Any]]:
    found = dump([str(each) for each in arguments], "--json").json
    return [line for line in found if line.get("type") == "record"]


def lines_of_cat(schemas: str) -> dict[tuple[str, int], dict[str, Any]]:
    arguments = ["cat", str(SOURCE), "--topic", "/[^_].*/", "--schemas", schemas]
    lines = map(json.loads, CliRunner().invoke(cli, arguments).stdout.splitlines())
    return {(line["topic"], line["offset"]): line for line in lines}


def decoded_by_cat() -> dict[tuple[str, int], dict[str, Any]]:
    """The fields that `cat` decodes or has a note on, by topic and offset; no record without one."""
    found = {}
    bare = lines_of_cat("none")
    for place, line in lines_of_cat("auto").items():
        fields: dict[str, Any] = {}
        for name, schema in (("key", "keySchema"), ("value", "schema")):
            encoding = f"{name}Encoding"
            names = [schema, f"{name}Note"]
            if any(line.get(each) != bare[place].get(each) for each in (name, encoding)):
                names += [name, encoding]
            fields |= {each: line[each] for each in names if each in line}
        if fields:
            found[place] = fields
    return found


def test_a_dump_decodes_what_cat_decodes() -> None:
    shown = records(SOURCE, "--topic", "/[^_].*/")
    found = {
        (Path(each["file"]).parent.name.removesuffix("-0"), each["offset"]): each["decoded"]
        for each in shown
        if "decoded" in each
    }
    assert found == decoded_by_cat()
    kinds = {fields.get("valueEncoding") for fields in found.values()}
    assert kinds >= {"avro", "protobuf", "json-schema", None}


def test_the_bytes_stay_beside_the_decoded_value() -> None:
    first = records(SOURCE, "--topic", TOPIC)[0]
    assert first["value"].encode() == ANN
    assert first["decoded"].items() >= DECODED_ANN.items()


def test_a_file_alone_has_no_schemas() -> None:
    assert not any("decoded" in record for record in records(LOG))


def test_a_path_gives_a_file_its_schemas(tmp_path: Path) -> None:
    copy = tmp_path / "00000000000000000000.log"
    shutil.copy(LOG, copy)
    wanted = [record["decoded"] for record in records(SOURCE, "--topic", TOPIC)]
    assert [record["decoded"] for record in records(copy, "--schemas", SOURCE)] == wanted


def test_none_decodes_nothing() -> None:
    shown = records(SOURCE, "--topic", TOPIC, "--schemas", "none")
    assert shown
    assert not any("decoded" in record for record in shown)


def test_schemas_of_a_path_are_refused_for_the_text() -> None:
    dumped = dump(LOG, "--schemas", str(SOURCE))
    assert dumped.status == 2
    assert "--schemas PATH needs --json" in dumped.err


def test_the_text_is_that_of_a_source_without_schemas() -> None:
    named = dump(SOURCE / f"{TOPIC}-0", "--print-data-log", "--schemas", "none")
    auto = dump(SOURCE, "--topic", TOPIC, "--print-data-log")
    assert auto.out == named.out
    assert b'"name":"Ann"' not in auto.out


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_decoded(tmp_path: Path, magic: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(builders.message_set([Rec(ANN)], magic=magic))
    (record,) = records(path, "--schemas", SOURCE)
    assert record["decoded"] == DECODED_ANN


def test_a_record_that_is_printed_in_pieces_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    header = bytes(5 * 1024 * 1024)
    path.write_bytes(builders.batch([Rec(ANN, headers=[(b"h", header)])]))
    (record,) = records(path, "--schemas", SOURCE)
    assert record["decoded"] == DECODED_ANN


def test_a_value_above_the_limit_has_a_note(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    value = b"\x00\x00\x00\x00\n\xff" + bytes(16 * 1024 * 1024)
    path.write_bytes(builders.batch([Rec(value)]))
    (record,) = records(path, "--schemas", SOURCE)
    assert record["decoded"] == {"valueNote": f"{len(value)} bytes are not decoded"}
    assert base64.b64decode(record["value"]) == value


def test_many_cores_decode_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_cores, "SMALL", 0)
    monkeypatch.setattr(log_batches, "scan", partial(scan, chunk=512))
    one, many = (dump(SOURCE, "--json", "--topic", TOPIC, "--jobs", jobs) for jobs in ("1", "3"))
    assert b'"decoded":{"key":"user-0"' in one.out
    assert many.out == one.out
