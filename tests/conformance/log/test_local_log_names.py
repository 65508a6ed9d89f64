"""What Kafka's LocalLogTest asks of names."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InvalidNameError
from engine.files.file_names import parse_file_name, parse_folder_name
from engine.units import TopicPartition
from engine.writing.log_folder import log_delete_dir_name, parse_topic_partition_name
from engine.writing.segment.segment_files import log_path, offset_index_path, time_index_path

LOG_DIR = Path("/kafka-logs")


def refused(folder: Path | str) -> None:
    with pytest.raises(InvalidNameError):
        parse_topic_partition_name(folder)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionName")
def test_parse_topic_partition_name() -> None:
    parsed = parse_topic_partition_name(LOG_DIR / "test_topic-143")
    assert (parsed.topic, parsed.partition) == ("test_topic", 143)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameWithPeriodForDeletedTopic")
def test_parse_topic_partition_name_with_period_for_deleted_topic() -> None:
    name = log_delete_dir_name(TopicPartition("foo.bar-testtopic", 42))
    parsed = parse_topic_partition_name(LOG_DIR / name)
    assert (parsed.topic, parsed.partition) == ("foo.bar-testtopic", 42)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForEmptyName")
def test_parse_topic_partition_name_for_empty_name() -> None:
    refused("")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForNull")
def test_parse_topic_partition_name_for_null() -> None:
    """Kafka's folder is null; a path here is never None, but the name from a listing may be."""
    with pytest.raises(InvalidNameError):
        parse_folder_name(None)


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingSeparator")
def test_parse_topic_partition_name_for_missing_separator() -> None:
    refused(LOG_DIR / "test_topic1999")
    refused(LOG_DIR / "test_topic1999.-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingTopic")
def test_parse_topic_partition_name_for_missing_topic() -> None:
    refused(LOG_DIR / "-1999")
    refused(LOG_DIR / log_delete_dir_name(TopicPartition("", 1999)))


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForMissingPartition")
def test_parse_topic_partition_name_for_missing_partition() -> None:
    refused(f"{LOG_DIR}test_topic-")
    refused(LOG_DIR / "test_topic-.-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForInvalidPartition")
def test_parse_topic_partition_name_for_invalid_partition() -> None:
    refused(LOG_DIR / "test_topic-1999a")
    refused(LOG_DIR / "test_topic1999a.-delete")


@pytest.mark.conformance("LocalLogTest.testParseTopicPartitionNameForExistingInvalidDir")
def test_parse_topic_partition_name_for_existing_invalid_dir() -> None:
    refused(LOG_DIR / "non_kafka_dir")
    refused(LOG_DIR / "non_kafka_dir-delete")


@pytest.mark.conformance("LocalLogTest.testOffsetFromFile")
def test_offset_from_file(tmp_path: Path) -> None:
    for path_of in (log_path, offset_index_path, time_index_path):
        parsed = parse_file_name(Path(path_of(tmp_path, 23423423)).name)
        assert parsed is not None
        assert parsed.base_offset == 23423423
