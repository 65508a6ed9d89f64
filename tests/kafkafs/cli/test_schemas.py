"""kafkafs schemas: the list, one schema, an export, and what is said when something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import log_dir
from tests.schema_records import (
    LONG,
    NOW,
    STRING,
    schema_record,
    subject_record,
    tombstone,
    write_topic,
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["schemas", *map(str, arguments)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    reference = {"name": "shop.Item", "subject": "items", "version": 1}
    write_topic(
        tmp_path / "log",
        [
            schema_record("items", 1, 1),
            schema_record("orders-value", 1, 2, LONG, references=[reference]),
            schema_record("orders-value", 2, 3, '"int"'),
            subject_record("DELETE_SUBJECT", "items", NOW + 1000, version=1),
            tombstone("orders-value", 2, NOW + 2000),
            schema_record(":.eu:orders/7", 1, 1, '"int"', timestamp=NOW + 3000),
        ],
    )
    return tmp_path / "log"


def test_the_list_has_all_versions_that_were_ever_registered(source: Path) -> None:
    done = run(source)
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["SUBJECT", "VERSION", "ID", "TYPE", "STATE", "SINCE", "REFERENCES"],
        ["items", "1", "1", "avro", "deleted", "2023-11-14T22:13:20.000Z", "-"],
        ["orders-value", "1", "2", "avro", "live", "2023-11-14T22:13:20.000Z", "items/1"],
        ["orders-value", "2", "3", "avro", "gone", "2023-11-14T22:13:20.000Z", "-"],
        [":.eu:orders/7", "1", "1", "avro", "live", "2023-11-14T22:13:23.000Z", "-"],
    ]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("at", "states"),
    [
        ("2023-11-14T22:13:20Z", ["live", "live", "live"]),
        ("2023-11-14T22:13:21Z", ["deleted", "live", "live"]),
        ("2023-11-14T22:13:22Z", ["deleted", "live", "gone"]),
        ("2023-11-14T22:13:23Z", ["deleted", "live", "gone", "live"]),
    ],
)
def test_the_list_can_be_that_of_an_earlier_time(source: Path, at: str, states: list[str]) -> None:
    rows = [json.loads(line) for line in run(source, "--json", "--at", at).stdout.splitlines()]
    assert [row["state"] for row in rows] == states


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["orders-value"], LONG),
        (["orders-value/1"], LONG),
        (["orders-value/2"], '"int"'),
        (["orders-value", "--at", "2023-11-14T22:13:20Z"], '"int"'),
        ([":.eu:orders/7"], '"int"'),
        ([":.eu:orders/7/1"], '"int"'),
        (["--id", "2"], LONG),
        (["--id", "1", "--context", "."], STRING),
        (["--id", "1", "--context", ".eu"], '"int"'),
    ],
)
def test_one_schema_is_printed_as_it_is(source: Path, arguments: list[str], text: str) -> None:
    done = run(source, *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{text}\n", "")


def test_one_schema_is_printed_as_json_with_its_place(source: Path) -> None:
    found = json.loads(run(source, "orders-value/1", "--json").stdout)
    assert found == {
        "subject": "orders-value",
        "version": 1,
        "id": 2,
        "guid": found["guid"],
        "schemaType": "AVRO",
        "state": "live",
        "references": [{"name": "shop.Item", "subject": "items", "version": 1}],
        "since": {
            "file": f"{source}/_schemas-0/00000000000000000000.log",
            "offset": 1,
            "timestamp": NOW,
            "isFirst": True,
        },
        "deletedSince": None,
        "until": None,
        "schema": LONG,
    }


def test_an_id_of_several_schemas_is_told_with_the_others(source: Path) -> None:
    done = run(source, "--id", "1")
    assert (done.exit_code, done.stdout) == (1, f"{STRING}\n")
    assert "items version 1 (id 1) is perhaps not the one" in done.stderr
    assert "the id also belongs to :.eu:orders/7 version 1 (id 1)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--id", "9"], "no schema has the id 9"),
        (["order-value"], "no schema is order-value; the source has items, orders-value"),
        (["orders-value/9"], "no schema is orders-value/9"),
        (["orders-value/x"], "no schema is orders-value/x"),
        (["--registry-topic", "other"], "there is no topic other; --registry-topic names another"),
    ],
)
def test_what_is_not_there_is_said(source: Path, arguments: list[str], sentence: str) -> None:
    done = run(source, *arguments)
    assert done.exit_code == 1
    assert sentence in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["a", "--id", "1"], ["a", "--export", "x"], ["--context", ".eu"], ["--id", "-1"]],
)
def test_options_that_contradict_each_other_are_refused(source: Path, arguments: list[str]) -> None:
    assert run(source, *arguments).exit_code == 2


def test_a_source_without_the_topic_has_no_schemas() -> None:
    done = run(log_dir("current"))
    assert done.exit_code == 1
    assert "there is no topic _schemas" in done.stderr


def test_a_record_without_a_schema_is_a_warning(source: Path) -> None:
    write_topic(source, [schema_record("bad", 1, 9, schemaType="XML")], 6)
    done = run(source)
    assert done.exit_code == 1
    assert "00000000000000000006.log, offset 6: the unknown schema type 'XML'" in done.stderr


def test_an_export_is_read_back_by_the_same_command(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "schemas"
    done = run(source, "--export", target)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"4 schemas in {target}, 6 files" in done.stderr
    assert (target / "orders-value" / "1.avsc").read_text() == LONG
    assert json.loads((target / "import.json").read_text())[0]["path"] == "/mode"
    assert run(target, "--json").stdout == run(source, "--json").stdout


def test_an_export_says_what_a_registry_cannot_take(source: Path, tmp_path: Path) -> None:
    write_topic(source, [schema_record("twice", 1, 2, '"x"')], 6)
    done = run(source, "--export", tmp_path / "out")
    assert done.exit_code == 1
    assert "its id is that of orders-value version 1 (id 2)" in done.stderr


def test_an_export_never_writes_into_a_directory_with_files(source: Path) -> None:
    before = sorted(source.rglob("*"))
    done = run(source, "--export", source)
    assert done.exit_code == 2
    assert "name a new directory" in done.stderr
    assert sorted(source.rglob("*")) == before


def test_files_of_schemas_are_a_source_too(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(STRING)
    for path in (tmp_path, tmp_path / "order.avsc"):
        assert run(path, "order").stdout == f"{STRING}\n"


def test_an_empty_directory_is_no_source(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.exit_code, "is empty" in str(done.exception)) == (1, True)
