"""Indexes that are written: readers beside a writer, disks that fail, files that were there before."""

from __future__ import annotations

import struct
import threading

import pytest

from engine.disk.disk import Disk, WritableFile
from engine.errors import CorruptIndexError, StateError
from engine.units import OffsetPosition
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex

BASE = 100


class FailingFile(WritableFile):
    disk: FailingDisk

    def write_at(self, position, data):
        self.disk.maybe_fail("write")
        super().write_at(position, data)

    def truncate(self, size):
        self.disk.maybe_fail("truncate")
        super().truncate(size)

    def map(self, size):
        self.disk.maybe_fail("map")
        return super().map(size)


class FailingDisk(Disk):
    fails = ""

    def maybe_fail(self, call: str) -> None:
        if call == self.fails:
            raise OSError(5, "Input/output error")

    def _file(self, fd, path, writable):
        file = FailingFile(fd, path, writable=writable)
        file.disk = self
        return file

    def rename(self, old, new):
        self.maybe_fail("rename")
        super().rename(old, new)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "00000000000000000100.index"


def filled(path, count: int, max_entries: int = 5000, disk: Disk | None = None):
    index = WritableOffsetIndex(path, BASE, max_entries * 8, disk=disk or Disk())
    for i in range(1, count + 1):
        index.append(BASE + i, i * 10)
    return index


def test_look_ups_beside_an_append_and_a_resize_find_whole_entries(path):
    index = filled(path, 1, 20_000)
    wrong: list[object] = []
    done = threading.Event()

    def look_up() -> None:
        seen = 0
        while not done.is_set() and not wrong:
            try:
                last = index.last_entry
                found = index.lookup(last.offset)
                middle = index.lookup(BASE + last.position // 20)
                upper = index.upper_bound_for_fetch(middle, 1)
                everything = len(list(index)) if not seen % 64 else 0
            except (ValueError, IndexError, OSError, struct.error) as error:
                wrong.append(error)
                return
            seen += 1
            if found.position != (found.offset - BASE) * 10 or found.offset < last.offset:
                wrong.append(found)
            if middle.position != (middle.offset - BASE) * 10:
                wrong.append(middle)
            if upper is not None and upper.position != middle.position + 10:
                wrong.append(upper)
            if everything > index.entries:
                wrong.append(everything)

    readers = [threading.Thread(target=look_up) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(2, 6000):
        if i % 50 == 0:
            index.resize((i + 4000 - i % 300) * 8)
        index.append(BASE + i, i * 10)
    done.set()
    for reader in readers:
        reader.join(60)
    assert not any(reader.is_alive() for reader in readers)
    assert wrong == []
    index.close()


def test_a_view_that_outlives_a_close_stays_readable(path):
    index = filled(path, 3)
    entries = iter(index)
    assert next(entries) == OffsetPosition(BASE + 1, 10)
    index.close()
    assert next(entries) == OffsetPosition(BASE + 2, 20)
    with pytest.raises(ValueError, match="is closed"):
        index.lookup(BASE)


@pytest.mark.parametrize("change", ["append", "resize up", "resize down", "map", "rename"])
def test_what_the_disk_refuses_changes_nothing(path, change):
    disk = FailingDisk()
    index = filled(path, 3, 10, disk)
    before = path.read_bytes()
    disk.fails = {"append": "write", "rename": "rename", "map": "map"}.get(change, "truncate")
    changes = {
        "append": lambda: index.append(BASE + 9, 90),
        "rename": lambda: index.rename_to(path.with_suffix(".swap")),
        "resize down": lambda: index.resize(5 * 8),
    }
    with pytest.raises(OSError, match="Input/output"):
        changes.get(change, lambda: index.resize(20 * 8))()
    disk.fails = ""
    assert index.path == str(path)
    assert index.max_entries == 10
    assert path.read_bytes() == before
    assert index.lookup(BASE + 99) == index.last_entry == OffsetPosition(BASE + 3, 30)
    index.append(BASE + 4, 40)
    assert index.lookup(BASE + 99) == OffsetPosition(BASE + 4, 40)
    index.close()
    assert path.stat().st_size == 4 * 8


@pytest.mark.parametrize("call", ["truncate", "map"])
def test_a_new_file_that_cannot_be_preallocated_is_not_left(path, call):
    disk = FailingDisk()
    disk.fails = call
    with pytest.raises(OSError, match="Input/output"):
        WritableOffsetIndex(path, BASE, 80, disk=disk)
    assert not path.exists()


def test_a_new_file_needs_room_for_an_entry(path):
    for size in (-1, 0, 7):
        with pytest.raises(ValueError, match="too few for an entry"):
            WritableOffsetIndex(path, BASE, size)
    assert not path.exists()
    with WritableTimeIndex(path, BASE, 12) as index:
        assert index.is_full
        index.maybe_append(1, BASE, skip_full_check=True)
        with pytest.raises(ValueError, match="outside the map"):
            index.maybe_append(2, BASE, skip_full_check=True)
        assert index.entries == 1


def test_zeros_of_a_file_that_was_not_trimmed_count_as_entries(path):
    filled(path, 3, 10).close_handler()
    with WritableOffsetIndex(path, BASE, 80) as index:
        assert index.entries == 10
        assert index.is_full
        assert index.last_entry == OffsetPosition(BASE, 0)
        index.sanity_check()
    times = WritableTimeIndex(path.with_suffix(".timeindex"), BASE, 120)
    times.maybe_append(7, BASE)
    times.close_handler()
    with WritableTimeIndex(path.with_suffix(".timeindex"), BASE) as times:
        with pytest.raises(CorruptIndexError, match="before the first: expected at least 7"):
            times.sanity_check()
        times.truncate()


def test_part_of_an_entry_at_the_end_is_corrupt_and_stays_until_the_file_is_resized(path):
    path.write_bytes(bytes.fromhex("0000000100000010 00000002"))
    index = WritableOffsetIndex(path, BASE)
    assert list(index) == [OffsetPosition(BASE + 1, 16)]
    with pytest.raises(CorruptIndexError, match="whole entries"):
        index.sanity_check()
    index.close()
    assert path.stat().st_size == 12
    index = WritableOffsetIndex(path, BASE, 80)
    index.resize(80)
    index.close()
    assert path.stat().st_size == 8


def test_an_index_for_reading_is_not_changed(path):
    with pytest.raises(FileNotFoundError):
        WritableOffsetIndex(path, BASE, 80, False)
    filled(path, 3, 3).close_handler()
    with WritableOffsetIndex(path, BASE, 80, False) as index:
        assert index.lookup(BASE + 2) == OffsetPosition(BASE + 2, 20)
        for change in (index.truncate, index.reset, lambda: index.resize(800)):
            with pytest.raises(StateError, match="opened read-only"):
                change()
    assert path.stat().st_size == 24


def test_a_closed_index_takes_nothing_and_can_still_be_moved_and_removed(path, tmp_path):
    index = filled(path, 3, 10)
    index.close()
    index.close()
    for change in (lambda: index.append(BASE + 4, 40), index.truncate, lambda: index.resize(800)):
        with pytest.raises(ValueError, match="closed"):
            change()
    index.flush()
    index.trim_to_valid_size()
    assert path.stat().st_size == 24
    index.rename_to(tmp_path / "moved")
    assert index.delete_if_exists()
    assert not index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_renamed_is_followed(tmp_path):
    (tmp_path / "t-0").mkdir()
    index = filled(tmp_path / "t-0" / "0.index", 3, 10)
    (tmp_path / "t-0").rename(tmp_path / "t-0.deleted")
    index.update_parent_dir(tmp_path / "t-0.deleted")
    index.append(BASE + 4, 40)
    assert index.delete_if_exists()
    assert list((tmp_path / "t-0.deleted").iterdir()) == []


def test_offsets_are_relative_within_31_bits(path):
    with filled(path, 1) as index:
        assert index.can_append_offset(BASE + 2**31 - 1)
        assert not index.can_append_offset(BASE + 2**31)
        assert not index.can_append_offset(BASE - 1)
        assert index.relative_offset(BASE + 2**31 - 1) == 2**31 - 1
