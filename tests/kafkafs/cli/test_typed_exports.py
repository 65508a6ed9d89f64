"""`kafkafs export --decode columns`: files with nested typed columns, which stay the same when an export goes on."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import kafkafs
from kafkafs.cli import cli
from kafkafs.schemas.errors import SchemaFileError
from tests.builders import Rec, batch, write_segment
from tests.fixtures_data import log_dir
from tests.kafkafs.evolving_topic import FIRST, SECOND, evolving, framed
from tests.schema_records import NOW, schema_record, tombstone, write_topic
from tests.schema_truth import schema_log_dir

CONFLUENT = schema_log_dir("schemas-confluent")
TOPICS = (
    "avro-complex",
    "avro-logical",
    "avro-types",
    "avro-evolution",
    "python-avro",
    "avro-headers",
    "proto-types",
    "proto-known",
    "proto-any",
    "proto2",
    "proto-keys",
)
COLUMNS = "partition,offset,decodedKey,decodedValue,keyNote,valueNote"


def export(source: Path | str, target: Path, *arguments: object) -> Result:
    words = ["export", str(source), str(target), "--decode", "columns", *map(str, arguments)]
    return CliRunner().invoke(cli, words)


def files(target: Path, topic: str) -> list[Path]:
    return sorted(path for path in (target / f"topic={topic}").rglob("*") if path.is_file())


def table(target: Path, topic: str) -> pa.Table:
    return pa.concat_tables(pq.ParquetFile(path).read() for path in files(target, topic))


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_have_the_columns_of_a_scan(form: str, tmp_path: Path) -> None:
    chosen = ",".join(TOPICS)
    done = export(CONFLUENT, tmp_path / "out", "-t", chosen, "--format", form, "--columns", COLUMNS)
    assert done.exit_code == 0, done.output
    read = pq.read_table if form == "parquet" else (lambda path: pa.ipc.open_file(path).read_all())
    with kafkafs.open(CONFLUENT) as source:
        for topic in TOPICS:
            (path,) = files(tmp_path / "out", topic)
            found = read(path)
            scanned = source.scan(
                topic, columns=["value", "valueNote", "partition", "offset"], decode="columns"
            ).to_arrow()
            for name, wanted in (("offset", "offset"), ("valueNote", "valueNote")):
                assert found[name].to_pylist() == scanned[wanted].to_pylist()
            wanted_values = scanned["value"].to_pylist(maps_as_pydicts="strict")
            assert plain(found["decodedValue"].to_pylist(maps_as_pydicts="strict")) == plain(
                wanted_values
            )
            assert scanned["value"].null_count < len(scanned)


def plain(value: Any) -> Any:
    """A value as all formats have it: a key of a map is text, a duration a number, a record without fields is "{}"."""
    match value:
        case dict():
            names = {name if isinstance(name, str) else str(name).lower(): name for name in value}
            return {text: plain(value[name]) for text, name in names.items()} or "{}"
        case list():
            return [plain(each) for each in value]
        case Decimal() if value == int(value):
            return int(value)
        case pd.Timestamp():
            return value.value  # in nanoseconds
        case timedelta():
            return value // timedelta(microseconds=1)
        case float():
            return repr(value)
        case _:
            return value


def test_avro_files_have_the_same_rows(tmp_path: Path) -> None:
    for form in ("parquet", "avro"):
        words = ("-t", ",".join(TOPICS), "--format", form, "--columns", COLUMNS)
        assert export(CONFLUENT, tmp_path / form, *words).exit_code == 0
    for topic in TOPICS:
        wanted = table(tmp_path / "parquet", topic).to_pylist(maps_as_pydicts="strict")
        (path,) = files(tmp_path / "avro", topic)
        with path.open("rb") as file:
            assert plain(list(fastavro.reader(file))) == plain(wanted)


def test_the_bytes_stay_beside_usual_typed_columns(tmp_path: Path) -> None:
    assert export(CONFLUENT, tmp_path / "out", "-t", "avro-evolution").exit_code == 0
    found = table(tmp_path / "out", "avro-evolution")
    assert found["value"].type == pa.binary()
    assert found["value"].null_count == 0
    misfits = [row for row in found.to_pylist() if row["decodedValue"] is None and row["valueNote"]]
    assert misfits


def test_topics_without_types_have_json_and_are_named(tmp_path: Path) -> None:
    done = export(CONFLUENT, tmp_path / "out", "-t", "json-types,python-avro", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["untypedTopics"] == ["json-types"]
    found = table(tmp_path / "out", "json-types")
    assert found["decodedValue"].type == pa.string()
    assert json.loads(found["decodedValue"][0].as_py())


@pytest.mark.parametrize("columns", [COLUMNS, "offset,decodedValue"])
def test_what_does_not_fit_its_columns_is_counted_by_topic(columns: str, tmp_path: Path) -> None:
    words = ("-t", "proto-keys,python-avro", "--columns", columns)
    done = export(CONFLUENT, tmp_path / "facts", *words, "--json")
    assert json.loads(done.stdout)["misfits"] == {"proto-keys": 2}
    shown = export(CONFLUENT, tmp_path / "table", *words)
    assert shown.exit_code == 0
    line = "do not fit  proto-keys: 2 keys or values, which are null; their notes say why"
    assert line in shown.stdout.splitlines()
    again = export(CONFLUENT, tmp_path / "facts", *words, "--json")
    assert json.loads(again.stdout)["misfits"] == {}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--format", "csv"], "csv has no nested columns"),
        (["--format", "jsonl"], "jsonl has record lines, which are decoded"),
        (["--columns", "offset,value"], "name one of them"),
        (["--schemas", "none"], "no schema gives types to keys or values of python-avro"),
        (["--mask", "POLICY"], "a masked field need not have the type of its schema"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_cannot_be_typed_is_refused_before_anything_is_written(
    words: list[str], reason: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\ntopics = ["python-avro"]\nfields = { ".value.id" = "drop" }\n')
    given = [str(policy) if word == "POLICY" else word for word in words]
    done = export(CONFLUENT, tmp_path / "out", "-t", "python-avro", *given)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_message_that_the_schema_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "messages.toml"
    path.write_text("[topics.proto-keys]\nvalue = { message = 'Out' }\n")
    words = ("-t", "proto-keys", "--schemas", "auto", "--schemas", path)
    done = export(CONFLUENT, tmp_path / "out", *words)
    assert isinstance(done.exception, SchemaFileError)  # which `main` says
    assert not (tmp_path / "out").exists()


def test_a_source_without_schemas_is_refused(tmp_path: Path) -> None:
    done = export(log_dir("sample"), tmp_path / "out", "-t", "orders")
    assert done.exit_code == 2
    assert "no schema gives types" in done.stderr


# -- an export that goes on


def test_an_export_that_goes_on_keeps_the_columns_it_began_with(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    words = ("-t", "orders", "--columns", "offset,decodedValue,valueNote")
    assert export(evolving(source, is_later=False), target, *words).exit_code == 0
    evolving(source, is_later=True)
    done = export(source, target, *words)
    assert done.exit_code == 0, done.output
    assert table(target, "orders").to_pylist() == [
        {"offset": 0, "decodedValue": {"id": 1}, "valueNote": None},
        {"offset": 1, "decodedValue": {"id": 2}, "valueNote": None},
    ]
    assert export(source, tmp_path / "anew", *words).exit_code == 0
    assert table(tmp_path / "anew", "orders")["decodedValue"].to_pylist() == [
        {"id": 1, "more": 0},
        {"id": 2, "more": 3},
    ]


def test_an_export_does_not_go_on_when_its_columns_are_not_known_any_more(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    assert export(evolving(source, is_later=False), target, "-t", "orders").exit_code == 0
    before = files(target, "orders")
    evolving(source, is_later=True, is_gone=True)
    done = export(source, target, "-t", "orders")
    assert done.exit_code == 2
    assert (
        "the files of orders have the types of a schema that is not known any more" in done.stderr
    )
    assert files(target, "orders") == before


def test_a_schema_that_comes_later_does_not_change_the_columns_of_json(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    other = schema_record("other-value", id_=9, schema=FIRST)
    evolving(source, is_later=False)
    shutil.rmtree(source / "_schemas-0")
    write_topic(source, [other])
    write_segment(source / "other-0", [batch([Rec(framed(FIRST, 9, id=9), timestamp=NOW)], 0)], 0)
    assert export(source, target, "-t", "orders,other").exit_code == 0
    evolving(source, is_later=True)
    done = export(source, target, "-t", "orders")
    assert done.exit_code == 0, done.output
    assert table(target, "orders")["decodedValue"].to_pylist() == [None, '{"id":2,"more":3}']


def test_another_form_of_decoded_columns_is_another_export(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert export(CONFLUENT, target, "-t", "python-avro").exit_code == 0
    done = export(CONFLUENT, target, "-t", "python-avro", "--decode", "json")
    assert done.exit_code == 2
    assert "resume it with the same settings" in done.stderr


def test_columns_of_a_soft_deleted_schema_are_found_again(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    assert export(evolving(source, is_later=False), target, "-t", "orders").exit_code == 0
    evolving(source, is_later=True)
    write_topic(
        source,
        [
            schema_record(schema=FIRST, timestamp=NOW),
            schema_record(version=2, id_=2, schema=SECOND, timestamp=NOW + 1000),
            schema_record(schema=FIRST, timestamp=NOW + 1500, deleted=True),
            tombstone(timestamp=NOW + 1600),
        ],
    )
    assert export(source, target, "-t", "orders").exit_code == 0
    assert table(target, "orders")["decodedValue"].to_pylist() == [{"id": 1}, {"id": 2}]
