"""Requests through the kernel: answers, errors, caching. The tree is the one in memory."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.fake_tree import ERRORS, LINES, MTIME_NS
from tests.mount.mounted import Mounted, needs_fuse

pytestmark = [pytest.mark.mount, needs_fuse]

_numbers = itertools.count()


@pytest.fixture
def fresh(mnt: Path) -> Path:
    """A file whose size is a guess, since nobody has opened it."""
    return mnt / "guessed" / f"{next(_numbers):02}.jsonl"


def errno_of(call: Callable[[], object]) -> int:
    with pytest.raises(OSError) as caught:  # noqa: PT011  the errno is what is asked for
        call()
    assert caught.value.errno is not None
    return caught.value.errno


# -- attributes and names


def test_attributes_are_the_nodes(mnt: Path) -> None:
    status = (mnt / "small").stat()
    assert stat.filemode(status.st_mode) == "-r--r--r--"
    assert (status.st_size, status.st_mtime_ns, status.st_nlink) == (6, MTIME_NS, 1)
    assert status.st_blocks == 1
    assert status.st_blksize == 131072


def test_a_link_leads_where_it_says(mnt: Path) -> None:
    assert os.readlink(mnt / "link") == "small"
    assert (mnt / "link").read_bytes() == b"hello\n"


def test_names_that_are_not_utf8_survive(mnt: Path) -> None:
    path = os.fsencode(mnt) + b"/bad\xffname"
    assert b"bad\xffname" in os.listdir(os.fsencode(mnt))
    with open(path, "rb") as file:
        assert file.read() == b"bytes"


def test_inode_numbers_are_the_same_in_listing_and_stat(mnt: Path) -> None:
    with os.scandir(mnt) as entries:
        for entry in entries:
            assert entry.inode() == entry.stat(follow_symlinks=False).st_ino, entry.name


def test_a_listing_has_the_dots(mnt: Path) -> None:
    listed = subprocess.run(["ls", "-a", mnt / "grower"], capture_output=True, check=True)
    assert listed.stdout.split() == [b".", b"..", b"log"]


def test_df_shows_the_file_systems_of_the_source(mnt: Path) -> None:
    answer = os.statvfs(mnt)
    assert answer.f_blocks == 12_345_678 // 4096
    assert (answer.f_bfree, answer.f_bavail) == (256, 16)
    assert (answer.f_files, answer.f_ffree) == (42, 7)


# -- reading


def test_bytes_come_as_they_are_at_any_position(mnt: Path) -> None:
    data = bytes(range(256)) * 40_000
    fd = os.open(mnt / "big", os.O_RDONLY)
    try:
        for position in (0, 1, 4095, 131_072, 1_048_575, 10_239_990, 10_240_000, 10_300_000):
            assert os.pread(fd, 5000, position) == data[position : position + 5000]
    finally:
        os.close(fd)
    assert (mnt / "big").read_bytes() == data


def test_an_empty_file_is_empty(mnt: Path) -> None:
    assert (mnt / "empty").read_bytes() == b""


def test_a_slow_read_does_not_hold_up_others(mnt: Path) -> None:
    with subprocess.Popen(["cat", mnt / "sleepy"], stdout=subprocess.PIPE) as reader:
        time.sleep(0.2)
        start = time.monotonic()
        for number in range(50):
            (mnt / "numbers" / str(900_000 + number)).read_bytes()
        assert time.monotonic() - start < 1.0
        assert reader.poll() is None, "the slow read was over before the fast ones: nothing shown"
        assert reader.communicate()[0] == b"yawn\n"


# -- errors


@pytest.mark.parametrize("name", list(ERRORS))
@pytest.mark.parametrize("place", ["attrs", "open", "read_now", "read", "xattrs", "close"])
def test_whatever_a_node_raises_is_an_errno_and_the_mount_lives(
    mnt: Path, place: str, name: str
) -> None:
    path = mnt / "failing" / f"{place}-{name}"
    if place == "close":
        # An error there has nobody to go to, whatever it is.
        os.close(os.open(path, os.O_RDONLY))
    elif place == "xattrs":
        assert errno_of(lambda: os.getxattr(path, "user.kafka.offset")) == expected(name)
    elif place == "attrs":
        assert errno_of(path.stat) == expected(name)
    elif place == "read_now" and name == "None":
        assert errno_of(path.read_bytes) == errno.EIO  # None means «later», and later is None too
    else:
        assert errno_of(path.read_bytes) == expected(name)
    assert (mnt / "small").read_bytes() == b"hello\n"


@pytest.mark.parametrize("name", list(ERRORS))
def test_a_folder_that_fails_is_an_errno_and_the_mount_lives(mnt: Path, name: str) -> None:
    if isinstance(ERRORS[name], BaseException):
        assert errno_of((mnt / "failing" / f"lookup-{name}" / "child").stat) == expected(name)
        listing = errno.ESTALE if name == "FileNotFoundError" else expected(name)
        assert errno_of(lambda: os.listdir(mnt / "failing" / f"entries-{name}")) == listing
    assert (mnt / "small").read_bytes() == b"hello\n"


def expected(name: str) -> int:
    return {
        "FileNotFoundError": errno.ENOENT,
        "MemoryError": errno.ENOMEM,
        "UnsupportedCodecError": errno.EOPNOTSUPP,
    }.get(name, errno.EIO)


def test_enosys_from_the_source_does_not_switch_open_off_for_the_mount(mnt: Path) -> None:
    # The kernel would never again ask a file system that says ENOSYS.
    assert errno_of((mnt / "failing" / "open-ENOSYS").read_bytes) == errno.EIO
    assert errno_of((mnt / "failing" / "open-KeyError").read_bytes) == errno.EIO


def test_one_broken_entry_does_not_hide_the_others(mnt: Path) -> None:
    names = os.listdir(mnt / "failing")
    assert "attrs-KeyError" in names
    assert len(names) == len(set(names)) == 8 * len(ERRORS)


def test_unexpected_errors_are_counted_and_logged_with_a_traceback(
    start: Callable[..., Mounted],
) -> None:
    mnt = start().path
    errno_of((mnt / "failing" / "open-AssertionError").read_bytes)
    statistics = (mnt / ".kafkafs" / "statistics").read_text()
    assert '"unexpectedErrors": 1' in statistics
    log = (mnt / ".kafkafs" / "log").read_text()
    assert "unexpected AssertionError" in log
    assert "Traceback" in log


def test_damage_is_in_the_log_with_its_place(start: Callable[..., Mounted]) -> None:
    mnt = start().path
    errno_of((mnt / "failing" / "open-CorruptRecordError").read_bytes)
    log = (mnt / ".kafkafs" / "log").read_text()
    assert "the checksum is wrong in a.log at byte 1" in log


# -- extended attributes


def test_user_xattrs_are_the_nodes(mnt: Path) -> None:
    assert sorted(os.listxattr(mnt / "small")) == ["user.kafka.large", "user.kafka.offset"]
    assert os.getxattr(mnt / "small", "user.kafka.offset") == b"35"
    assert errno_of(lambda: os.getxattr(mnt / "small", "user.other")) == errno.ENODATA
    assert errno_of(lambda: os.getxattr(mnt / "small", "user.kafka.large")) == errno.E2BIG


def test_other_xattrs_are_not_supported_so_that_ls_stops_asking(mnt: Path) -> None:
    for name in ("security.selinux", "system.posix_acl_access", "trusted.x"):
        assert errno_of(lambda name=name: os.getxattr(mnt / "small", name)) == errno.EOPNOTSUPP


# -- files whose size is a guess until they are opened


def test_the_guess_is_replaced_by_the_exact_size_at_open(fresh: Path) -> None:
    assert fresh.stat().st_size == 2 * len(LINES)
    with fresh.open("rb") as file:
        assert os.fstat(file.fileno()).st_size == len(LINES)
        assert file.seek(0, os.SEEK_END) == len(LINES)
    assert fresh.stat().st_size == len(LINES)


TOOLS: dict[str, list[str]] = {
    "cat": ["cat", "{}"],
    "dd": ["dd", "if={}", "bs=4k", "status=none"],
    "head": ["head", "-c", "100000000", "{}"],
    "tail -c": ["tail", "-c", str(len(LINES)), "{}"],
    "tail -n": ["tail", "-n", "14000", "{}"],
    "grep": ["grep", "offset", "{}"],
    "sed": ["sed", "", "{}"],
    "sort": ["sh", "-c", "sort -t: -k2 -n {}"],
    "tar": ["sh", "-c", "tar cf - -C $(dirname {}) $(basename {}) | tar xOf -"],
    "gzip": ["sh", "-c", "gzip -c {} | gzip -dc"],
    "cp": ["sh", "-c", "cp -a --no-preserve=xattr {} $TMP/x && cat $TMP/x"],
    "rsync": ["sh", "-c", "rsync -a {} $TMP/x && cat $TMP/x"],
    "python": ["python3", "-c", "import sys; sys.stdout.write(open('{}').read())"],
    "shutil": ["sh", "-c", "python3 -c \"import shutil; shutil.copyfile('{}', '$TMP/x')\"; cat $TMP/x"],
}  # fmt: skip


@pytest.mark.parametrize("tool", list(TOOLS))
def test_a_tool_reads_all_of_a_file_never_opened_before(
    fresh: Path, tmp_path: Path, tool: str
) -> None:
    command = [part.replace("{}", str(fresh)) for part in TOOLS[tool]]
    done = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "TMP": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == LINES


def test_wc_counts_all_of_a_file_never_opened_before(fresh: Path) -> None:
    done = subprocess.run(["wc", "-lc", fresh], capture_output=True, check=True)
    assert done.stdout.split()[:2] == [b"14000", str(len(LINES)).encode()]


def test_a_map_of_a_file_never_opened_before_is_whole(fresh: Path) -> None:
    with (
        fresh.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert bytes(mapped) == LINES


def test_sendfile_of_a_file_never_opened_before_is_whole(fresh: Path, tmp_path: Path) -> None:
    with fresh.open("rb") as file, (tmp_path / "x").open("wb") as target:
        while os.sendfile(target.fileno(), file.fileno(), None, 1 << 20):
            pass
    assert (tmp_path / "x").read_bytes() == LINES


def test_a_second_rsync_copies_nothing(fresh: Path, tmp_path: Path) -> None:
    command = ["rsync", "-a", "--itemize-changes", str(fresh), str(tmp_path) + "/"]
    first = subprocess.run(command, capture_output=True, check=True)
    second = subprocess.run(command, capture_output=True, check=True)
    assert first.stdout.startswith(b">f")
    assert second.stdout == b""


def test_many_openers_at_once_all_get_the_whole_file(fresh: Path) -> None:
    readers = [
        subprocess.Popen(["sh", "-c", f"cat {fresh} | wc -c"], stdout=subprocess.PIPE)
        for _ in range(12)
    ]
    sizes = {int(reader.communicate()[0]) for reader in readers}
    assert sizes == {len(LINES)}


# -- a file that grows


def test_a_growing_file_is_followed_by_stat_new_opens_and_open_descriptors(mnt: Path) -> None:
    path = mnt / "grower" / "log"
    with path.open("rb") as early:
        before = early.read()
        assert not (mnt / "grower" / "more").exists()
        time.sleep(0.3)  # its attributes are kept for 0.2 s
        assert path.stat().st_size == len(before) + 13
        assert path.read_bytes() == before + b"another line\n"
        assert early.read() == b"another line\n"


def test_an_opener_right_after_growth_sees_it_whatever_the_kernel_had_kept(mnt: Path) -> None:
    path = mnt / "grower" / "log"
    before = path.read_bytes()
    assert not (mnt / "grower" / "more").exists()
    assert path.read_bytes() == before + b"another line\n"


# -- what the kernel keeps


def test_an_absent_name_is_asked_again_when_it_may_appear(mnt: Path) -> None:
    before = int((mnt / "absent" / "count").read_bytes())
    for _ in range(3):
        assert not (mnt / "absent" / "35").exists()
    assert int((mnt / "absent" / "count").read_bytes()) - before == 3


def requests(root: Path, operation: str) -> int:
    import json

    facts = json.loads((root / ".kafkafs" / "statistics").read_text())
    return facts["operations"].get(operation, {}).get("requests", 0)


def test_pages_are_kept_while_the_content_is_the_same(mnt: Path) -> None:
    (mnt / "big").read_bytes()
    (mnt / ".kafkafs" / "statistics").read_text()
    before = requests(mnt, "read")
    (mnt / "big").read_bytes()
    assert requests(mnt, "read") - before <= 1  # the statistics file itself


def test_a_small_file_that_was_never_open_is_read_without_a_read_request(mnt: Path) -> None:
    before = requests(mnt, "read")
    for number in range(20):
        path = mnt / "numbers" / str(800_000 + number)
        assert path.read_bytes() == path.read_bytes() != b""
    assert requests(mnt, "read") - before <= 1  # the statistics file itself


def test_closing_costs_no_flush_request_after_the_first(mnt: Path) -> None:
    for number in range(20):
        (mnt / "few" / str(number)).read_bytes()
    assert requests(mnt, "flush") <= 1


# -- listings


def test_a_small_folder_is_listed_with_attributes(mnt: Path) -> None:
    def look_ups() -> int:
        before = requests(mnt, "lookup")
        done = subprocess.run(["ls", "-l", mnt / "few"], capture_output=True, check=True)
        assert len(done.stdout.splitlines()) == 301
        return requests(mnt, "lookup") - before

    # Attributes are collected for a few milliseconds only, which a busy machine may take from us.
    assert min(look_ups() for _ in range(5)) < 50


def slab_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Slab:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Slab in /proc/meminfo")


def test_a_million_names_are_listed_once_each_and_leave_nothing_in_the_kernel(mnt: Path) -> None:
    before = slab_bytes()
    names = os.listdir(mnt / "numbers")
    assert slab_bytes() - before < 200 << 20  # with attributes it is 1 GB
    assert len(names) == 1_000_000
    assert len(set(names)) == 1_000_000


def test_the_first_page_of_a_million_names_is_all_that_is_made(mnt: Path) -> None:
    def made() -> int:
        return int((mnt / "numbers-made").read_bytes())

    before = made()
    with os.scandir(mnt / "numbers") as entries:
        next(entries)
    assert 0 < made() - before < 10_000


def test_types_are_right_in_a_listing_without_attributes(mnt: Path) -> None:
    with os.scandir(mnt / "numbers") as entries:
        for entry in itertools.islice(entries, 2000):
            assert entry.is_file(follow_symlinks=False)


def test_a_listing_goes_on_where_telldir_was(mnt: Path) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long
    folder = ctypes.c_void_p(libc.opendir(os.fsencode(mnt / "numbers")))

    def name() -> bytes:
        return ctypes.string_at(libc.readdir(folder) + 19)

    for _ in range(5000):
        name()
    place = libc.telldir(folder)
    following = [name() for _ in range(50)]
    for _ in range(3000):
        name()
    libc.seekdir(folder, ctypes.c_long(place))
    assert [name() for _ in range(50)] == following
    libc.closedir(folder)


# -- memory


def test_inodes_that_the_kernel_holds_are_bounded(start: Callable[..., Mounted]) -> None:
    import json

    mounted = start("max_inodes=500")
    for number in range(4000):
        (mounted.path / "numbers" / str(number)).read_bytes()

    def known() -> int:
        return json.loads((mounted.path / ".kafkafs" / "status").read_text())["knownInodes"]

    end = time.monotonic() + 10
    while known() > 500 and time.monotonic() < end:
        time.sleep(0.1)
    assert known() <= 500
    assert (mounted.path / "numbers" / "1").read_bytes() == b"1" * 20
