"""The schemas of `_schemas`, by the records of Confluent's registry, Karapace and Redpanda."""

import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest

from engine.budgets import Budgets
from engine.log.log_directory import open_source
from kafkafs.schemas.exporting import import_requests
from kafkafs.schemas.schema import Reference, Schema, SchemaKind
from kafkafs.schemas.sources.source_schemas import SourceSchemas
from tests.builders import Rec, batch, patched, write_segment
from tests.schema_records import (
    LONG,
    NOW,
    STRING,
    record,
    schema_key,
    schema_record,
    store_of,
    subject_record,
    text_of,
    tombstone,
    write_topic,
    written,
)


def state(schema: Schema) -> str:
    return "gone" if schema.is_gone else "deleted" if schema.is_deleted else "live"


@pytest.mark.parametrize("magic", [0, 1])
def test_a_schema_without_a_type_is_avro(tmp_path: Path, magic: int) -> None:
    (found,) = written(tmp_path, schema_record("orders-value", 2, 7, magic=magic)).schemas
    assert (found.kind, found.text) == (SchemaKind.AVRO, STRING)
    assert (found.subject, found.version, found.id, state(found)) == ("orders-value", 2, 7, "live")
    assert found.origin[1:] == (0, NOW, True)
    assert found.origin.path.endswith("_schemas-0/00000000000000000000.log")
    assert found.guid == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


@pytest.mark.parametrize(
    ("schema_type", "kind"),
    [
        ("AVRO", SchemaKind.AVRO),
        ("PROTOBUF", SchemaKind.PROTOBUF),
        ("JSON", SchemaKind.JSON_SCHEMA),
    ],
)
def test_a_schema_has_the_kind_of_its_type(
    tmp_path: Path, schema_type: str, kind: SchemaKind
) -> None:
    (found,) = written(tmp_path, schema_record(schemaType=schema_type)).schemas
    assert found.kind is kind


def test_references_metadata_and_rules_are_kept(tmp_path: Path) -> None:
    fields = {
        "references": [{"name": "shop.Item", "subject": "items", "version": 3}],
        "metadata": {"properties": {"owner": "shop"}},
        "ruleSet": {"domainRules": []},
    }
    (found,) = written(tmp_path, schema_record(**fields)).schemas
    assert found.references == (Reference("shop.Item", "items", 3),)
    assert found.metadata == fields["metadata"]
    assert found.rule_set == fields["ruleSet"]


def test_a_stated_md5_is_the_guid(tmp_path: Path) -> None:
    guid = "89791762-2336-41cf-8093-1d48a5b4e3d7"
    md5 = b64encode(UUID(guid).bytes).decode()
    (found,) = written(tmp_path, schema_record(md5=md5)).schemas
    assert found.guid == guid


def test_an_encrypted_text_is_marked(tmp_path: Path) -> None:
    metadata = {"properties": {"__enc__": "true"}}
    (found,) = written(tmp_path, schema_record(metadata=metadata)).schemas
    assert found.is_encrypted


def test_a_soft_deletion_keeps_the_schema_and_its_first_time(tmp_path: Path) -> None:
    (found,) = written(
        tmp_path, schema_record(), schema_record(timestamp=NOW + 9, deleted=True)
    ).schemas
    assert (state(found), found.origin.timestamp, found.until) == ("deleted", NOW, None)


def test_a_compacted_soft_deletion_hides_when_the_schema_began(tmp_path: Path) -> None:
    (found,) = written(tmp_path, schema_record(timestamp=NOW + 9, deleted=True)).schemas
    assert (state(found), found.origin.is_first) == ("deleted", False)


def test_a_hard_deletion_keeps_the_schema_while_its_record_is_on_disk(tmp_path: Path) -> None:
    (found,) = written(
        tmp_path,
        schema_record(),
        schema_record(deleted=True, timestamp=NOW + 5),
        tombstone(timestamp=NOW + 9),
    ).schemas
    assert (state(found), found.until, found.text) == ("gone", NOW + 9, STRING)


def test_a_deleted_subject_has_all_versions_up_to_one_deleted(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record(version=1, id_=1),
        schema_record(version=2, id_=2, schema=LONG),
        subject_record("DELETE_SUBJECT", "orders-value", version=2),
        schema_record(version=3, id_=3, schema='"int"'),
    )
    assert [state(each) for each in store.versions("orders-value")] == [
        *("deleted", "deleted"),
        "live",
    ]


def test_clearing_a_subject_removes_its_deleted_versions_only(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record(version=1, id_=1),
        schema_record(version=2, id_=2, schema=LONG),
        schema_record(version=1, id_=1, deleted=True),
        subject_record("CLEAR_SUBJECT", "orders-value"),
    )
    assert [state(each) for each in store.versions("orders-value")] == ["gone", "live"]


def test_a_version_that_is_given_again_is_another_schema(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record(id_=1),
        tombstone(timestamp=NOW + 5),
        schema_record(id_=2, schema=LONG, timestamp=NOW + 9),
    )
    assert [(each.text, state(each)) for each in store.versions("orders-value")] == [
        (STRING, "gone"),
        (LONG, "live"),
    ]


def test_contexts_keep_their_ids_apart(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record("orders-value", id_=1),
        schema_record(":.eu:orders-value", id_=1, schema=LONG),
        record(
            {"keytype": "CONTEXT", "tenant": "default", "context": ".eu", "magic": 0},
            {"tenant": "default", "context": ".eu"},
        ),
    )
    assert [each.schema.text for each in store.by_id(".", 1)] == [STRING]
    assert [each.schema.text for each in store.by_id(".eu", 1)] == [LONG]
    assert store.problems == ()


def test_settings_are_the_newest_ones(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        subject_record("CONFIG", None, compatibilityLevel="NONE"),
        subject_record("CONFIG", None, compatibilityLevel="FULL"),
        subject_record("MODE", "orders-value", mode="READONLY"),
        subject_record("MODE", "items", mode="READONLY"),
        record({"keytype": "MODE", "subject": "items", "magic": 0}, None),
        record({"keytype": "NOOP", "magic": 0}, None),
    )
    assert {key: list(value.items())[1:] for key, value in store.settings.items()} == {
        ("CONFIG", None): [("compatibilityLevel", "FULL")],
        ("MODE", "orders-value"): [("mode", "READONLY")],
    }
    assert store.problems == ()


def test_settings_of_an_instant_are_those_that_the_registry_had_then(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        subject_record("CONFIG", None, NOW, compatibilityLevel="NONE"),
        subject_record("MODE", "orders-value", NOW + 1, mode="READONLY"),
        subject_record("CONFIG", None, NOW + 2, compatibilityLevel="FULL"),
        record({"keytype": "MODE", "subject": "orders-value", "magic": 0}, None, NOW + 3),
    )

    def at(time: int) -> list[object]:
        return [list(value.values())[1] for value in store.as_of(time).settings.values()]

    assert at(NOW - 1) == []
    assert at(NOW) == ["NONE"]
    assert at(NOW + 1) == ["NONE", "READONLY"]
    assert at(NOW + 2) == ["FULL", "READONLY"]
    assert at(NOW + 3) == ["FULL"]
    requests = import_requests(store.as_of(NOW + 1)).requests
    assert ("/config", {"compatibility": "NONE"}) in [
        (each["path"], each["body"]) for each in requests
    ]


def test_an_association_names_the_subject_of_a_topic(tmp_path: Path) -> None:
    def key(subject: str) -> dict[str, object]:
        return {
            "keytype": "ASSOC",
            "tenant": "default",
            "resourceName": "orders",
            "resourceNamespace": "-",
            "resourceType": "topic",
            "associationType": "value",
            "subject": subject,
            "magic": 0,
        }

    store = written(
        tmp_path,
        record(key("shop.Order"), {"subject": "shop.Order"}),
        record(key("shop.Old"), {"subject": "shop.Old"}),
        record(key("shop.Old"), None),
    )
    assert store.subjects_of("orders") == ["shop.Order", "orders-value"]
    assert store.problems == ()


def test_keys_of_karapace_and_redpanda_are_read(tmp_path: Path) -> None:
    deprecated = Rec(
        text_of({"subject": "a", "version": 1, "id": 1, "schema": STRING, "deleted": False}),
        b'{"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"}',
    )
    redpanda = record(
        {**schema_key("b", 1), "seq": 4, "node": 2},
        {"subject": "b", "version": 1, "id": 2, "schema": LONG, "deleted": False},
    )
    store = written(tmp_path, deprecated, redpanda)
    assert [(each.subject, each.id) for each in store.schemas] == [("a", 1), ("b", 2)]


def test_an_empty_value_deletes_a_version_for_good_as_karapace_writes_it(tmp_path: Path) -> None:
    deletion = Rec(b"", text_of(schema_key("a", 1)))
    store = written(tmp_path, schema_record("a", 1, 1), schema_record("a", 2, 2, LONG), deletion)
    assert [state(each) for each in store.schemas] == ["gone", "live"]
    assert store.problems == ()


def test_a_subject_that_redpanda_deletes_loses_all_versions(tmp_path: Path) -> None:
    """As delete_subject_value of its src/v/pandaproxy/schema_registry/storage.h is written: without a version."""
    deletion = record(
        {"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0, "seq": 2, "node": 1},
        {"subject": "a"},
    )
    versions = [schema_record("a", 1, 1), schema_record("a", 2, 2, LONG)]
    store = written(tmp_path, *versions, deletion, schema_record("a", 3, 3))
    assert [state(each) for each in store.schemas] == ["deleted", "deleted", "live"]
    assert store.problems == ()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", "a record without a key"),
        (b"\x00", b"{}", "the key is not JSON"),
        (b"[]", b"{}", "the key is not a JSON object"),
        (b"[" * 60_000, b"{}", "JSON that is nested too deeply"),
        (b'{"x":"' + b"x" * 70_000 + b'"}', b"{}", "a key of 70008 bytes"),
        (b'{"keytype":"NEW"}', b"{}", "a key of the unknown type 'NEW'"),
        (b"{}", b"{}", "the field keytype of the key is missing"),
        (text_of(schema_key("a", 1)), b"{", "the value is not JSON"),
        (text_of(schema_key("a", 0)), b"{}", "the field version of the key is 0"),
        (text_of(schema_key("a", 1)), b'{"id":1}', "the field schema of the value is missing"),
        (
            text_of(schema_key("a", 1)),
            b'{"id":true,"schema":"x"}',
            "the field id of the value is true",
        ),
        (
            text_of(schema_key("a", 1)),
            b'{"id":1,"schema":"x","schemaType":"XML"}',
            "the unknown schema type 'XML'",
        ),
        (
            text_of(schema_key("a", 1)),
            b'{"id":1,"schema":"x","references":[{"name":"y"}]}',
            'the invalid reference {"name": "y"}',
        ),
        (
            text_of(schema_key("a", 1)),
            b'{"id":1,"schema":"x","md5":"AAAA"}',
            "the invalid md5 'AAAA'",
        ),
        (text_of(schema_key("a", 1)), b" " * (4 * 1024 * 1024 + 1), "a value of 4194305 bytes"),
    ],
)
def test_a_record_that_no_registry_writes_is_a_problem_and_costs_no_other(
    tmp_path: Path, key: bytes | None, value: bytes, reason: str
) -> None:
    store = written(tmp_path, Rec(value, key), schema_record())
    assert len(store) == 1
    (problem,) = store.problems
    assert (problem.offset, problem.reason[: len(reason)]) == (0, reason)


def test_metadata_of_another_shape_costs_only_the_guid(tmp_path: Path) -> None:
    (found,) = written(tmp_path, schema_record(metadata={"tags": 7, "properties": 7})).schemas
    assert (found.text, found.guid, found.is_encrypted) == (STRING, None, False)


def test_half_of_a_character_in_a_text_becomes_a_replacement_character(tmp_path: Path) -> None:
    value = b'{"id":1,"schema":"x\\ud800y","deleted":false}'
    (found,) = written(tmp_path, Rec(value, text_of(schema_key("a", 1)))).schemas
    assert found.text == "x�y"


def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path) -> None:
    batches = [
        batch([schema_record(version=place + 1, id_=place + 1, schema=f'"{place}"')], place)
        for place in range(3)
    ]
    batches[1] = patched(batches[1], 80, b"\xff")
    write_segment(tmp_path / "_schemas-0", batches)
    store = store_of(tmp_path)
    assert [each.version for each in store.schemas] == [1, 3]
    (problem,) = store.problems
    assert problem.position == len(batches[0])
    assert problem.offset == 1


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_files_that_are_set_aside_count(tmp_path: Path, suffix: str) -> None:
    old = write_topic(tmp_path, [schema_record(id_=1), tombstone(timestamp=NOW + 5)])
    old.rename(f"{old}{suffix}")
    write_topic(tmp_path, [schema_record("items", id_=2)], 2)
    store = store_of(tmp_path)
    assert [(each.subject, state(each)) for each in store.schemas] == [
        ("items", "live"),
        ("orders-value", "gone"),
    ]
    assert store.versions("orders-value")[0].origin.path == f"{old}{suffix}"


def test_records_below_the_log_start_count(tmp_path: Path) -> None:
    write_topic(tmp_path, [schema_record(id_=1), schema_record("items", id_=2)])
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\n_schemas 0 1\n")
    assert store_of(tmp_path).ids() == [(".", 1), (".", 2)]


def test_copies_in_several_log_dirs_are_one_log(tmp_path: Path) -> None:
    first, second, third = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    records = [schema_record(id_=1), schema_record("items", id_=2), tombstone()]
    write_topic(first, records)
    write_topic(second, records[:1])
    uuid = "0123456789abcdef0123456789abcdef"
    write_topic(third, [schema_record("old", id_=3)], 3, name=f"_schemas-0.{uuid}-delete")
    store = store_of(second, third, first)
    assert [(each.subject, state(each)) for each in store.schemas] == [
        *(("items", "live"), ("old", "live")),
        ("orders-value", "gone"),
    ]


def test_a_source_may_have_the_topic_by_another_name(tmp_path: Path) -> None:
    write_topic(tmp_path, [schema_record()], name="_schemas_eu-0")
    source = open_source(str(tmp_path))
    assert not SourceSchemas(source).exists
    assert SourceSchemas(source, "_schemas_eu").exists
    assert len(SourceSchemas(source, "_schemas_eu").store()) == 1
    assert len(SourceSchemas(source).store()) == 0


def test_new_records_are_read_when_the_log_grows(tmp_path: Path) -> None:
    path = write_topic(tmp_path, [schema_record(id_=1)])
    bytes_read: list[int] = []
    schemas = SourceSchemas(open_source(str(tmp_path)), progress=bytes_read.append)
    store = schemas.store()
    assert schemas.store() is store
    first = path.stat().st_size
    with path.open("ab") as file:
        file.write(batch([schema_record("items", id_=2)], 1))
    for log in schemas._source.partitions().values():
        log.view(max_age=0)
    assert schemas.store().ids() == [(".", 1), (".", 2)]
    assert sum(bytes_read) == path.stat().st_size
    assert sum(bytes_read) > first


def test_a_schema_that_was_seen_stays_when_compaction_removes_it(tmp_path: Path) -> None:
    path = write_topic(tmp_path, [schema_record(id_=1)])
    schemas = SourceSchemas(open_source(str(tmp_path)))
    schemas.store()
    path.unlink()
    write_topic(tmp_path, [tombstone()], 1)
    for log in schemas._source.partitions().values():
        log.view(max_age=0)
    assert [state(each) for each in schemas.store().schemas] == ["gone"]


def test_memory_is_bounded_and_the_limit_is_said(tmp_path: Path) -> None:
    records = [
        schema_record(version=place, id_=place, schema=json.dumps("x" * 1000 + str(place)))
        for place in range(1, 50)
    ]
    write_topic(tmp_path, records)
    source = open_source(str(tmp_path), budgets=Budgets(replayed_bytes=20_000))
    schemas = SourceSchemas(source)
    store = schemas.store()
    assert schemas.store() is store
    assert 10 < len(store) < 20
    assert "more than 20000 bytes of memory" in store.problems[0].reason
