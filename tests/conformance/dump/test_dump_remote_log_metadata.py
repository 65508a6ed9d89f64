"""DumpLogSegmentsTest: what is printed of __remote_log_metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.checkpoint.base64_uuid import random_uuid
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from tests.conformance.unified_log_steps import LogBench
from tests.kafkafs.dump.dumped import dump
from tests.message_bytes import framed
from tests.messages import NAMED
from tests.permissions import modes_count

TOPIC_ID, SEGMENT_ID = random_uuid(), random_uuid()
PARTITION = {"name": "foo", "id": TOPIC_ID, "partition": 0}
DELETE = SimpleRecord(
    None,
    framed(2, 0, NAMED["RemotePartitionDeleteMetadataRecord"], topicIdPartition=PARTITION),
)
UPDATE = SimpleRecord(
    None,
    framed(
        *(1, 0, NAMED["RemoteLogSegmentMetadataUpdateRecord"]),
        remoteLogSegmentId={"topicIdPartition": PARTITION, "id": SEGMENT_ID},
        customMetadata=bytes([0, 1, 2, 3]),
        remoteLogSegmentState=1,
    ),
)
SHOWN_DELETE = (
    f"RemotePartitionDeleteMetadata{{topicPartition={TOPIC_ID}:foo-0,"
    " state=DELETE_PARTITION_MARKED, eventTimestampMs=0, brokerId=0}"
)
SHOWN_UPDATE = (
    f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={TOPIC_ID}:foo-0,"
    f" id={SEGMENT_ID}}}, customMetadata=Optional[CustomMetadata{{4 bytes}}],"
    " state=COPY_SEGMENT_FINISHED, eventTimestampMs=0, brokerId=0}"
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[UnifiedLog]:
    made = LogBench(tmp_path, "topic-0").log(segment_size=1024 * 1024)
    yield made
    made.close()


def append(log: UnifiedLog, *records: SimpleRecord) -> None:
    log.append_as_leader(records_of(*records), leader_epoch=0)


def dumped(path: Path | str) -> str:
    found = dump([], "--remote-log-metadata-decoder", "--files", str(path))
    assert (found.err, found.status) == ("", 0)
    return "\n".join(found.lines)


def counts(text: str) -> tuple[int, int]:
    """How many batches and records were printed."""
    return text.count("baseOffset:"), text.count("| offset:")


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataEmpty")
def test_dump_remote_log_metadata_empty(log: UnifiedLog) -> None:
    text = dumped(log.active_segment.log.path)
    assert counts(text) == (0, 0)
    assert "Log starting offset: 0" in text


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataOneRecordOneBatch")
def test_dump_remote_log_metadata_one_record_one_batch(log: UnifiedLog) -> None:
    append(log, DELETE)
    log.flush(force_active_segment=False)
    text = dumped(log.active_segment.log.path)
    assert counts(text) == (1, 1)
    assert "Log starting offset: 0" in text
    assert SHOWN_DELETE in text


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataMultipleRecordsOneBatch")
def test_dump_remote_log_metadata_multiple_records_one_batch(log: UnifiedLog) -> None:
    append(log, UPDATE, DELETE)
    log.flush(force_active_segment=False)
    text = dumped(log.active_segment.log.path)
    assert counts(text) == (1, 2)
    assert "Log starting offset: 0" in text
    assert SHOWN_UPDATE in text
    assert SHOWN_DELETE in text


@pytest.mark.conformance(
    "DumpLogSegmentsTest.testDumpRemoteLogMetadataMultipleRecordsMultipleBatches"
)
def test_dump_remote_log_metadata_multiple_records_multiple_batches(log: UnifiedLog) -> None:
    append(log, UPDATE, DELETE)
    append(log, UPDATE, DELETE)
    log.flush(force_active_segment=False)
    text = dumped(log.active_segment.log.path)
    assert counts(text) == (2, 4)
    assert "Log starting offset: 0" in text
    assert (text.count(SHOWN_UPDATE), text.count(SHOWN_DELETE)) == (2, 2)


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataNonZeroStartingOffset")
def test_dump_remote_log_metadata_non_zero_starting_offset(log: UnifiedLog) -> None:
    append(log, DELETE)
    second = log.roll()
    second.append(1, records_of(DELETE))
    second.flush()
    log.flush(force_active_segment=True)
    text = dumped(second.log.path)
    assert counts(text) == (1, 1)
    assert "Log starting offset: 1" in text
    assert SHOWN_DELETE in text


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataWithCorruption")
def test_dump_remote_log_metadata_with_corruption(log: UnifiedLog) -> None:
    append(log, SimpleRecord(None, b"corrupted"))
    log.flush(force_active_segment=False)
    text = dumped(log.active_segment.log.path)
    assert counts(text) == (1, 1)
    assert "Log starting offset: 0" in text
    assert "Could not deserialize metadata record" in text


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataIoException")
def test_dump_remote_log_metadata_io_exception(log: UnifiedLog) -> None:
    append(log, DELETE)
    log.flush(force_active_segment=False)
    path = Path(log.active_segment.log.path)
    path.chmod(0o200)
    with modes_count():
        found = dump([], "--remote-log-metadata-decoder", "--files", str(path))
    assert found.status == 3
    assert "Permission denied" in found.err or "may not be read" in found.err


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataNoFilesFlag")
def test_dump_remote_log_metadata_no_files_flag() -> None:
    found = dump([], "--remote-log-metadata-decoder")
    assert found.status == 2
    assert "name a file" in found.err


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpRemoteLogMetadataNoSuchFileException")
def test_dump_remote_log_metadata_no_such_file_exception(tmp_path: Path) -> None:
    path = tmp_path / "nosuchfile" / "00000000000000000000.log"
    found = dump([], "--remote-log-metadata-decoder", "--files", str(path))
    assert found.status == 3
    assert "no such file or directory" in found.err
