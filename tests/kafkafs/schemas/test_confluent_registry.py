"""The store of a log dir against what Confluent's registry said of the same schemas, before and after deletes."""

import gzip
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from engine.log.log_directory import LogSource, open_source
from engine.log.segment.scan import BatchRun
from engine.record.record import Header
from kafkafs.schemas.catalog import facts, state_of
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Framing, framings, payload
from kafkafs.schemas.schema import Schema, SchemaKind
from kafkafs.schemas.sources.opened import open_schemas
from kafkafs.schemas.sources.source_schemas import SourceSchemas
from kafkafs.schemas.store import SchemaStore
from tests.fixtures_data import DATA

FOLDER = DATA / "schemas-confluent"


TOPICS = sorted(
    path.name.removesuffix("-0.jsonl.gz") for path in (FOLDER / "truth").glob("*.jsonl.gz")
)


class Field(NamedTuple):
    """A key or value, and what the official deserializer said of it."""

    topic: str
    is_key: bool
    offset: int
    timestamp: int
    data: bytes
    headers: tuple[Header, ...]
    said: dict[str, Any]


def answer(name: str) -> Any:
    with gzip.open(FOLDER / "truth" / name) as file:
        return json.load(file)


def fields(source: LogSource, topic: str) -> Iterator[Field]:
    with gzip.open(FOLDER / "truth" / f"{topic}-0.jsonl.gz") as file:
        rows = {row["offset"]: row for row in map(json.loads, file)}
    for _, item in source.partitions()[f"{topic}-0"].view().runs():
        assert isinstance(item, BatchRun)
        for columns in item.columns():
            for place in range(len(columns)):
                offset, timestamp = int(columns.offset[place]), int(columns.timestamp[place])
                headers = columns.headers(place)
                for is_key, data in ((True, columns.key(place)), (False, columns.value(place))):
                    said = rows[offset]["key" if is_key else "value"]
                    if data is not None and said:
                        yield Field(topic, is_key, offset, timestamp, data, headers, said)


@pytest.fixture(scope="module")
def source() -> LogSource:
    return open_source(str(FOLDER / "data"))


@pytest.fixture(scope="module")
def store(source: LogSource) -> SchemaStore:
    mapping = open_schemas([str(FOLDER / "subjects.toml")])
    return SchemaStore.union([SourceSchemas(source).store(), mapping])


def as_registry(schema: Schema) -> dict[str, Any]:
    """A schema as the registry prints it."""
    found = facts(schema)
    kept = ("subject", "version", "id", "guid", "schemaType", "schema", "references")
    shown = {name: found[name] for name in kept if name in found}
    return {**shown, "deleted": schema.is_deleted}


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["subject"], row["version"]))


def test_the_schemas_that_are_not_gone_are_those_of_the_registry(store: SchemaStore) -> None:
    found = [as_registry(each) for each in store.schemas if not each.is_gone]
    assert in_order(found) == in_order(answer("registry.json.gz")["after"])


def test_the_schemas_before_the_deletes_are_all_still_known(store: SchemaStore) -> None:
    found = [as_registry(each) | {"deleted": False} for each in store.schemas]
    before = answer("registry.json.gz")["before"]
    assert [row for row in before if row not in found] == []


def test_the_schemas_as_of_a_time_before_the_deletes_are_those_of_that_time(
    store: SchemaStore,
) -> None:
    first = min(each.deleted_since for each in store.schemas if each.deleted_since is not None)
    earlier = store.as_of(first - 1)
    found = [as_registry(each) for each in earlier.schemas]
    assert in_order(found) == in_order(answer("registry.json.gz")["before"])


def test_only_an_id_that_was_given_again_is_a_problem(store: SchemaStore) -> None:
    (problem,) = store.problems
    assert problem.reason.startswith("the id 70 has 2 schemas")
    assert [state_of(each) for each in store.versions("reused-id-value")] == ["gone", "live"]


def framing_of(field: Field) -> Framing | None:
    return next(framings(field.data, field.headers, is_key=field.is_key), None)


@pytest.mark.parametrize("topic", TOPICS)
def test_each_key_and_value_asks_for_the_schema_that_the_deserializer_asked_for(
    source: LogSource, topic: str
) -> None:
    for field in fields(source, topic):
        framing = framing_of(field)
        if "id" in field.said or "guid" in field.said:
            assert framing is not None, field
            assert (framing.id, framing.guid) == (field.said.get("id"), field.said.get("guid"))
        elif framing is not None:  # the deserializer says no id where it fails before the payload
            with pytest.raises(UndecodableError):
                payload(field.data, framing, SchemaKind.PROTOBUF)


@pytest.mark.parametrize("topic", TOPICS)
def test_each_key_and_value_has_the_schema_and_message_that_decoded_it(
    source: LogSource, store: SchemaStore, topic: str
) -> None:
    for field in fields(source, topic):
        framing = framing_of(field)
        if framing is None or "json" not in field.said:
            continue
        candidates = store.asked_for(framing, topic, is_key=field.is_key, at=field.timestamp)
        schema = candidates[0].schema
        assert schema.kind == field.said["kind"], field
        assert candidates[0].is_of_time, field
        message = payload(field.data, framing, schema.kind).message
        if schema.kind is SchemaKind.PROTOBUF:
            assert isinstance(message, tuple)
            assert list(message) == field.said["indexes"], field


def test_an_id_that_was_given_again_has_the_schema_of_each_records_time(
    source: LogSource, store: SchemaStore
) -> None:
    found = {
        field.offset: store.by_id(".", field.said["id"], field.timestamp)[0].schema.is_gone
        for field in fields(source, "reused-id")
    }
    assert found == {0: True, 1: True, 2: True, 3: False, 4: False, 5: False}


@pytest.mark.parametrize("context", [".west", ".other"])
def test_the_id_of_a_record_is_that_of_the_context_with_its_topics_subject(
    source: LogSource, store: SchemaStore, context: str
) -> None:
    for topic in (f"context-{context[1:]}", f"context-{context[1:]}-proto"):
        for field in fields(source, topic):
            framing = framing_of(field)
            assert framing is not None
            found = store.asked_for(framing, topic, is_key=field.is_key, at=field.timestamp)
            assert found[0].schema.context == context
            assert store.resolved(found[0].schema) == tuple(
                (name, schema)
                for name, schema in store.resolved(found[0].schema)
                if schema.context == context
            )
