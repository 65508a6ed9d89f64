"""What Kafka's MetaPropertiesVersionTest asks."""

from __future__ import annotations

import pytest

from engine.checkpoint.meta_properties import MetaPropertiesVersion
from engine.errors import CorruptCheckpointError

V0, V1 = MetaPropertiesVersion.V0, MetaPropertiesVersion.V1


@pytest.mark.conformance("MetaPropertiesVersionTest.testV0ToNumber")
def test_v0_to_number() -> None:
    assert int(V0) == 0


@pytest.mark.conformance("MetaPropertiesVersionTest.testV0ToNumberString")
def test_v0_to_number_string() -> None:
    assert str(V0) == "0"


@pytest.mark.conformance("MetaPropertiesVersionTest.testV0FromNumber")
def test_v0_from_number() -> None:
    assert MetaPropertiesVersion.from_number(0) is V0


@pytest.mark.conformance("MetaPropertiesVersionTest.testV0FromNumberString")
def test_v0_from_number_string() -> None:
    assert MetaPropertiesVersion.from_text("0") is V0


@pytest.mark.conformance("MetaPropertiesVersionTest.testV1ToNumber")
def test_v1_to_number() -> None:
    assert int(V1) == 1


@pytest.mark.conformance("MetaPropertiesVersionTest.testV1ToNumberString")
def test_v1_to_number_string() -> None:
    assert str(V1) == "1"


@pytest.mark.conformance("MetaPropertiesVersionTest.testV1FromNumber")
def test_v1_from_number() -> None:
    assert MetaPropertiesVersion.from_number(1) is V1


@pytest.mark.conformance("MetaPropertiesVersionTest.testV1FromNumberString")
def test_v1_from_number_string() -> None:
    assert MetaPropertiesVersion.from_text("1") is V1
    assert MetaPropertiesVersion.from_text(" 1 ") is V1


@pytest.mark.conformance("MetaPropertiesVersionTest.testFromInvalidNumber")
def test_from_invalid_number() -> None:
    with pytest.raises(CorruptCheckpointError, match="version 2"):
        MetaPropertiesVersion.from_number(2)


@pytest.mark.conformance("MetaPropertiesVersionTest.testFromInvalidString")
def test_from_invalid_string() -> None:
    with pytest.raises(CorruptCheckpointError, match="orange"):
        MetaPropertiesVersion.from_text("orange")


@pytest.mark.conformance("MetaPropertiesVersionTest.testHasBrokerId")
def test_has_broker_id() -> None:
    assert V0.has_broker_id
    assert not V1.has_broker_id


@pytest.mark.conformance("MetaPropertiesVersionTest.testAlwaysHasNodeId")
def test_always_has_node_id() -> None:
    assert not V0.always_has_node_id
    assert V1.always_has_node_id


@pytest.mark.conformance("MetaPropertiesVersionTest.testAlwaysHasClusterId")
def test_always_has_cluster_id() -> None:
    assert not V0.always_has_cluster_id
    assert V1.always_has_cluster_id
