"""Metadata logs and log dirs of small clusters, and what is equal in two of them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from engine.recover.metadata.cluster_metadata import ClusterMetadata
from engine.recover.metadata.records import PartitionPlacement
from engine.recover.nodes import ClusterNode
from tests.builders import Rec, batch, write_segment
from tests.replayed_bytes import metadata_record

CLUSTER = "EjRWeJCrze8SNFZ4kKvN7w"
LOG = "__cluster_metadata-0"


def uuid_of(number: int) -> str:
    """A UUID of its own for each number."""
    return base64.urlsafe_b64encode((1 << 96 | number).to_bytes(16, "big")).decode().rstrip("=")


def write_log_dir(
    path: Path,
    batches: Sequence[bytes] | None = None,
    *,
    node: int = 1,
    cluster: str = CLUSTER,
    base: int = 0,
) -> Path:
    """A log dir of a node, with a metadata log if there are batches."""
    path.mkdir(parents=True, exist_ok=True)
    text = f"version=1\ncluster.id={cluster}\nnode.id={node}\n"
    (path / "meta.properties").write_text(text, encoding="utf-8")
    if batches is not None:
        write_segment(path / LOG, batches, base)
    return path


def each_in_a_batch(records: Sequence[Rec], first: int = 0, epoch: int = 0) -> list[bytes]:
    """Batches of one record."""
    return [
        batch([record], first + place, leader_epoch=epoch) for place, record in enumerate(records)
    ]


def topic(name: str, number: int, partitions: int = 1, **more: Any) -> list[Rec]:
    """The records that make a topic on nodes 1 and 2."""
    state = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 3, "partitionEpoch": 5}
    ids = {"topicId": uuid_of(number)}
    made = [metadata_record("TOPIC_RECORD", name=name, **ids)]
    for each in range(partitions):
        fields = {**ids, "partitionId": each, **state, **more}
        made.append(metadata_record("PARTITION_RECORD", version=1, **fields))
    return made


def config(kind: int, resource: str, name: str, value: str | None) -> Rec:
    """A setting of a resource."""
    return metadata_record(
        "CONFIG_RECORD", resourceType=kind, resourceName=resource, name=name, value=value
    )


def feature(name: str, level: int) -> Rec:
    """A level of a feature."""
    return metadata_record("FEATURE_LEVEL_RECORD", name=name, featureLevel=level)


def random_cluster(random: Random) -> list[Rec]:
    """Records of every kind that a cluster keeps, some of them taken back."""
    word = lambda: "".join(random.choice("abc-._Ωü😀 ") for _ in range(random.randint(1, 8)))  # noqa: E731
    records = [feature("metadata.version", random.choice((7, 17, 22, 23, 30, 33)))]
    records.append(feature("group.version", 1))
    names = [f"t{number}" for number in range(random.randint(1, 4))]
    for number, name in enumerate(names):
        records += topic(name, number + 1, random.randint(1, 3))
    for _ in range(random.randint(0, 12)):
        kind, resource = random.choice(
            [(2, random.choice(names)), (4, ""), (4, "1"), (16, word()), (32, word())]
        )
        records.append(config(kind, resource, word(), random.choice([None, "", word()])))
    for number in range(random.randint(0, 5)):
        records.append(
            metadata_record(
                "ACCESS_CONTROL_ENTRY_RECORD", id=uuid_of(100 + number),
                resourceType=random.randint(2, 7), resourceName=word(),
                patternType=random.choice((3, 4)), principal=f"User:{word()}", host="*",
                operation=random.randint(2, 15), permissionType=random.choice((2, 3)),
            )
        )  # fmt: skip
    for _ in range(random.randint(0, 4)):
        secret = {
            name: random.randbytes(random.randint(1, 40))
            for name in ("salt", "storedKey", "serverKey")
        }
        records.append(
            metadata_record(
                "USER_SCRAM_CREDENTIAL_RECORD", name=word(), mechanism=random.choice((1, 2)),
                iterations=random.randint(4096, 9000), **secret,
            )
        )  # fmt: skip
    for _ in range(random.randint(0, 5)):
        kinds = random.sample(("user", "client-id"), random.randint(1, 2))
        entity = [
            {"entityType": kind, "entityName": random.choice((None, word()))} for kind in kinds
        ]
        value = random.choice((0.0, 1.5, 1e300, float("inf")))
        records.append(
            metadata_record(
                "CLIENT_QUOTA_RECORD", entity=entity, key=word(), value=value, remove=False
            )
        )
    for number in range(random.randint(0, 3)):
        records.append(
            metadata_record(
                "DELEGATION_TOKEN_RECORD", owner=word(), requester=word(), renewers=[word()],
                issueTimestamp=1, maxTimestamp=2, expirationTimestamp=3, tokenId=f"token{number}",
            )
        )  # fmt: skip
    return records


def node_of(number: int, *roles: str, port: int = 0) -> ClusterNode:
    """A node with listeners on a host of its own."""
    port = port or 9000 + 10 * number
    listeners = {"PLAINTEXT": f"h{number}:{port}", "CONTROLLER": f"h{number}:{port + 1}"}
    return ClusterNode(
        number,
        frozenset(roles or ("broker", "controller")),
        listeners,
        protocols=dict.fromkeys(listeners, "PLAINTEXT"),
        controller_listener="CONTROLLER" if not roles or "controller" in roles else None,
    )


def placements_of(
    metadata: ClusterMetadata, nodes: Sequence[ClusterNode], epoch: int = 9
) -> list[PartitionPlacement]:
    """All partitions, on all nodes; the first leads."""
    brokers = [node for node in nodes if node.is_broker]
    return [
        PartitionPlacement(
            name,
            number,
            tuple(node.id for node in brokers),
            brokers[0].id,
            epoch,
            {node.id: node.directory_ids[0] for node in brokers},
        )
        for name, found in metadata.topics.items()
        for number in found.partitions
    ]


def kept_of(metadata: ClusterMetadata) -> dict[str, Any]:
    """What a recovery keeps of a cluster, but for where its partitions are."""
    assert metadata.image is not None
    tables: dict[str, Any] = {
        name: {key: item.facts for key, item in metadata.image.table(name).items()}
        for name in ("configs", "acls", "features", "quotas", "users", "tokens")
    }
    topics = {
        name: (each.topic_id, sorted(each.partitions), dict(each.configs))
        for name, each in metadata.topics.items()
    }
    return {**tables, "topics": topics, "credentials": dict(metadata.credentials)}
