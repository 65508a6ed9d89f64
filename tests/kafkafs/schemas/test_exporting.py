"""The export: files with the texts, a catalog that reads back, and requests in the order that a registry takes them."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from kafkafs.schemas.exporting import exported_files, import_requests, left_out_sentences
from kafkafs.schemas.files.proto_files import described_files
from kafkafs.schemas.store import SchemaStore
from tests.builders import Rec
from tests.schema_records import (
    LONG,
    STRING,
    schema_record,
    subject_record,
    tombstone,
    written,
)


def files_of(store: SchemaStore) -> dict[str, bytes]:
    return dict(exported_files(store, import_requests(store)))


def requests_of(store: SchemaStore) -> list[tuple[str, str, Any]]:
    found = json.loads(files_of(store)["import.json"])
    return [(each["method"], each["path"], each["body"]) for each in found]


def registered(store: SchemaStore) -> list[str]:
    return [
        path.split("/")[2] + f" {body['version']}"
        for method, path, body in requests_of(store)
        if method == "POST"
    ]


def referring(subject: str, version: int, id_: int, *others: str) -> Rec:
    references = [{"name": other, "subject": other, "version": 1} for other in others]
    return schema_record(subject, version, id_, f'"{subject}{version}"', references=references)


def test_a_registration_keeps_id_version_and_all_that_belongs_to_the_schema(
    tmp_path: Path,
) -> None:
    metadata, rules = {"properties": {"a": "b"}}, {"domainRules": []}
    store = written(
        tmp_path, schema_record("a/b", 3, 7, schemaType="JSON", metadata=metadata, ruleSet=rules)
    )
    assert requests_of(store)[1] == (
        "POST",
        "/subjects/a%2Fb/versions",
        {
            "schemaType": "JSON",
            "schema": STRING,
            "metadata": metadata,
            "ruleSet": rules,
            "version": 3,
            "id": 7,
        },
    )


def test_modes_stand_around_the_registrations_and_settings_follow(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record("a", 1, 1),
        schema_record(":.eu:a", 1, 1, LONG),
        subject_record("CONFIG", None, compatibilityLevel="FULL", normalize=True),
        subject_record("CONFIG", "a", compatibilityLevel="NONE"),
        subject_record("MODE", None, mode="READONLY"),
        subject_record("MODE", "a", mode="READWRITE"),
    )
    assert [
        (method, path, body) for method, path, body in requests_of(store) if method == "PUT"
    ] == [
        ("PUT", "/mode", {"mode": "IMPORT"}),
        ("PUT", "/mode/%3A.eu%3A", {"mode": "IMPORT"}),
        ("PUT", "/config", {"compatibility": "FULL", "normalize": True}),
        ("PUT", "/config/a", {"compatibility": "NONE"}),
        ("PUT", "/mode", {"mode": "READONLY"}),
        ("PUT", "/mode/%3A.eu%3A", {"mode": "READWRITE"}),
        ("PUT", "/mode/a", {"mode": "READWRITE"}),
    ]


def test_a_schema_is_registered_after_those_that_it_refers_to(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        referring("c", 1, 1),
        referring("b", 1, 2, "c"),
        referring("a", 1, 3, "b", "c"),
    )
    assert registered(store) == ["c 1", "b 1", "a 1"]


def test_deleted_versions_are_registered_and_deleted_again_those_that_refer_first(
    tmp_path: Path,
) -> None:
    store = written(
        tmp_path,
        referring("b", 1, 1),
        referring("a", 1, 2, "b"),
        tombstone("a", 1),
        subject_record("DELETE_SUBJECT", "b", version=1),
    )
    assert registered(store) == ["b 1", "a 1"]
    assert [path for method, path, _ in requests_of(store) if method == "DELETE"] == [
        "/subjects/a/versions/1",
        "/subjects/b/versions/1",
    ]


def test_what_a_registry_cannot_take_is_said(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record("again", 1, 1),
        tombstone("again", 1),
        schema_record("again", 1, 2, LONG),
        schema_record("same-id", 1, 2, '"int"'),
        schema_record("secret", 1, 3, "x", metadata={"properties": {"__enc__": "1"}}),
        referring("of-secret", 1, 4, "secret"),
        referring("lost", 1, 5, "nothing"),
    )
    assert registered(store) == ["again 1"]
    assert left_out_sentences(import_requests(store)) == [
        "same-id version 1 (id 2), live, is not in import.json: its id is that of again version 1 (id 2)",
        "secret version 1 (id 3), live, is not in import.json: its text is encrypted",
        "again version 1 (id 1), gone, is not in import.json: its version is that of again version 1 (id 2)",
        (
            "lost version 1 (id 5), live, is not in import.json: "
            "lost version 1 (id 5) refers to nothing version 1, which is not known"
        ),
        (
            "of-secret version 1 (id 4), live, is not in import.json: "
            "it refers to secret version 1 (id 3), which is not in it"
        ),
    ]


def test_each_text_has_a_file_of_its_kind(tmp_path: Path) -> None:
    descriptor = b"\x0a\x07x.proto"
    store = written(
        tmp_path,
        schema_record("a/b", 1, 1),
        tombstone("a/b", 1),
        schema_record("a/b", 1, 2, LONG),
        schema_record("p", 1, 3, 'syntax = "proto3";', schemaType="PROTOBUF"),
        schema_record("p", 2, 4, b64encode(descriptor).decode(), schemaType="PROTOBUF"),
        schema_record("j", 1, 5, "{}", schemaType="JSON"),
        schema_record("s", 1, 6, "x", metadata={"properties": {"__enc__": "1"}}),
    )
    files = files_of(store)
    assert {name: data for name, data in files.items() if "/" in name and ".desc" not in name} == {
        "a%2Fb/1.avsc": STRING.encode(),
        "a%2Fb/1@2.avsc": LONG.encode(),
        "p/1.proto": b'syntax = "proto3";',
        "j/1.json": b"{}",
        "s/1.encrypted": b"x",
    }
    assert [file.name for file in described_files(files["p/2.desc"])] == ["x.proto"]
    assert files["schemas.jsonl"].count(b"\n") == 6
