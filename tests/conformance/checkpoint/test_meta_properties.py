"""What Kafka's MetaPropertiesTest asks."""

from __future__ import annotations

import pytest

from engine.checkpoint.meta_properties import (
    MetaProperties,
    MetaPropertiesVersion,
    parse_meta_properties,
)
from engine.errors import CorruptCheckpointError

CLUSTER_ID = "zd2vLVrZQlCLJj8-k7A10w"
DIRECTORY_ID = "3Adc4FjfTeypRWROmQDNIQ"
V0, V1 = MetaPropertiesVersion.V0, MetaPropertiesVersion.V1


def round_trip(meta: MetaProperties, expected: dict[str, str]) -> None:
    properties = meta.to_properties()
    assert properties == expected
    again = MetaProperties.from_properties(properties)
    assert again == meta
    assert hash(again) == hash(meta)
    assert repr(again) == repr(meta)
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    assert parse_meta_properties(text.encode()) == meta


@pytest.mark.conformance("MetaPropertiesTest.testV0SerializationWithNothing")
def test_v0_serialization_with_nothing() -> None:
    round_trip(MetaProperties(version=V0), {"version": "0"})


@pytest.mark.conformance("MetaPropertiesTest.testV0SerializationWithJustClusterId")
def test_v0_serialization_with_just_cluster_id() -> None:
    meta = MetaProperties(version=V0, cluster_id=CLUSTER_ID)
    round_trip(meta, {"version": "0", "cluster.id": CLUSTER_ID})


@pytest.mark.conformance("MetaPropertiesTest.testV0SerializationWithJustNodeId")
def test_v0_serialization_with_just_node_id() -> None:
    round_trip(MetaProperties(version=V0, node_id=0), {"version": "0", "broker.id": "0"})


@pytest.mark.conformance("MetaPropertiesTest.testV0SerializationWithJustClusterIdAndNodeId")
def test_v0_serialization_with_just_cluster_id_and_node_id() -> None:
    meta = MetaProperties(version=V0, cluster_id=CLUSTER_ID, node_id=0)
    round_trip(meta, {"version": "0", "cluster.id": CLUSTER_ID, "broker.id": "0"})


@pytest.mark.conformance("MetaPropertiesTest.testV0SerializationWithAll")
def test_v0_serialization_with_all() -> None:
    round_trip(
        MetaProperties(version=V0, cluster_id=CLUSTER_ID, node_id=0, directory_id=DIRECTORY_ID),
        {
            "version": "0",
            "cluster.id": CLUSTER_ID,
            "broker.id": "0",
            "directory.id": DIRECTORY_ID,
        },
    )


@pytest.mark.conformance("MetaPropertiesTest.testV1SerializationWithoutDirectoryId")
def test_v1_serialization_without_directory_id() -> None:
    meta = MetaProperties(version=V1, cluster_id=CLUSTER_ID, node_id=0)
    round_trip(meta, {"version": "1", "cluster.id": CLUSTER_ID, "node.id": "0"})


@pytest.mark.conformance("MetaPropertiesTest.testV1SerializationWithDirectoryId")
def test_v1_serialization_with_directory_id() -> None:
    round_trip(
        MetaProperties(version=V1, cluster_id=CLUSTER_ID, node_id=1, directory_id=DIRECTORY_ID),
        {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": "1",
            "directory.id": DIRECTORY_ID,
        },
    )


@pytest.mark.conformance("MetaPropertiesTest.testV1SerializationWithNonUuidClusterId")
def test_v1_serialization_with_non_uuid_cluster_id() -> None:
    meta = MetaProperties(version=V1, cluster_id="my@cluster@id", node_id=2)
    round_trip(meta, {"version": "1", "cluster.id": "my@cluster@id", "node.id": "2"})


@pytest.mark.conformance("MetaPropertiesTest.testClusterIdRequiredInV1")
def test_cluster_id_required_in_v1() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"no cluster\.id"):
        MetaProperties(version=V1, node_id=1)


@pytest.mark.conformance("MetaPropertiesTest.testNodeIdRequiredInV1")
def test_node_id_required_in_v1() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"no node\.id"):
        MetaProperties(version=V1, cluster_id=CLUSTER_ID)
