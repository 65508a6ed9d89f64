"""Writing files: whole writes, replacement in one step, maps that see what is written."""

from __future__ import annotations

import os

import pytest

from engine.disk.disk import DISK, Disk, WritableFile


def test_fault_133_a_write_that_the_system_cuts_short_goes_on(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[:3]), at))
    with DISK.open(tmp_path / "f", create=True) as file:
        file.write_at(2, b"0123456789")
        assert file.read_at(0, 100) == b"\0\x000123456789"


def test_a_read_stops_where_the_file_ends(tmp_path):
    (tmp_path / "f").write_bytes(b"abcdef")
    with DISK.open(tmp_path / "f", writable=False) as file:
        assert file.read_at(4, 1 << 60) == b"ef"
        assert file.read_at(9, 5) == b""
        buffer = bytearray(8)
        assert file.read_into(buffer, 1) == 5
        assert buffer == b"bcdef\0\0\0"


def test_a_file_for_reading_takes_no_writes(tmp_path):
    (tmp_path / "f").write_bytes(b"abcdef")
    with DISK.open(tmp_path / "f", writable=False) as file, pytest.raises(OSError):  # noqa: PT011
        file.write_at(0, b"x")
    assert (tmp_path / "f").read_bytes() == b"abcdef"


def test_a_closed_file_is_refused(tmp_path):
    file = DISK.open(tmp_path / "f", create=True)
    file.close()
    file.close()
    assert file.is_closed
    with pytest.raises(ValueError, match="is closed"):
        file.write_at(0, b"x")


def test_exclusive_wants_a_new_file(tmp_path):
    DISK.open(tmp_path / "f", exclusive=True).close()
    with pytest.raises(FileExistsError):
        DISK.open(tmp_path / "f", exclusive=True)
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "g")


def test_a_map_sees_what_is_written_and_ends_where_it_ends(tmp_path):
    with DISK.open(tmp_path / "f", create=True) as file:
        file.truncate(16)
        mapping = file.map(16)
        assert mapping.read(0, 4) == bytes(4)
        mapping.write(12, b"tail")
        assert mapping.read(12, 4) == b"tail"
        mapping.sync()
        with pytest.raises(ValueError, match="outside the map"):
            mapping.write(13, b"tail")
        with pytest.raises(ValueError, match="outside the map"):
            mapping.write(-1, b"tail")
        mapping.close()
        with pytest.raises(ValueError, match="is closed"):
            mapping.read(0, 4)
        assert file.read_at(12, 4) == b"tail"


def test_a_map_of_nothing_is_empty_and_one_past_the_end_refused(tmp_path):
    with DISK.open(tmp_path / "f", create=True) as file:
        assert file.map(0).read(0, 4) == b""
        with pytest.raises(ValueError, match="shorter"):
            file.map(1)


def test_a_replaced_file_keeps_the_old_content_when_writing_fails(tmp_path):
    class Full(WritableFile):
        def write_at(self, position, data):
            raise OSError(28, "No space left on device")

    class FullDisk(Disk):
        def _file(self, fd, path, writable):
            return Full(fd, path, writable=writable)

    DISK.replace_atomically(tmp_path / "f", b"old")
    with pytest.raises(OSError, match="No space"):
        FullDisk().replace_atomically(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    DISK.replace_atomically(tmp_path / "f", b"newer")  # also over what the failure left
    assert DISK.read(tmp_path / "f") == b"newer"
    assert DISK.list(tmp_path) == ["f"]


def test_fault_134_a_replacement_is_synced_before_it_is_renamed_and_the_folder_after(tmp_path):
    calls = []

    class Seen(WritableFile):
        def write_at(self, position, data):
            calls.append("write")
            super().write_at(position, data)

        def sync(self):
            calls.append("sync")
            super().sync()

    class SeenDisk(Disk):
        def _file(self, fd, path, writable):
            return Seen(fd, path, writable=writable)

        def rename(self, old, new):
            calls.append("rename")
            super().rename(old, new)

        def sync_folder(self, path):
            calls.append(f"sync folder {os.path.basename(path)}")
            super().sync_folder(path)

    SeenDisk().replace_atomically(tmp_path / "f", b"new")
    assert calls == ["write", "sync", "rename", f"sync folder {tmp_path.name}"]


def test_a_disk_without_syncs_does_all_else_as_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)

    class NotingDisk(Disk):
        def __init__(self):
            self.opened = []

        def open(self, path, **options):
            self.opened.append(os.path.basename(path))
            return super().open(path, **options)

    disk = NotingDisk()
    unsynced = disk.without_syncs()
    unsynced.make_folder(tmp_path / "above" / "folder")
    unsynced.replace_atomically(tmp_path / "above" / "f", b"new")
    with pytest.raises(ValueError, match="closed"):
        closed_file(unsynced, tmp_path / "above" / "f").sync()
    assert (disk.opened, synced) == (["f.tmp", "f"], [])
    assert disk.read(tmp_path / "above" / "f") == b"new"
    disk.replace_atomically(tmp_path / "above" / "f", b"newer")
    assert len(synced) == 2


def closed_file(disk, path):
    file = disk.open(path)
    file.close()
    return file


def test_a_tree_is_removed_without_following_links(tmp_path):
    outside = tmp_path / "outside"
    DISK.make_folder(outside)
    (outside / "kept").write_bytes(b"")
    DISK.make_folder(tmp_path / "tree" / "below" / "deeper")
    (tmp_path / "tree" / "below" / "f").write_bytes(b"")
    (tmp_path / "tree" / "link").symlink_to(outside)
    DISK.remove_tree(tmp_path / "tree")
    DISK.remove_tree(tmp_path / "tree")
    assert DISK.list(tmp_path) == ["outside"]
    assert DISK.list(outside) == ["kept"]


def test_removing_tells_whether_there_was_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    assert DISK.remove(tmp_path / "f")
    assert not DISK.remove(tmp_path / "f", missing_ok=True)
    with pytest.raises(FileNotFoundError):
        DISK.remove(tmp_path / "f")


def test_times_and_sizes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    DISK.set_mtime_ms(tmp_path / "f", 1_234_567_891)
    assert DISK.mtime_ms(tmp_path / "f") == 1_234_567_891
    assert DISK.size(tmp_path / "f") == 3
    assert DISK.exists(tmp_path / "f")
    assert not DISK.is_dir(tmp_path / "f")
    assert DISK.is_dir(tmp_path)
    usage = DISK.stat_usage(tmp_path)
    assert 0 < usage.free <= usage.total


def test_what_cannot_be_asked_is_not_taken_for_missing(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for ask in (DISK.exists, DISK.is_dir):
        assert not ask(tmp_path / "g")
        assert not ask(tmp_path / "f" / "below")
        with pytest.raises(OSError, match="symbolic links"):
            ask(tmp_path / "loop")


@pytest.mark.parametrize("has_call", [True, False])
def test_a_new_name_never_replaces_anything(tmp_path, monkeypatch, has_call):
    if not has_call:
        monkeypatch.setattr("engine.disk.disk._libc", None)
    for name in ("staged", "taken"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(name.encode())
    (tmp_path / "empty").mkdir()
    for name in ("taken", "empty"):
        with pytest.raises(FileExistsError):
            DISK.rename_new(tmp_path / "staged", tmp_path / name)
    DISK.rename_new(tmp_path / "staged", tmp_path / "fresh")
    assert (tmp_path / "fresh/file").read_bytes() == b"staged"
    assert (tmp_path / "taken/file").read_bytes() == b"taken"
    assert not (tmp_path / "staged").exists()


def test_access_is_set_whatever_the_umask_says(tmp_path):
    old = os.umask(0o077)
    try:
        DISK.open(tmp_path / "f", create=True).close()
        DISK.set_access(tmp_path / "f", 0o640, (os.getuid(), os.getgid()))
    finally:
        os.umask(old)
    assert os.stat(tmp_path / "f").st_mode & 0o777 == 0o640


def test_a_new_folder_wants_one_above_it(tmp_path):
    DISK.make_new_folder(tmp_path / "new")
    with pytest.raises(FileExistsError):
        DISK.make_new_folder(tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        DISK.make_new_folder(tmp_path / "gone" / "new")
    assert os.listdir(tmp_path) == ["new"]
