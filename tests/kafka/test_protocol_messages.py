"""Our texts of messages say what the JSON schemas in Kafka's own jars say, field by field."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from zipfile import ZipFile

import pytest

from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, empty
from kafkafs.serve.protocol.api import Api
from tests.kafka import jars
from tests.kafka.conftest import why_not
from tests.messages import NAMED

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
COMMENT = re.compile(r"^\s*//.*$|//[^\"\n]*$", re.MULTILINE)
MESSAGES = [each for api in Api for each in (api.request, api.response)]
RECORDS = [each for each in NAMED.values() if not each.is_retired]
PLACE = re.compile(r"(common/)?(message|metadata)/\w+\.json")
BEHIND = {"StreamsGroupDescribeRequest", "StreamsGroupDescribeResponse"}
"""Without their newest version: descriptions of topologies are with a plugin of the broker."""
WITHOUT_TYPE = ("request", "response", "data")
RECORD_TYPES = ("coordinator-key", "coordinator-value", "metadata")
LEFT_OUT = {4, 5, 6, 7, 83, 84, 85, 86, 87}
"""APIs without a version any more, and those by which brokers keep the state of share groups."""


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """The messages in the jars by their names."""
    found = {}
    for path in jars.jars().glob("kafka-*.jar"):
        with ZipFile(path) as jar:
            for name in filter(PLACE.fullmatch, jar.namelist()):
                schema = json.loads(COMMENT.sub("", jar.read(name).decode()))
                found[schema["name"]] = schema
    return found


def versions(text: str, last: int) -> range:
    """The versions that a text like 0+, 2-5 or 3 names, up to the last one."""
    if text == "none":
        return range(0)
    first, _, end = text.rstrip("+").partition("-")
    return range(int(first), min(last, int(end or (last if "+" in text else first))) + 1)


def versions_of(field: dict[str, Any], last: int) -> range:
    """The versions that have a field: those in which it is tagged if the schema states no others, as Kafka's generator has it."""
    return versions(field.get("versions") or field["taggedVersions"], last)


def last_version(schema: dict[str, Any]) -> int:
    """The last version that clients and brokers use by default: not one that is unstable yet."""
    base = schema["name"].removesuffix("Request").removesuffix("Response")
    last = versions(schema["validVersions"], 99)[-1]
    return last - bool(schemas().get(f"{base}Request", {}).get("latestVersionUnstable"))


def default(stated: Any, kind: str, ours: Field) -> Any:
    """The default that a schema states, as a value of ours."""
    if stated is None:
        return empty(ours.type)
    if stated == "null":
        return None
    if kind == "bool":
        return str(stated) == "true"
    if kind == "float64":
        return float(stated)
    return int(str(stated), 0) if "int" in kind else stated


def compare(ours: tuple[Field, ...], theirs: list[dict[str, Any]], common: Any, last: int) -> None:
    """Assert that fields are those of a schema, in its order."""
    theirs = [each for each in theirs if versions_of(each, last)]
    names = [each["name"][0].lower() + each["name"][1:] for each in theirs]
    assert [field.name for field in ours] == names
    for field, schema in zip(ours, theirs, strict=True):
        kind = schema["type"].removeprefix("[]")
        element = field.type.element if isinstance(field.type, Array) else field.type
        assert isinstance(field.type, Array) == schema["type"].startswith("[]"), field
        until = last if field.until is None else field.until
        known = versions_of(schema, last)
        assert range(field.since, until + 1) == known, field
        assert field.nullable == bool(versions(schema.get("nullableVersions", "none"), last)), field
        assert field.tag == schema.get("tag"), field
        if field.tag is not None:
            assert versions(schema["taggedVersions"], last) == known, field
        assert field.absent() == default(schema.get("default"), schema["type"], field), field
        if isinstance(element, Struct):
            assert element.name == kind
            compare(element.fields, schema.get("fields") or common[kind], common, last)
        else:
            assert element is (Scalar.BYTES if kind == "records" else Scalar(kind)), field


@pytest.mark.parametrize("message", MESSAGES + RECORDS, ids=lambda message: message.name)
def test_a_message_has_the_fields_and_versions_of_the_schema_in_the_jar(message: Message) -> None:
    schema = schemas()[message.name]
    last = last_version(schema) - (message.name in BEHIND)
    known = versions(schema["validVersions"], last)
    assert range(message.first_version, message.last_version + 1) == known
    flexible = versions(schema["flexibleVersions"], last)
    assert message.flexible_since == (flexible[0] if flexible else None)
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    compare(message.fields, schema["fields"], common, last)
    assert message.type_id == (None if schema["type"] in WITHOUT_TYPE else schema.get("apiKey"))


def test_a_retired_message_is_in_no_jar() -> None:
    assert not schemas().keys() & {each.name for each in NAMED.values() if each.is_retired}


def test_every_type_of_record_is_declared() -> None:
    known = {name for name, schema in schemas().items() if schema["type"] in RECORD_TYPES}
    assert known == {each.name for each in RECORDS if each.type_id is not None}


def test_every_api_that_a_broker_offers_to_clients_is_declared_under_its_number() -> None:
    offered = {
        schema["apiKey"]: schema["name"].removesuffix("Request")
        for schema in schemas().values()
        if schema["type"] == "request" and "broker" in schema.get("listeners", ())
    }
    declared = {api: api.title for api in Api}
    assert declared == {key: name for key, name in offered.items() if key not in LEFT_OUT}
