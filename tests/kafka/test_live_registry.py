"""A live registry and the official serializers: without the registry, records are shown as its deserializers read them.

Apicurio's registry keeps its schemas in memory here, so they are saved through its API before anything is deleted.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

import kafkafs
from tests.kafka.broker import Broker
from tests.kafka.live_registry import LiveRegistry
from tests.kafka.registry_topics import TOPICS, RegistryTopics, Sides
from tests.kafka.same_value import is_same, is_same_message


@dataclass(frozen=True, slots=True)
class Left:
    """What is left when broker and registry are gone.

    Attributes:
        log_dir: a copy of the log dir.
        schemas: a file with the schemas that the registry had.
        read: what the official deserializers read.
    """

    log_dir: Path
    schemas: Path
    read: Sides


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    home = tmp_path_factory.mktemp("registry")
    saved: dict[tuple[str, int, int], dict[str, Any]] = {}
    with (
        Broker(home) as broker,
        LiveRegistry(home) as registry,
        SchemaRegistryClient({"url": registry.url}) as client,
    ):
        topics = RegistryTopics(client, broker.bootstrap, home)
        topics.write()
        save(registry, saved)
        topics.delete()
        topics.write_again()
        save(registry, saved)
    shutil.copytree(broker.log_dir, home / "copy")
    shutil.rmtree(broker.log_dir)
    schemas = home / "schemas.jsonl"
    schemas.write_text("".join(f"{json.dumps(row)}\n" for row in saved.values()))
    return Left(home / "copy", schemas, topics.read)


def save(registry: LiveRegistry, saved: dict[tuple[str, int, int], dict[str, Any]]) -> None:
    """Add the versions that the registry lists, as `kafkafs schemas --json` prints them."""
    for subject in registry.ask("/subjects"):
        path = f"/subjects/{quote(subject, safe='')}/versions"
        for version in registry.ask(path):
            row = registry.ask(f"{path}/{version}")
            place = {"file": registry.url, "offset": None, "timestamp": None, "isFirst": True}
            saved.setdefault((subject, version, row["id"]), {
                "subject": subject, "version": version, "id": row["id"], "guid": None, "state": "live",
                "schemaType": row.get("schemaType") or "AVRO", "references": row.get("references") or [],
                "schema": row["schema"], "since": place, "deletedSince": None, "until": None,
            })  # fmt: skip


def test_the_registry_took_schemas_of_all_kinds_with_references_and_deletes(left: Left) -> None:
    rows = [json.loads(line) for line in left.schemas.read_text().splitlines()]
    referring = {row["schemaType"] for row in rows if row["references"]}
    assert referring == {"AVRO", "PROTOBUF", "JSON"}
    ids = [row["id"] for row in rows if row["subject"] == "avro-again-value"]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("topic", TOPICS)
def test_each_key_and_value_is_shown_as_the_official_deserializer_read_it(
    topic: str, left: Left
) -> None:
    known = {(offset, part): value for (name, offset, part), value in left.read.items()
             if name == topic}  # fmt: skip
    shown = {}
    with kafkafs.open(left.log_dir, schemas=str(left.schemas)) as source:
        for text in source.read(f"{topic}-0/offset/0..").splitlines():
            line = json.loads(text, parse_float=Decimal)
            for part in ("key", "value"):
                if line[part] is not None:
                    shown[line["offset"], part] = line[part]
    assert shown.keys() == known.keys()
    for where, value in known.items():
        same = is_same_message if hasattr(value, "DESCRIPTOR") else is_same
        assert same(value, shown[where]), (where, value, shown[where])
