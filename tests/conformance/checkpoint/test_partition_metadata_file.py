"""What Kafka's PartitionMetadataFileTest asks."""

from __future__ import annotations

import base64
import os
import random

import pytest

from engine.broker.log.topic_identity import PartitionMetadataFile
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.errors import InconsistentTopicIdError


@pytest.mark.conformance("PartitionMetadataFileTest.testRead")
def test_read() -> None:
    topic_id = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
    metadata = parse_partition_metadata(f"version: 0\ntopic_id: {topic_id}".encode())
    assert metadata.version == 0
    assert metadata.topic_id == topic_id


def random_id() -> str:
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "partition.metadata"


@pytest.mark.conformance("PartitionMetadataFileTest.testSetRecordWithDifferentTopicId")
def test_set_record_with_different_topic_id(path):
    file, topic_id = PartitionMetadataFile(path), random_id()
    file.record(topic_id)
    with pytest.raises(InconsistentTopicIdError, match=topic_id):
        file.record(random_id())
    file.maybe_flush()
    assert file.read().topic_id == topic_id


@pytest.mark.conformance("PartitionMetadataFileTest.testSetRecordWithSameTopicId")
def test_set_record_with_same_topic_id(path):
    file, topic_id = PartitionMetadataFile(path), random_id()
    file.record(topic_id)
    file.record(topic_id)
    file.record(topic_id + "==")
    file.record(topic_id)
    file.maybe_flush()
    assert file.read().topic_id == topic_id


@pytest.mark.conformance("PartitionMetadataFileTest.testMaybeFlushWithTopicIdPresent")
def test_maybe_flush_with_topic_id_present(path):
    file, topic_id = PartitionMetadataFile(path), random_id()
    file.record(topic_id)
    assert not file.exists()
    file.maybe_flush()
    assert path.read_text().splitlines() == ["version: 0", f"topic_id: {topic_id}"]


@pytest.mark.conformance("PartitionMetadataFileTest.testMaybeFlushWithNoTopicIdPresent")
def test_maybe_flush_with_no_topic_id_present(path):
    PartitionMetadataFile(path).maybe_flush()
    assert not path.exists()
