"""Appending to a file: what was completed is seen, what failed is not."""

from __future__ import annotations

import pytest

from engine.disk.disk import Disk, WritableFile
from engine.errors import KafkaStorageError
from engine.record.memory_records import MemoryRecords
from engine.writing.segment.writable_file_records import WritableFileRecords
from tests.builders import batch, values


class TornFile(WritableFile):
    """Writes half of what it is given and fails, once `is_full`."""

    is_full = False

    def write_at(self, position, data):
        if self.is_full:
            super().write_at(position, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().write_at(position, data)


class TornDisk(Disk):
    def _file(self, fd, path, writable):
        return TornFile(fd, path, writable=writable)


def batches_of(records):
    return [found.base_offset for found in records.batches()]


def memory(offset, text="value"):
    return MemoryRecords(batch(values(text), offset))


def test_a_torn_append_adds_no_batch_and_the_next_one_replaces_it(tmp_path):
    records = WritableFileRecords.open(tmp_path / "0.log", disk=TornDisk())
    records.append(memory(0))
    size = records.size
    records.file.is_full = True
    with pytest.raises(OSError, match="No space"):
        records.append(memory(1, "a long value"))
    assert records.size == size
    assert batches_of(records) == [0]
    assert records.file.size() > size
    records.file.is_full = False
    records.append(memory(1))
    records.close()
    with WritableFileRecords.open(tmp_path / "0.log", file_already_exists=True) as again:
        assert batches_of(again) == [0, 1]


def test_close_cuts_what_a_torn_append_left(tmp_path):
    records = WritableFileRecords.open(tmp_path / "0.log", disk=TornDisk())
    size = records.append(memory(0))
    records.file.is_full = True
    with pytest.raises(OSError, match="No space"):
        records.append(memory(1))
    records.close()
    records.close()
    assert records.is_closed
    assert (tmp_path / "0.log").stat().st_size == size


def test_an_iteration_and_a_slice_do_not_grow(tmp_path):
    with WritableFileRecords.open(tmp_path / "0.log") as records:
        records.append(memory(0))
        part, found = records.slice(0, 10_000), records.batches()
        assert next(found).base_offset == 0
        records.append(memory(1))
        assert next(found, None) is None
        assert batches_of(part) == [0]
        assert batches_of(records) == [0, 1]


def test_a_renamed_file_is_still_appended_to(tmp_path):
    with WritableFileRecords.open(tmp_path / "0.log") as records:
        records.append(memory(0))
        records.rename_to(tmp_path / "0.log.swap")
        assert records.path == str(tmp_path / "0.log.swap")
        records.append(memory(1))
        (tmp_path / "gone").mkdir()
        with pytest.raises(OSError, match="gone"):
            records.rename_to(tmp_path / "gone" / "no" / "0.log")
        assert records.path == str(tmp_path / "0.log.swap")
        (tmp_path / "0.log.swap").rename(tmp_path / "gone" / "0.log.swap")
        records.update_parent_dir(tmp_path / "gone")
        assert records.delete_if_exists()
        assert not records.delete_if_exists()
    assert list((tmp_path / "gone").iterdir()) == []


def test_a_file_for_reading_must_be_there_and_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError):
        WritableFileRecords.open(tmp_path / "0.log", writable=False)
    with WritableFileRecords.open(tmp_path / "0.log") as records:
        records.append(memory(0))
    with WritableFileRecords.open(tmp_path / "0.log", writable=False) as records:
        with pytest.raises(OSError, match="descriptor"):
            records.append(memory(1))
        assert batches_of(records) == [0]


def test_handlers_are_closed_without_trimming(tmp_path):
    records = WritableFileRecords.open(tmp_path / "0.log", init_file_size=4096, preallocate=True)
    records.append(memory(0))
    records.close_handlers()
    assert records.is_closed
    assert (tmp_path / "0.log").stat().st_size == 4096


def test_a_negative_size_is_refused(tmp_path):
    with WritableFileRecords.open(tmp_path / "0.log") as records:
        with pytest.raises(KafkaStorageError, match="to -1 bytes"):
            records.truncate_to(-1)
        assert records.size == 0


def test_an_oversize_file_is_refused(tmp_path):
    with (tmp_path / "0.log").open("wb") as out:
        out.truncate(2**31)
    with pytest.raises(KafkaStorageError, match="2147483648 bytes"):
        WritableFileRecords.open(tmp_path / "0.log", file_already_exists=True)
