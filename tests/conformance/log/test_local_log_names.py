"""What Kafka's LocalLogTest asks of names."""

from __future__ import annotations

import pytest

from engine.errors import InvalidNameError
from engine.files.file_names import (
    FileState,
    FolderState,
    folder_name,
    log_file_name,
    offset_index_name,
    parse_file_name,
    parse_folder_name,
    time_index_name,
)
from engine.units import TopicPartition

ID = "3b1a6a0ba47f4d8cb6c8a9b0e6a1d2c3"


def refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        parse_folder_name(name)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionName")
def test_parse_topic_partition_name() -> None:
    assert parse_folder_name("test_topic-143").topic_partition == ("test_topic", 143)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameWithPeriodForDeletedTopic")
def test_parse_topic_partition_name_with_period_for_deleted_topic() -> None:
    name = folder_name(TopicPartition("foo.bar-testtopic", 42), FolderState.DELETE, ID)
    assert name == f"foo.bar-testtopic-42.{ID}-delete"
    assert parse_folder_name(name) == (("foo.bar-testtopic", 42), FolderState.DELETE, ID)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForEmptyName")
def test_parse_topic_partition_name_for_empty_name() -> None:
    refused("")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForNull")
def test_parse_topic_partition_name_for_null() -> None:
    refused(None)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingSeparator")
def test_parse_topic_partition_name_for_missing_separator() -> None:
    refused("test_topic1999")
    refused("test_topic1999.-delete")
    refused(f"test_topic1999.{ID}-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingTopic")
def test_parse_topic_partition_name_for_missing_topic() -> None:
    refused("-1999")
    refused(folder_name(TopicPartition("", 1999), FolderState.DELETE, ID))


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingPartition")
def test_parse_topic_partition_name_for_missing_partition() -> None:
    refused("test_topic-")
    refused("test_topic-.-delete")
    refused(f"test_topic-.{ID}-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForInvalidPartition")
def test_parse_topic_partition_name_for_invalid_partition() -> None:
    refused("test_topic-1999a")
    refused("test_topic1999a.-delete")
    refused(f"test_topic-1999a.{ID}-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForExistingInvalidDir")
def test_parse_topic_partition_name_for_existing_invalid_dir() -> None:
    refused("non_kafka_dir")
    refused("non_kafka_dir-delete")


@pytest.mark.conformance("LocalLogTest.testOffsetFromFile")
def test_offset_from_file() -> None:
    offset = 23423423
    states = (FileState.LIVE, FileState.DELETED, FileState.CLEANED, FileState.SWAP)
    for build in (log_file_name, offset_index_name, time_index_name):
        for state in states:
            parsed = parse_file_name(build(offset, state))
            assert parsed is not None
            assert parsed.base_offset == offset
