"""engine.files.source_files: beneath the source, read-only, regular files, never blocking."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import LimitExceededError, SourceRefusedError
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot

LOG = "orders-0/00000000000000000000.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"outside")
    source = tmp_path / "data"
    (source / "orders-0").mkdir(parents=True)
    (source / LOG).write_bytes(bytes(range(200)) * 10)
    return source


@pytest.fixture(params=["openat2", "walked"])
def root(folder: Path, request: pytest.FixtureRequest) -> Iterator[SourceRoot]:
    with SourceRoot(str(folder)) as opened:
        if request.param == "walked":
            opened._beneath._has_openat2 = False
        elif not opened._beneath._has_openat2:
            pytest.skip("this kernel or sandbox has no openat2")
        yield opened


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_file_is_read_at_absolute_positions(root: SourceRoot, folder: Path) -> None:
    file = root.open(LOG)
    assert file.size() == 2000
    assert file.read_at(10, 5) == bytes(range(10, 15))
    assert file.read_at(0, 2000) == (folder / LOG).read_bytes()
    assert (file.name, file.path) == ("00000000000000000000.log", f"{folder}/{LOG}")
    status = (folder / LOG).stat()
    assert file.identity == (status.st_dev, status.st_ino)


def test_a_read_past_the_end_is_short(root: SourceRoot) -> None:
    file = root.open(LOG)
    assert len(file.read_at(1990, 100)) == 10
    assert file.read_at(2000, 10) == b""
    assert file.read_at(10**12, 10) == b""
    assert file.read_at(5, 0) == b""


def test_a_claimed_size_is_not_allocated(root: SourceRoot) -> None:
    file = root.open(LOG)
    assert len(file.read_at(0, 2**62)) == 2000
    assert file.read_at(3000, 2**62) == b""


def test_read_into_fills_what_there_is(root: SourceRoot) -> None:
    file = root.open(LOG)
    buffer = bytearray(300)
    assert file.read_into(buffer, 1900) == 100
    assert bytes(buffer[:100]) == file.read_at(1900, 100)
    assert file.read_into(memoryview(buffer)[:7], 0) == 7
    assert file.read_into(buffer, 5000) == 0


@pytest.mark.parametrize("position", [-1, -(2**40)])
def test_a_negative_position_is_the_callers_error(root: SourceRoot, position: int) -> None:
    with pytest.raises((ValueError, OSError)):
        root.open(LOG).read_at(position, 4)


def test_a_file_that_shrinks_gives_short_reads(root: SourceRoot, folder: Path) -> None:
    file = root.open(LOG)
    os.truncate(folder / LOG, 100)
    assert file.read_at(90, 50) == bytes(range(90, 100))
    assert file.read_into(bytearray(50), 90) == 10


def test_listing_tells_kinds_without_following(root: SourceRoot, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent)
    os.mkfifo(folder / "fifo")
    (folder / "meta.properties").write_text("")
    assert {entry.name: entry.kind for entry in root.list()} == {
        "link": EntryKind.SYMLINK,
        "fifo": EntryKind.OTHER,
        "meta.properties": EntryKind.FILE,
        "orders-0": EntryKind.DIRECTORY,
    }
    assert root.list("orders-0") == [SourceEntry("00000000000000000000.log", EntryKind.FILE)]


def test_what_is_not_there_is_not_found(root: SourceRoot) -> None:
    for call in (root.list, root.stat, root.open, root.open_fresh):
        with pytest.raises(FileNotFoundError):
            call("payments-0")
        with pytest.raises(FileNotFoundError):
            call("payments-0/x")
    with pytest.raises(FileNotFoundError):
        root.read("payments-0/x", limit=10)


@pytest.mark.parametrize(
    "make",
    [
        lambda source: (source / "orders-0/x.log").symlink_to(source.parent / "secret"),
        lambda source: (source / "orders-0/x.log").symlink_to("../../secret"),
        lambda source: (source / "orders-0/x.log").symlink_to("nowhere"),
        lambda source: (source / "orders-0/x.log").symlink_to("00000000000000000000.log"),
        lambda source: os.mkfifo(source / "orders-0/x.log"),
        lambda source: (source / "orders-0/x.log").mkdir(),
    ],
    ids=["link", "relative link", "dangling link", "link inside", "fifo", "directory"],
)
def test_only_regular_files_are_opened(root: SourceRoot, folder: Path, make) -> None:
    make(folder)
    for call in (root.open, root.open_fresh, lambda name: root.read(name, limit=100)):
        with pytest.raises(SourceRefusedError) as caught:
            call("orders-0/x.log")
        assert caught.value.path == f"{folder}/orders-0/x.log"


def test_a_socket_is_not_opened(root: SourceRoot, folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)  # a socket's path has 108 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("x.log")
        with pytest.raises(SourceRefusedError):
            root.open("x.log")


def test_a_linked_folder_is_not_entered(root: SourceRoot, folder: Path) -> None:
    (folder / "payments-0").symlink_to(folder.parent)
    (folder / "again-0").symlink_to("orders-0")
    for name in ("payments-0", "again-0"):
        with pytest.raises(SourceRefusedError):
            root.list(name)
    with pytest.raises(SourceRefusedError):
        root.open("payments-0/secret")
    with pytest.raises(SourceRefusedError):
        root.stat("payments-0/secret")
    with pytest.raises(SourceRefusedError):
        root.open("again-0/00000000000000000000.log")


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "orders-0/../../secret",
        "/etc/passwd",
        "..",
        ".",
        "orders-0/",
        "orders-0//x",
        "/",
    ],
)
def test_no_name_leads_out(root: SourceRoot, name: str) -> None:
    for call in (root.list, root.stat, root.open):
        with pytest.raises(SourceRefusedError):
            call(name)


def test_a_nul_in_a_name_is_the_callers_error(root: SourceRoot) -> None:
    with pytest.raises(ValueError, match="null"):
        root.open(LOG + "\0.txt")


def test_the_sources_own_path_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    with SourceRoot(f"{link}/") as root:
        assert root.path == str(link)
        assert root.open(LOG).size() == 2000


def test_another_file_system_is_not_entered_unless_asked() -> None:
    for has_openat2 in (True, False):
        with SourceRoot("/") as root:
            root._beneath._has_openat2 = root._beneath._has_openat2 and has_openat2
            with pytest.raises(SourceRefusedError, match="file system"):
                root.open("proc/version")
            with pytest.raises(SourceRefusedError, match="file system"):
                root.list("proc")
        with SourceRoot("/", cross_device=True) as root:
            root._beneath._has_openat2 = root._beneath._has_openat2 and has_openat2
            assert root.read("proc/version", limit=4096)


def test_a_name_swapped_for_a_link_never_escapes(root: SourceRoot, folder: Path) -> None:
    target = folder / "orders-0" / "x.log"
    done = threading.Event()

    def flip() -> None:
        plain, link = folder / "plain", folder / "link"
        while not done.is_set():
            plain.write_bytes(b"inside")
            plain.rename(target)
            link.symlink_to("../../secret")
            link.rename(target)

    flipper = threading.Thread(target=flip)
    flipper.start()
    read = refused = 0
    try:
        for _ in range(2000):
            try:
                assert root.read("orders-0/x.log", limit=100) == b"inside"
                read += 1
            except (SourceRefusedError, FileNotFoundError):
                refused += 1
    finally:
        done.set()
        flipper.join()
    assert read + refused == 2000


def test_names_are_bytes(root: SourceRoot, folder: Path) -> None:
    raw = os.fsencode(str(folder)) + b"/t\xff\x1b\n-0"
    os.mkdir(raw)
    Path(os.fsdecode(raw), "x").write_bytes(b"1")
    name = next(entry.name for entry in root.list() if entry.name.startswith("t"))
    assert root.read(name + "/x", limit=1) == b"1"


def test_an_open_file_is_reused(root: SourceRoot) -> None:
    assert root.open(LOG) is root.open(LOG)
    assert root.open(LOG, fresh=True) is root.open(LOG)
    assert root.open_fresh(LOG) is not root.open(LOG)


def test_a_replaced_file_is_noticed_when_fresh(root: SourceRoot, folder: Path) -> None:
    before = root.open(LOG)
    (folder / "new").write_bytes(b"new")
    (folder / "new").rename(folder / LOG)
    assert root.open(LOG) is before
    after = root.open(LOG, fresh=True)
    assert (after.read_at(0, 9), root.open(LOG)) == (b"new", after)
    assert before.size() == 2000


def test_a_deleted_file_stays_readable_for_whoever_has_it(root: SourceRoot, folder: Path) -> None:
    file = root.open(LOG)
    (folder / LOG).unlink()
    assert file.read_at(0, 3) == b"\0\1\2"
    with pytest.raises(FileNotFoundError):
        root.open(LOG, fresh=True)


def test_files_beyond_the_limit_are_closed_when_nobody_uses_them(folder: Path) -> None:
    for number in range(10):
        (folder / str(number)).write_bytes(b"%d" % number)
    with SourceRoot(str(folder), open_files=3) as root:
        held = root.open("0")
        files = [weakref.ref(root.open(str(number))) for number in range(10)]
        gc.collect()
        assert [file() is not None for file in files] == [True, *[False] * 6, *[True] * 3]
        assert held.read_at(0, 1) == b"0"


def test_forgotten_files_are_closed(root: SourceRoot, folder: Path) -> None:
    (folder / "orders-00").mkdir()
    (folder / "orders-00" / "x").write_bytes(b"")
    inside, beside = root.open(LOG).fd, root.open("orders-00/x")
    root.forget("orders-0")
    assert not is_open(inside)
    assert root.open("orders-00/x") is beside


def test_running_out_of_descriptors_frees_the_cache(folder: Path) -> None:
    for number in range(64):
        (folder / str(number)).write_bytes(b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with SourceRoot(str(folder), open_files=512) as root:
        spare = os.dup(root.fd)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 10, hard))
        try:
            for number in range(64):
                assert root.open(str(number)).read_at(0, 1) == b"x"
            assert len(root.list()) == 65
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_small_file_is_read_whole_or_refused(root: SourceRoot) -> None:
    assert len(root.read(LOG, limit=2000)) == 2000
    with pytest.raises(LimitExceededError) as caught:
        root.read(LOG, limit=1999)
    assert caught.value.path.endswith(LOG)


def test_closed_things_say_so(folder: Path) -> None:
    root = SourceRoot(str(folder))
    file = root.open_fresh(LOG)
    root.close()
    root.close()
    for call in (root.list, root.stat, lambda: root.open(LOG)):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert file.size() == 2000
    file.close()
    file.close()
    for call in (
        file.size,
        file.stat,
        lambda: file.read_at(0, 1),
        lambda: file.read_into(bytearray(1), 0),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_the_descriptor_goes_with_the_last_reference(root: SourceRoot) -> None:
    file = root.open_fresh(LOG)
    fd = file.fd
    assert is_open(fd)
    del file
    gc.collect()
    assert not is_open(fd)


def test_reading_leaves_no_trace(root: SourceRoot, folder: Path) -> None:
    for path in (folder / LOG, folder / "orders-0"):
        os.utime(path, ns=(10**9, 10**9))
    root.list("orders-0")
    root.open(LOG).read_at(0, 100)
    root.read(LOG, limit=5000)
    assert root.broker_pid() is None
    for path in (folder / LOG, folder / "orders-0"):
        assert path.stat().st_atime_ns == 10**9
    assert sorted(os.listdir(folder)) == ["orders-0"]


def test_files_are_opened_read_only(root: SourceRoot) -> None:
    flags = fcntl.fcntl(root.open(LOG).fd, fcntl.F_GETFL)
    assert flags & os.O_ACCMODE == os.O_RDONLY
    assert flags & os.O_NONBLOCK


def test_the_brokers_lock_is_seen_and_not_taken(root: SourceRoot, folder: Path) -> None:
    lock = folder / ".lock"
    lock.write_bytes(b"")
    assert root.broker_pid() is None
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    for _ in range(2):  # the second holder gets the lock, so asking took nothing
        with subprocess.Popen(
            [sys.executable, "-c", script, str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as broker:
            assert broker.stdout is not None
            assert broker.stdin is not None
            assert broker.stdout.readline() == "held\n"
            assert root.broker_pid() == broker.pid
            assert root.broker_pid() == broker.pid
            broker.stdin.close()
    assert root.broker_pid() is None


def test_a_lock_that_is_a_link_is_not_asked(root: SourceRoot, folder: Path) -> None:
    (folder / ".lock").symlink_to("../secret")
    assert root.broker_pid() is None


def test_a_source_must_be_a_folder(folder: Path) -> None:
    with pytest.raises(NotADirectoryError):
        SourceRoot(str(folder / LOG))
    with pytest.raises(FileNotFoundError):
        SourceRoot(str(folder / "nowhere"))
