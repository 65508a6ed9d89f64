"""/schemas/: names of subjects, versions and ids, texts and facts, times and damage."""

import json
from pathlib import Path

import pytest

import kafkafs
from kafkafs.tree.errors import NotFound
from tests.fixtures_data import log_dir
from tests.schema_records import LONG, NOW, STRING, schema_record, tombstone, write_topic


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_topic(
        tmp_path,
        [
            schema_record("orders-value", 1, 1),
            tombstone("orders-value", 1, NOW + 86_400_000),
            schema_record("orders-value", 1, 2, LONG, timestamp=NOW + 86_400_000),
            schema_record("a/b", 3, 2, '"int"'),
            schema_record(":.eu:ids", 1, 1, '"bytes"'),
            schema_record("ids", 1, 3, '"float"'),
            schema_record(".", 1, 4, '"double"'),
        ],
    )
    return tmp_path


def test_subjects_and_ids_are_folders_with_escaped_names(source: Path) -> None:
    with kafkafs.open(source) as tree:
        assert "schemas" in tree.names()
        assert sorted(tree.names("schemas")) == [
            "%2E",
            ":.eu:ids",
            "a%2Fb",
            "ids",
            "ids@1",
            "orders-value",
        ]


def test_a_version_is_its_text_and_an_older_one_has_its_offset(source: Path) -> None:
    with kafkafs.open(source) as tree:
        assert tree.names("schemas/orders-value") == ["1", "1.json", "1@0", "1@0.json"]
        assert tree.read("schemas/orders-value/1") == f"{LONG}\n".encode()
        assert tree.read("schemas/orders-value/1@0") == f"{STRING}\n".encode()
        assert tree.read("schemas/a%2Fb/3") == b'"int"\n'
        assert tree.read("schemas/ids@1/1") == b'"float"\n'
        assert tree.read("schemas/%2E/1") == b'"double"\n'
        assert tree.tree.resolve("schemas/orders-value/1@0").attrs().mtime_ns == NOW * 10**6


def test_facts_are_those_of_the_command(source: Path) -> None:
    with kafkafs.open(source) as tree:
        facts = json.loads(tree.read("schemas/orders-value/1@0.json"))
    assert (facts["id"], facts["state"], facts["schema"]) == (1, "gone", STRING)
    assert facts["since"]["offset"] == 0


def test_an_id_is_the_schema_that_it_has_now_in_its_context(source: Path) -> None:
    with kafkafs.open(source) as tree:
        names = tree.names("schemas/ids")
        assert [name for name in names if not name.endswith(".json")] == [
            *("1", "2", "2@3", "3", "4"),
            ":.eu:1",
        ]
        assert tree.read("schemas/ids/1") == f"{STRING}\n".encode()
        assert tree.read("schemas/ids/:.eu:1") == b'"bytes"\n'
        assert tree.read("schemas/ids/2") == f"{LONG}\n".encode()
        assert tree.read("schemas/ids/2@3") == b'"int"\n'


def test_a_period_has_the_schemas_of_its_end_without_a_listing(source: Path) -> None:
    with kafkafs.open(source) as tree:
        assert tree.read("time/2023-11-14/schemas/orders-value/1") == f"{STRING}\n".encode()
        assert tree.read("time/2023-11-15/schemas/orders-value/1") == f"{LONG}\n".encode()
        assert "schemas" not in tree.names("time/2023-11-15")


@pytest.mark.parametrize(
    "path",
    ["schemas/none", "schemas/orders-value/2", "schemas/ids/9", "schemas/a/b", "schemas/ids@2"],
)
def test_other_names_are_not_there(source: Path, path: str) -> None:
    with kafkafs.open(source) as tree, pytest.raises(NotFound):
        tree.read(path)


def test_a_source_without_the_topic_has_no_folder() -> None:
    with kafkafs.open(log_dir("current")) as tree:
        assert "schemas" not in tree.names()
        with pytest.raises(NotFound):
            tree.read("schemas/ids/1")


def test_a_record_without_a_schema_is_in_the_folders_error(source: Path) -> None:
    write_topic(source, [schema_record("bad", 1, 9, schemaType="XML")], 7)
    with kafkafs.open(source) as tree:
        error = json.loads(tree.tree.resolve("schemas").xattrs()["user.kafka.error"])
    assert error["first"]["reason"] == "the unknown schema type 'XML'"
