"""An overlay answers each call as a real disk does, and its source stays as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.disk.disk import Disk, WritableFile
from engine.errors import SourceRefusedError
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import OverlayBudget
from engine.plan.overlay.overlay_disk import OverlayDisk

NAMES = ("a", "b", "c", "sub", "sub/x", "sub/y", "new", "new/z")
names = st.sampled_from(NAMES)
sizes = st.integers(0, 40)
calls = st.one_of(
    st.tuples(st.just("open"), names, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("write"), names, sizes, st.binary(max_size=20)),
    st.tuples(st.just("truncate"), names, sizes),
    st.tuples(st.just("read"), names, sizes, sizes),
    st.tuples(st.just("map"), names, sizes, st.binary(max_size=5)),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("remove"), names, st.booleans()),
    st.tuples(st.just("remove_folder"), names),
    st.tuples(st.just("remove_tree"), names),
    st.tuples(st.just("make_folder"), names),
    st.tuples(st.just("make_new_folder"), names),
    st.tuples(st.just("replace"), names, st.binary(max_size=20)),
    st.tuples(st.just("set_mtime"), names, st.integers(0, 10**12)),
)


def fill(folder: Path) -> Path:
    """The same small tree each time."""
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(bytes(range(30)))
    (folder / "b").write_bytes(b"")
    (folder / "sub" / "x").write_bytes(b"in a folder")
    return folder


def seal(folder: Path) -> dict[str, tuple[int, int, str]]:
    """What must not change."""
    return {
        str(path): (
            path.stat().st_mtime_ns,
            path.stat().st_ctime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }


class Driver:
    """Does calls on a disk; files that were opened stay open."""

    def __init__(self, disk: Disk, home: str) -> None:
        self.disk = disk
        self.home = home
        self.opened: dict[str, WritableFile] = {}

    def do(self, call: tuple[Any, ...]) -> Any:
        """The answer, or the error; of which nobody but these two is told apart."""
        try:
            return getattr(self, call[0])(*call[1:])
        except (FileNotFoundError, FileExistsError) as error:
            return type(error).__name__
        except OSError:
            return "OSError"
        except ValueError:
            return "ValueError"

    def at(self, name: str) -> str:
        return f"{self.home}/{name}"

    def is_folder(self, name: str) -> bool:
        return self.disk.is_dir(self.at(name))

    def open(self, name: str, create: bool, exclusive: bool, writable: bool) -> int:
        file = self.disk.open(self.at(name), create=create, exclusive=exclusive, writable=writable)
        self.opened[name] = file
        return file.size()

    def write(self, name: str, position: int, data: bytes) -> int:
        file = self.opened.get(name) or self.disk.open(self.at(name))
        file.write_at(position, data)
        return file.size()

    def truncate(self, name: str, size: int) -> int:
        file = self.opened.get(name) or self.disk.open(self.at(name))
        file.truncate(size)
        return file.size()

    def read(self, name: str, position: int, size: int) -> tuple[bytes, int, bytes]:
        file = self.opened.get(name) or self.disk.open(self.at(name), writable=False)
        buffer = bytearray(size)
        got = file.read_into(buffer, position)
        by_descriptor = os.pread(file.fileno(), min(size, file.size()), 0)
        return file.read_at(position, size), got, by_descriptor

    def map(self, name: str, size: int, data: bytes) -> bytes:
        with self.disk.open(self.at(name)) as file:
            mapping = file.map(size)
            mapping.write(0, data)
            read = mapping.read(0, size)
            mapping.close()
            return read

    def rename(self, old: str, new: str) -> None:
        self.disk.rename(self.at(old), self.at(new))

    def remove(self, name: str, missing_ok: bool) -> bool:
        return self.disk.remove(self.at(name), missing_ok)

    def remove_folder(self, name: str) -> None:
        self.disk.remove_folder(self.at(name))

    def remove_tree(self, name: str) -> None:
        self.disk.remove_tree(self.at(name))

    def make_folder(self, name: str) -> None:
        self.disk.make_folder(self.at(name))

    def make_new_folder(self, name: str) -> None:
        self.disk.make_new_folder(self.at(name))

    def replace(self, name: str, data: bytes) -> None:
        self.disk.replace_atomically(self.at(name), data)

    def set_mtime(self, name: str, milliseconds: int) -> int:
        self.disk.set_mtime_ms(self.at(name), milliseconds)
        return self.disk.mtime_ms(self.at(name))

    def look(self) -> list[Any]:
        """All that can be seen."""
        seen: list[Any] = []
        for name in ("", *NAMES):
            path = self.at(name) if name else self.home
            is_dir = self.disk.is_dir(path)
            seen.append((name, self.disk.exists(path), is_dir))
            if is_dir:
                seen.append(self.disk.list(path))
            elif seen[-1][1]:
                seen.append((self.disk.size(path), self.disk.read(path)))
        return seen

    def close(self) -> None:
        for file in self.opened.values():
            file.close()


@settings(max_examples=150, deadline=None)
@given(st.lists(calls, max_size=25))
def test_each_call_is_answered_as_by_a_disk(script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        source, real = fill(Path(made, "source")), fill(Path(made, "real"))
        before = seal(source)
        with SourceRoot(str(source)) as root:
            ours = Driver(OverlayDisk({"/over/here": root}), "/over/here")
            theirs = Driver(Disk(), str(real))
            for call in script:
                if call[0] in ("set_mtime", "open", "read") and theirs.is_folder(call[1]):
                    continue  # a system opens a folder too, which nobody asks a disk for
                assert ours.do(call) == theirs.do(call), call
            assert ours.look() == theirs.look()
            ours.close()
            theirs.close()
        assert seal(source) == before


def test_to_cut_and_to_rename_a_large_file_copies_nothing(tmp_path: Path) -> None:
    large = tmp_path / "00000000000000000000.log"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    with SourceRoot(str(tmp_path)) as root:
        disk = OverlayDisk({"/d": root}, OverlayBudget(1000, 0))
        with disk.open(f"/d/{large.name}") as opened:
            opened.truncate(12345)
            assert opened.size() == 12345
            assert opened.read_at(12340, 100) == bytes(5)
        disk.rename(f"/d/{large.name}", "/d/x.deleted")
        assert disk.list("/d") == ["x.deleted"]
        assert disk.size("/d/x.deleted") == 12345
        assert disk.budget.used == 0
    assert large.stat().st_size == 1 << 30


def test_changes_have_a_bound_and_give_back_what_they_took(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a").write_bytes(b"x" * 600)
    with SourceRoot(str(tmp_path)) as root:
        disk = OverlayDisk({"/d": root}, OverlayBudget(500, 500))
        with disk.open("/d/f/a") as file:
            file.write_at(0, b"y")
            assert disk.budget.used == 601
            with pytest.raises(OSError, match="exceed the limit"):
                file.write_at(0, b"y" * 600)
        disk.forget("/d/f")
        del file
        assert disk.budget.used == 0
        assert disk.read("/d/f/a") == b"x" * 600


def test_links_and_fifos_are_seen_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    source = tmp_path / "source"
    source.mkdir()
    (source / "link.log").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "fifo.log")
    with SourceRoot(str(source)) as root:
        disk = OverlayDisk({"/d": root})
        assert disk.list("/d") == ["fifo.log", "folder", "link.log"]
        assert not disk.is_dir("/d/folder")
        for name in ("link.log", "fifo.log", "folder/secret"):
            with pytest.raises(SourceRefusedError):
                disk.open(f"/d/{name}")
        assert [name for name, _ in disk.refused("/d")] == ["fifo.log", "folder", "link.log"]
        disk.remove("/d/link.log")
        assert disk.list("/d") == ["fifo.log", "folder"]
    assert (source / "link.log").is_symlink()


def test_nothing_outside_of_the_sources_is_there(tmp_path: Path) -> None:
    with SourceRoot(str(tmp_path)) as root:
        disk = OverlayDisk({"/over/here": root})
        assert disk.list("/over") == ["here"]
        assert not disk.exists("/etc/passwd")
        assert not disk.exists("/over/here/../../etc/passwd")
        with pytest.raises(FileNotFoundError):
            disk.open("/etc/passwd")


def test_a_file_that_was_exchanged_meanwhile_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with SourceRoot(str(tmp_path)) as root:
        disk = OverlayDisk({"/d": root})
        assert disk.size("/d/a") == 6
        shutil.copy(tmp_path / "a", tmp_path / "b")
        (tmp_path / "b").rename(tmp_path / "a")
        with pytest.raises(OSError, match="replaced"):
            disk.read("/d/a")
