"""What Kafka's FileRecordsTest asks of appending and truncating."""

from __future__ import annotations

import pytest

from engine.disk.disk import Disk, WritableFile
from engine.errors import KafkaStorageError
from engine.record.memory_records import MemoryRecords
from engine.writing.segment.writable_file_records import WritableFileRecords
from tests.builders import Rec, batch

MAX_INT = 2**31 - 1
MIB = 1024 * 1024
VALUES = [b"abcd", b"efgh", b"ijkl"]


def append(records: WritableFileRecords, values: list[bytes]) -> None:
    for offset, value in enumerate(values):
        records.append(MemoryRecords(batch([Rec(value)], offset)))


def batches(records: WritableFileRecords) -> list[bytes]:
    return [bytes(found.raw) for found in records.batches()]


class CountingFile(WritableFile):
    """Remembers the sizes that it was truncated to."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.truncated: list[int] = []

    def truncate(self, size: int) -> None:
        self.truncated.append(size)
        super().truncate(size)


class CountingDisk(Disk):
    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        return CountingFile(fd, path, writable=writable)


@pytest.fixture
def records(tmp_path):
    with WritableFileRecords.open(tmp_path / "kafka.tmp") as opened:
        append(opened, VALUES)
        yield opened


@pytest.fixture
def of_42_bytes(tmp_path):
    (tmp_path / "kafka42.tmp").write_bytes(bytes(42))
    with WritableFileRecords.open(tmp_path / "kafka42.tmp", disk=CountingDisk()) as opened:
        yield opened


@pytest.mark.conformance("FileRecordsTest.testAppendProtectsFromOverflow")
def test_append_protects_from_overflow(tmp_path):
    path = tmp_path / "full.log"
    with path.open("wb") as out:
        out.truncate(MAX_INT)
    with WritableFileRecords.open(path) as records:
        with pytest.raises(ValueError, match="too many"):
            append(records, VALUES)
        assert records.size == MAX_INT
        assert path.stat().st_size == MAX_INT


@pytest.mark.conformance("FileRecordsTest.testFileSize")
def test_file_size(records):
    assert records.file.size() == records.size
    for _ in range(20):
        records.append(MemoryRecords(batch([Rec(b"abcd")])))
        assert records.file.size() == records.size


@pytest.mark.conformance("FileRecordsTest.testTruncate")
def test_truncate(records):
    first = batches(records)[0]
    end = records.search_for_offset(1, 0).position
    records.truncate_to(end)
    assert batches(records) == [first]
    assert records.size == len(first) == records.file.size()


@pytest.mark.conformance("FileRecordsTest.testTruncateNotCalledIfSizeIsSameAsTargetSize")
def test_truncate_not_called_if_size_is_same_as_target_size(of_42_bytes):
    assert of_42_bytes.truncate_to(42) == 0
    assert of_42_bytes.file.truncated == []


@pytest.mark.conformance("FileRecordsTest.testTruncateNotCalledIfSizeIsBiggerThanTargetSize")
def test_truncate_not_called_if_size_is_bigger_than_target_size(of_42_bytes):
    with pytest.raises(KafkaStorageError, match="to 43 bytes: it has 42"):
        of_42_bytes.truncate_to(43)
    assert of_42_bytes.file.truncated == []
    assert of_42_bytes.size == 42


@pytest.mark.conformance("FileRecordsTest.testTruncateIfSizeIsDifferentToTargetSize")
def test_truncate_if_size_is_different_to_target_size(of_42_bytes):
    assert of_42_bytes.truncate_to(23) == 19
    assert of_42_bytes.file.truncated == [23]
    assert of_42_bytes.size == 23


@pytest.mark.conformance("FileRecordsTest.testPreallocateTrue")
def test_preallocate_true(tmp_path):
    path = tmp_path / "kafka.tmp"
    with WritableFileRecords.open(path, init_file_size=MIB, preallocate=True) as records:
        assert records.end == 0
        assert records.size == 0
        assert path.stat().st_size == MIB


@pytest.mark.conformance("FileRecordsTest.testPreallocateFalse")
def test_preallocate_false(tmp_path):
    path = tmp_path / "kafka.tmp"
    with WritableFileRecords.open(path, init_file_size=MIB) as records:
        assert records.end == 0
        assert records.size == 0
        assert path.stat().st_size == 0


@pytest.mark.conformance("FileRecordsTest.testPreallocateClearShutdown")
def test_preallocate_clear_shutdown(tmp_path, records):
    path = tmp_path / "preallocated.tmp"
    preallocated = WritableFileRecords.open(path, init_file_size=MIB, preallocate=True)
    append(preallocated, VALUES)
    old_end, old_size = preallocated.end, preallocated.size
    assert old_end == old_size == records.size
    preallocated.close()
    with WritableFileRecords.open(
        path, file_already_exists=True, init_file_size=MIB, preallocate=True
    ) as reopened:
        assert reopened.end == old_end
        assert reopened.size == old_end
        assert path.stat().st_size == old_end
