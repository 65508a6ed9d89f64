"""What Kafka's UnifiedLogTest of the storage module asks of names."""

from __future__ import annotations

import pytest

from engine.files.file_names import FileKind, FileName, parse_file_name, producer_snapshot_name


@pytest.mark.conformance("UnifiedLogTestJava.testOffsetFromProducerSnapshotFile")
def test_offset_from_producer_snapshot_file() -> None:
    name = producer_snapshot_name(23423423)
    assert parse_file_name(name) == FileName(FileKind.PRODUCER_SNAPSHOT, 23423423)
