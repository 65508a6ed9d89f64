"""Topics with a type: each face shows the same, from the mapping that a user gives or the name that the topic has."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import cbor2
import msgpack
import pyarrow as pa
import pytest
import zstandard
from click.testing import CliRunner

import kafkafs
from engine.log.log_directory import open_source
from kafkafs.cli import cli
from kafkafs.escaped_names import escaped
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.sources.fixed_schemas import FixedSchemas
from kafkafs.schemas.sources.known_schemas import KnownSchemas
from kafkafs.schemas.sources.opened import open_schemas
from tests.builders import Rec
from tests.schema_records import LONG, schema_record, write_topic

ORDER = {"id": 7, "city": "Zürich", "card": "4711"}
ORDER_JSON = json.dumps(ORDER, ensure_ascii=False).encode()
START = 1_700_000_000_000


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


MAPPING = """
[topics.zipped]
key = { type = "int64" }
value = { type = "gzip/json" }
[topics.cbor]
key = { type = "int32" }
value = { type = "cbor" }
[topics.packed]
key = { type = "uuid" }
value = { type = "msgpack" }
[topics."*-changelog"]
key = { type = "windowed-store/int64" }
value = { type = "double" }
[topics.sessions]
key = { type = "session/string" }
value = { type = "snappy" }
[topics.framed]
value = { type = "gzip" }
[topics.bare]
value = { type = "zstd", file = "long.avsc" }
"""
UUID = "c232a1d4-c232-a1d4-c232-a1d4c232a1d4"
TOPICS: dict[str, tuple[Rec, Any, str | None, Any, str | None]] = {
    "zipped": (Rec(gzip.compress(ORDER_JSON), int64(42)), 42, "int64", ORDER, "gzip/json"),
    "cbor": (Rec(cbor2.dumps(ORDER), struct.pack(">i", 5)), 5, "int32", ORDER, "cbor"),
    "packed": (Rec(msgpack.packb(ORDER), UUID.encode()), UUID, "uuid", ORDER, "msgpack"),
    "app-s-changelog": (
        Rec(struct.pack(">d", 1.5), int64(42) + int64(START) + bytes(4)),
        {"key": 42, "start": START, "sequence": 0}, "windowed-store/int64", 1.5, "double",
    ),
    "primary.checkpoints.internal": (
        Rec(struct.pack(">hqq", 0, 9, 8) + string(""), string("g") + string("t") + struct.pack(">i", 3)),
        {"group": "g", "topic": "t", "partition": 3}, "mirror-checkpoint",
        {"version": 0, "upstreamOffset": 9, "offset": 8, "metadata": ""}, "mirror-checkpoint",
    ),
    "heartbeats": (
        Rec(struct.pack(">hq", 0, 7), string("a") + string("b")),
        {"sourceClusterAlias": "a", "targetClusterAlias": "b"}, "mirror-heartbeat",
        {"version": 0, "timestamp": 7}, "mirror-heartbeat",
    ),
    "bare": (Rec(None, b"k"), "k", None, None, None),
}  # fmt: skip
"""A record of each topic, and what a line has of its key and value, with the Encodings."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    for topic, (record, *_) in TOPICS.items():
        write_topic(folder / "data", [record, Rec(b"\xc1", b"\xfe\xff")], name=f"{topic}-0")
    (folder / "types.toml").write_text(MAPPING)
    (folder / "long.avsc").write_text(LONG)
    return folder


def run(command: str, source: Path, *arguments: str, status: int = 0) -> str:
    given = [command, *arguments, "--schemas", str(source / "types.toml")]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == status, done.output
    return done.stdout


def line(source: Path, topic: str, offset: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run("cat", source, str(source / "data"), f"{topic}-0/offset/{offset}")
    )
    return found


@pytest.mark.parametrize("topic", TOPICS)
def test_the_line_the_table_and_the_record_have_the_same_json(source: Path, topic: str) -> None:
    _, key, key_encoding, value, value_encoding = TOPICS[topic]
    found = line(source, topic)
    assert (found["key"], found.get("keyEncoding")) == (key, key_encoding)
    assert (found["value"], found.get("valueEncoding")) == (value, value_encoding)
    with kafkafs.open(source / "data", schemas=str(source / "types.toml")) as opened:
        row = opened.scan(topic, columns=["decodedKey", "decodedValue", "keyNote"]).to_arrow()
        record = opened[topic, 0][0]
    if key_encoding is not None:
        assert json.loads(row["decodedKey"][0].as_py()) == key
        assert record.decoded().key == key
    if value is not None:
        assert json.loads(row["decodedValue"][0].as_py()) == value
        assert record.decoded().value == value
    assert row["keyNote"][0].as_py() is None


@pytest.mark.parametrize("topic", TOPICS)
def test_what_does_not_fit_stays_bytes_with_a_note(source: Path, topic: str) -> None:
    found = line(source, topic, 1)
    assert (found["value"], found["valueEncoding"]) == ("wQ==", "base64")
    assert base64.b64decode(found["key"]) == b"\xfe\xff"
    if topic == "heartbeats":  # only a guess
        assert "valueNote" not in found
    else:
        assert found["valueNote"].startswith("not of the type ")
    assert ("keyNote" in found) == (topic not in ("heartbeats", "bare"))


@pytest.mark.parametrize("topic", TOPICS)
def test_get_finds_a_key_as_the_line_shows_it(source: Path, topic: str) -> None:
    key = TOPICS[topic][1]
    text = key if isinstance(key, str) else json.dumps(key)
    found = run("get", source, str(source / "data"), topic, text)
    assert json.loads(found) == line(source, topic)
    as_bytes = TOPICS[topic][0].key or b""
    assert (
        run("get", source, str(source / "data"), topic, as_bytes.hex(), "--key-format", "hex")
        == found
    )
    run(
        "get",
        source,
        str(source / "data"),
        topic,
        "43" if topic in ("zipped", "cbor") else "other",
        status=1,
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_objects_scans_and_paths_take_the_key_that_get_takes(source: Path, topic: str) -> None:
    key, exact = TOPICS[topic][1], TOPICS[topic][0].key or b""
    text = key if isinstance(key, str) else json.dumps(key)
    with kafkafs.open(source / "data", schemas=[source / "types.toml"]) as opened:
        for sought in (text, exact):
            found = opened[topic, 0].newest(sought)
            assert found is not None
            assert found.key == exact
            assert opened.scan(topic, keys=[sought]).to_arrow()["key"].to_pylist() == [exact]
        both = opened.scan(topic, keys=[exact, text, b"\xfe\xff"], columns=["offset"]).to_arrow()
        assert both["offset"].to_pylist() == [0, 1]
    names = [name for name in TOPICS if name != "bare"]
    text_of_checkpoint = f"0\n{len(names)}\n" + "".join(f"{name} 0 1\n" for name in names)
    (source / "data" / "cleaner-offset-checkpoint").write_text(text_of_checkpoint)
    if topic in names:
        found_line = run("cat", source, str(source / "data"), f"{topic}-0/key/{escaped(text)}")
        assert json.loads(found_line) == line(source, topic)


def test_text_that_is_no_key_of_the_type_is_refused_in_the_words_of_each_face(source: Path) -> None:
    with kafkafs.open(source / "data", schemas=[source / "types.toml"]) as opened:
        with pytest.raises(ValueError, match="'x42' is no key of zipped"):
            opened["zipped", 0].newest("x42")
        with pytest.raises(ValueError, match="'x42' is no key of zipped"):
            opened.scan("zipped", keys=["x42"])
        assert opened["zipped", 0].newest(b"x42") is None
    (source / "data" / "cleaner-offset-checkpoint").write_text("0\n1\nzipped 0 1\n")
    with pytest.raises(AssertionError, match="no key of the topic has this name"):
        run("cat", source, str(source / "data"), "zipped-0/key/x42")


def test_get_says_what_is_no_key_of_the_type_and_finds_the_partition_of_its_bytes(
    source: Path,
) -> None:
    data = str(source / "data")
    run("get", source, data, "zipped", "x42", status=2)
    run("get", source, data, "packed", UUID, "--partitioner", "murmur2:1", status=2)
    assert run("get", source, data, "zipped", "42", "--partitioner", "murmur2:1")


def test_grep_sees_what_the_line_shows(source: Path) -> None:
    data = str(source / "data")
    for topic in ("zipped", "cbor", "packed"):
        for pattern in ("Zürich", "4711"):
            assert run("grep", source, "-c", pattern, data, f"{topic}-0") == "1\n"
        assert (
            run("grep", source, "-c", "--where", '.value.city == "Zürich"', data, f"{topic}-0")
            == "1\n"
        )
    assert run("grep", source, "-c", "--where", ".key == 42", data, "zipped-0") == "1\n"
    assert (
        run("grep", source, "-c", "--where", f".key.start == {START}", data, "app-s-changelog-0")
        == "1\n"
    )


def test_sql_and_columns_have_the_type(source: Path) -> None:
    data = str(source / "data")
    query = "select typeof(decodedKey), decodedKey + 1, decodedValue->>'city' from zipped where decodedKey > 0"
    assert run("sql", source, query, data, "--csv").splitlines()[1] == "BIGINT,43,Zürich"
    with kafkafs.open(data, schemas=str(source / "types.toml")) as opened:
        made = opened.scan("app-s-changelog", decode="columns").to_arrow()
        assert made.schema.field("value").type == pa.float64()
        window = pa.struct([("key", pa.int64()), ("start", pa.int64()), ("sequence", pa.int32())])
        assert made.schema.field("key").type == window
        assert made["key"].to_pylist() == [{"key": 42, "start": START, "sequence": 0}, None]
        assert made["value"].to_pylist() == [1.5, None]
        assert (
            made["valueNote"][1].as_py().startswith("not of the type double: 1 bytes, expected 8")
        )
        with pytest.raises(ValueError, match="and no type"):
            opened.scan("heartbeats", decode="columns")


def test_masks_see_what_is_in_a_value_and_hide_bytes_that_are_not_read(source: Path) -> None:
    policy = source / "mask.toml"
    policy.write_text(
        '[[rules]]\ntopics = ["*"]\nfields = { ".value.card" = "drop", ".key.key" = "drop" }\n'
    )
    data, mask = str(source / "data"), ["--mask", str(policy)]
    for topic in ("zipped", "cbor", "packed"):
        found = json.loads(run("cat", source, data, f"{topic}-0/offset/0", *mask))
        assert found["value"] == {"id": 7, "city": "Zürich"}
        hidden = json.loads(run("cat", source, data, f"{topic}-0/offset/1", *mask))
        assert "value" not in hidden
        assert hidden["valueMasked"] == "unreadable"
    found = json.loads(run("cat", source, data, "app-s-changelog-0/offset/0", *mask))
    assert found["key"] == {"start": START, "sequence": 0}


def test_a_codec_that_holds_bytes_is_unreadable_behind_a_mask(tmp_path: Path) -> None:
    write_topic(tmp_path / "data", [Rec(gzip.compress(b"\xff4711"))], name="framed-0")
    (tmp_path / "types.toml").write_text(MAPPING)
    (tmp_path / "long.avsc").write_text(LONG)
    (tmp_path / "mask.toml").write_text(
        '[[rules]]\ntopics = ["*"]\nfields = { ".value.card" = "drop" }\n'
    )
    assert line(tmp_path, "framed")["valueEncoding"] == "gzip/base64"
    masked = run(
        "cat",
        tmp_path,
        str(tmp_path / "data"),
        "framed-0/offset/0",
        "--mask",
        str(tmp_path / "mask.toml"),
    )
    assert json.loads(masked)["valueMasked"] == "unreadable"
    assert "value" not in json.loads(masked)


def test_a_codec_may_hold_what_names_its_schema_or_has_one_by_the_mapping(tmp_path: Path) -> None:
    records = [schema_record("framed-value", 1, 7, LONG)]
    write_topic(tmp_path / "data", records)
    write_topic(tmp_path / "data", [Rec(gzip.compress(b"\0\0\0\0\7\x0e"))], name="framed-0")
    write_topic(tmp_path / "data", [Rec(zstandard.compress(b"\x0e"))], name="bare-0")
    (tmp_path / "types.toml").write_text(MAPPING)
    (tmp_path / "long.avsc").write_text(LONG)
    for topic, codec in (("framed", "gzip"), ("bare", "zstd")):
        found = json.loads(
            run("cat", tmp_path, str(tmp_path / "data"), f"{topic}-0/offset/0", "--schemas", "auto")
        )
        assert (found["value"], found["valueEncoding"]) == (7, f"{codec}/avro")
        assert found["schema"]["subject"] == ("framed-value" if topic == "framed" else "long")


def test_a_mapping_goes_before_the_name_and_none_decodes_nothing(tmp_path: Path) -> None:
    write_topic(tmp_path / "data", [TOPICS["heartbeats"][0], Rec(b"{}", b"k")], name="heartbeats-0")
    (tmp_path / "types.toml").write_text('[topics.heartbeats]\nvalue = { type = "cbor" }\n')
    assert "type cbor" in line(tmp_path, "heartbeats", 1).get("valueNote", "")
    done = CliRunner().invoke(
        cli, ["cat", str(tmp_path / "data"), "heartbeats-0/offset/0", "--schemas", "none"]
    )
    assert "mirror" not in done.stdout
    plain = CliRunner().invoke(cli, ["cat", str(tmp_path / "data"), "heartbeats-0/offset/1"])
    assert json.loads(plain.stdout)["value"] == {}


def test_tasks_of_other_processes_decode_alike(source: Path) -> None:
    with closing(open_source(str(source / "data"))) as opened:
        for chosen in ((str(source / "types.toml"),), ("auto",)):
            fixed: FixedSchemas = pickle.loads(pickle.dumps(KnownSchemas(opened, chosen).fixed()))
            for topic in (
                "primary.checkpoints.internal",
                *(("zipped",) if chosen != ("auto",) else ()),
            ):
                record, *_, encoding = TOPICS[topic]
                decoder = fixed.decoder(topic)
                assert decoder is not None
                field = decoder.fields(record.key, record.value, (), 0)[1]
                assert field is not None
                assert field.encoding == (encoding or "").encode()
        assert KnownSchemas(opened, ("none",)).fixed().store is None


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('{ type = "int65" }', "is not known"),
        ('{ type = "int64", file = "long.avsc" }', "has no schema"),
        ('{ type = "cbor", subjects = ["a"] }', "has no schema"),
        ('{ type = "json", charset = "latin-1" }', "has no charset"),
        ('{ charset = "latin-1" }', "charset is for"),
        ('{ type = "string", charset = "base64" }', "not known"),
        ("{ type = 7 }", "not a text"),
    ],
)
def test_a_mapping_with_another_type_is_refused(tmp_path: Path, entry: str, reason: str) -> None:
    (tmp_path / "types.toml").write_text(f"[topics.t]\nvalue = {entry}\n")
    with pytest.raises(SchemaFileError, match=reason):
        open_schemas([str(tmp_path / "types.toml")])


def test_a_folder_may_have_a_mapping_alone(tmp_path: Path) -> None:
    (tmp_path / "types.toml").write_text('[topics.t]\nvalue = { type = "cbor" }\n')
    found = open_schemas([str(tmp_path)]).type_of("t", is_key=False)
    assert found is not None
    assert found.name == "cbor"
