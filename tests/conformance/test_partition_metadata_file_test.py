"""What Kafka's PartitionMetadataFileTest asks of reading."""

from __future__ import annotations

import base64
import random

import pytest

from engine.checkpoint.partition_metadata import parse_partition_metadata


@pytest.mark.conformance("PartitionMetadataFileTest.testRead")
def test_read() -> None:
    topic_id = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
    metadata = parse_partition_metadata(f"version: 0\ntopic_id: {topic_id}".encode())
    assert metadata.version == 0
    assert metadata.topic_id == topic_id
