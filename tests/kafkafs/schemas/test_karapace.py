"""The golden topics of a real Karapace: the registry is gone, and each record is what its deserializers read."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kafkafs
from tests.fixtures_data import DATA

FOLDER = DATA / "schemas-karapace"
TRUTH = json.loads((FOLDER / "truth.json").read_text())
TOPICS = sorted({record["topic"] for record in TRUTH["records"]})
Version = tuple[str, int, int]


@pytest.mark.parametrize("topic", TOPICS)
def test_each_key_and_value_is_shown_as_the_official_deserializer_read_it(topic: str) -> None:
    known = [each for each in TRUTH["records"] if each["topic"] == topic]
    with kafkafs.open(FOLDER / "data") as source:
        records = {record.offset: record.decoded() for record in source[topic, 0]}
        for each in known:
            assert getattr(records[each["offset"]], each["part"]) == each["json"]
    assert {each["offset"] for each in known} == records.keys()


def versions(rows: list[dict[str, Any]]) -> dict[Version, str]:
    return {(row["subject"], row["version"], row["id"]): row["schema"] for row in rows}


def test_versions_have_the_states_and_texts_that_the_registry_gave() -> None:
    before, after = versions(TRUTH["before"]), versions(TRUTH["after"])
    with kafkafs.open(FOLDER / "data") as source:
        store = source.tree.context.schemas.store()
        found = {(each.subject, each.version, each.id): each for each in store.schemas}
    assert found.keys() == before.keys() | after.keys()
    live = {key for key, each in found.items() if not (each.is_deleted or each.is_gone)}
    gone = {key for key, each in found.items() if each.is_gone}
    assert live == after.keys()
    assert gone == {("avro-gone-value", 1, 7), ("avro-again-value", 1, 7)}
    assert found.keys() - live - gone == {("avro-orders-value", 1, 2)}
    for key, text in (before | after).items():
        assert found[key].text == text
    assert store.problems == ()
