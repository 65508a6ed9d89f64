"""The request handlers without a kernel: what only a kernel that asks the wrong thing would reach."""

from __future__ import annotations

import errno
import os
from collections.abc import Coroutine
from typing import Any

import pytest

pyfuse3 = pytest.importorskip("pyfuse3")

from kafkafs.fuse.open_files import MOST_STORED  # noqa: E402  after the skip
from kafkafs.fuse.operations import MUTATING, Operations  # noqa: E402
from kafkafs.fuse.slow_work import SlowWork  # noqa: E402
from kafkafs.tree.content import BytesContent  # noqa: E402
from tests.mount.fake_tree import Bytes, Folder, Growing, example  # noqa: E402


class Context:
    """A caller."""

    pid = 1


CONTEXT = Context()
SLOW = SlowWork(workers=1, read_timeout=5)


def answer(handler: Coroutine[Any, Any, Any]) -> Any:
    """What a handler that does not wait answers."""
    try:
        handler.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the handler waits")


def errno_of(handler: Coroutine[Any, Any, Any]) -> int:
    with pytest.raises(pyfuse3.FUSEError) as caught:
        answer(handler)
    return caught.value.errno


@pytest.fixture
def operations() -> Operations:
    return Operations(example(), SLOW, invalidate=lambda inode: None)


def look_up(operations: Operations, path: str) -> int:
    inode = 1
    for name in path.split("/"):
        inode = answer(operations.lookup(inode, name.encode(), CONTEXT)).st_ino
    return inode


@pytest.mark.parametrize("name", MUTATING)
def test_changes_are_refused_here_too(operations: Operations, name: str) -> None:
    assert errno_of(getattr(operations, name)(1, b"new", 0, CONTEXT)) == errno.EROFS


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_CREAT])
def test_opens_to_write_are_refused_here_too(operations: Operations, flags: int) -> None:
    inode = look_up(operations, "small")
    assert errno_of(operations.open(inode, flags, CONTEXT)) == errno.EROFS


def test_numbers_that_were_never_told_are_stale(operations: Operations) -> None:
    for handler in (
        operations.getattr(12345, CONTEXT),
        operations.open(12345, 0, CONTEXT),
        operations.lookup(12345, b"x", CONTEXT),
        operations.opendir(12345, CONTEXT),
        operations.listxattr(12345, CONTEXT),
    ):
        assert errno_of(handler) == errno.ESTALE


def test_handles_that_were_never_given_are_errors_and_not_the_end(operations: Operations) -> None:
    assert errno_of(operations.read(99, 0, 10)) == errno.EIO
    assert errno_of(operations.release(99)) == errno.EIO
    assert errno_of(operations.releasedir(99)) == errno.EIO


def test_what_is_no_folder_cannot_be_looked_into(operations: Operations) -> None:
    inode = look_up(operations, "small")
    assert errno_of(operations.lookup(inode, b"x", CONTEXT)) == errno.ENOTDIR
    assert errno_of(operations.opendir(inode, CONTEXT)) == errno.ENOTDIR
    assert errno_of(operations.open(1, 0, CONTEXT)) == errno.EISDIR
    assert errno_of(operations.readlink(inode, CONTEXT)) == errno.EINVAL


def test_dots_can_be_looked_up_for_file_handles(operations: Operations) -> None:
    folder = look_up(operations, "grower")
    assert answer(operations.lookup(folder, b".", CONTEXT)).st_ino == folder
    assert answer(operations.lookup(folder, b"..", CONTEXT)).st_ino == 1


def test_an_absent_name_is_cached_by_the_kernel_where_it_stays_absent(
    operations: Operations,
) -> None:
    assert errno_of(operations.lookup(1, b"nothing", CONTEXT)) == errno.ENOENT
    frozen = Operations(example(), SLOW, negative_ttl=60.0)
    entry = answer(frozen.lookup(1, b"nothing", CONTEXT))
    assert (entry.st_ino, entry.entry_timeout) == (0, 60.0)


def test_a_name_above_the_length_that_statfs_states_is_too_long(operations: Operations) -> None:
    assert errno_of(operations.lookup(1, b"n" * 255, CONTEXT)) == errno.ENOENT
    assert errno_of(operations.lookup(1, b"n" * 256, CONTEXT)) == errno.ENAMETOOLONG


def test_access_allows_reading_and_no_writing(operations: Operations) -> None:
    assert answer(operations.access(1, os.R_OK, CONTEXT)) is True
    assert errno_of(operations.access(1, os.W_OK, CONTEXT)) == errno.EROFS


def test_pages_are_kept_only_while_the_content_is_the_same() -> None:
    log = Growing("log", b"one")
    operations = Operations(Folder("", [log]), SLOW, invalidate=lambda inode: None)
    inode = look_up(operations, "log")
    opened = []
    for data in (b"one", b"one", b"onetwo", b"onetwo"):
        log.data = data
        info = answer(operations.open(inode, 0, CONTEXT))
        opened.append(info.keep_cache)
        answer(operations.release(info.fh))
    assert opened == [True, True, False, True]


class Slice(BytesContent):
    """A part of a file that grows: the same bytes as far as both reach."""

    lineage = 7


class GrowingFile(Growing):
    """A file whose contents stay as they were opened."""

    def open(self, cancel: object = None) -> Slice:
        return Slice(self.data)


@pytest.mark.parametrize(
    ("first", "then", "passes_the_cache_by"),
    [(b"one", b"one", False), (b"one", b"onetwo", True), (b"onetwo", b"one", True)],
)
def test_a_reader_of_a_file_as_it_was_keeps_others_out_of_its_pages(
    first: bytes, then: bytes, passes_the_cache_by: bool
) -> None:
    log = GrowingFile("log", first)
    operations = Operations(Folder("", [log]), SLOW, invalidate=lambda inode: None)
    inode = look_up(operations, "log")
    answer(operations.open(inode, 0, CONTEXT))
    log.data = then
    second = answer(operations.open(inode, 0, CONTEXT))
    assert second.direct_io == passes_the_cache_by
    assert second.keep_cache != passes_the_cache_by
    third = answer(operations.open(inode, 0, CONTEXT))
    assert third.keep_cache != passes_the_cache_by


class ReplacedContent(BytesContent):
    """A file's bytes, read on request."""

    in_memory = None  # type: ignore[assignment]


class Replaced(Growing):
    """A file in whose place another one is put."""

    def open(self, cancel: object = None) -> ReplacedContent:
        return ReplacedContent(self.data)


@pytest.mark.parametrize(("new", "shown"), [(b"new", 7), (b"a longer file", 13)])
def test_a_reader_is_not_cut_at_the_size_of_the_file_that_replaced_its_own(
    new: bytes, shown: int
) -> None:
    log = Replaced("log", b"the old")
    operations = Operations(Folder("", [log]), SLOW, invalidate=lambda inode: None)
    inode = look_up(operations, "log")
    handle = answer(operations.open(inode, 0, CONTEXT)).fh
    log.data = new
    assert answer(operations.getattr(inode, CONTEXT)).st_size == shown
    assert answer(operations.lookup(1, b"log", CONTEXT)).st_size == shown
    answer(operations.release(handle))
    assert answer(operations.getattr(inode, CONTEXT)).st_size == len(new)


def test_a_file_in_place_of_one_that_is_open_has_an_inode_of_its_own() -> None:
    log = Replaced("log", b"the old")
    operations = Operations(Folder("", [log]), SLOW, invalidate=lambda inode: None)
    inode = look_up(operations, "log")
    old = answer(operations.open(inode, 0, CONTEXT)).fh
    log.data = b"new"
    assert errno_of(operations.open(inode, 0, CONTEXT)) == errno.ESTALE
    new = answer(operations.lookup(1, b"log", CONTEXT))
    assert (new.st_ino, new.st_size) == (inode + 1, 3)
    info = answer(operations.open(inode + 1, 0, CONTEXT))
    assert not info.direct_io
    assert bytes(answer(operations.read(info.fh, 0, 9))) == b"new"
    assert answer(operations.getattr(inode, CONTEXT)).st_size == 7
    assert bytes(answer(operations.read(old, 0, 9))) == b"the old"

    log.data = b"a third"
    third = answer(operations.open(inode + 1, 0, CONTEXT))
    assert third.direct_io
    for handle in (old, info.fh, third.fh):
        answer(operations.release(handle))
    assert answer(operations.lookup(1, b"log", CONTEXT)).st_ino == inode
    assert operations.open_handles == 0


def test_attributes_are_invalidated_exactly_when_the_kernels_size_is_wrong() -> None:
    log = Growing("log", b"one")
    told: list[int] = []
    operations = Operations(Folder("", [log]), SLOW, invalidate=told.append)
    inode = look_up(operations, "log")
    answer(operations.open(inode, 0, CONTEXT))
    assert told == []
    log.data += b"two"
    answer(operations.open(inode, 0, CONTEXT))
    assert told == [inode]


def test_a_second_open_does_not_invalidate_the_attributes_that_the_first_reader_has_asked_for() -> (
    None
):
    log = Growing("log", b"one")
    told: list[int] = []
    operations = Operations(Folder("", [log]), SLOW, invalidate=told.append)
    inode = look_up(operations, "log")
    log.data += b"two"
    answer(operations.open(inode, 0, CONTEXT))
    answer(operations.open(inode, 0, CONTEXT))
    assert told == [inode]
    assert answer(operations.getattr(inode, CONTEXT)).st_size == len(b"onetwo")
    log.data += b"three"
    answer(operations.open(inode, 0, CONTEXT))
    assert told == [inode, inode]


def test_the_bytes_of_a_small_file_are_sent_when_it_is_first_opened() -> None:
    files = [
        Bytes("small", b"bytes"),
        Bytes("empty", b""),
        Bytes("large", b"x" * (MOST_STORED + 1)),
    ]
    log = Growing("log", b"one")
    sent: list[tuple[int, bytes]] = []
    operations = Operations(
        Folder("", [*files, log]),
        SLOW,
        invalidate=lambda inode: None,
        store=lambda inode, data: sent.append((inode, data)),
    )
    inodes = {name: look_up(operations, name) for name in ("small", "empty", "large", "log")}
    for inode in inodes.values():
        for _ in range(2):
            answer(operations.open(inode, 0, CONTEXT))
    assert sent == [(inodes["small"], b"bytes")]


def test_bytes_are_not_sent_to_a_kernel_that_knows_another_size() -> None:
    file = Bytes("small", b"bytes")
    sent: list[bytes] = []
    operations = Operations(
        Folder("", [file]),
        SLOW,
        invalidate=lambda inode: None,
        store=lambda inode, data: sent.append(data),
    )
    inode = look_up(operations, "small")
    file.data = b"other bytes"
    answer(operations.open(inode, 0, CONTEXT))
    assert sent == []


def test_a_deleted_file_has_attributes_while_it_is_open_and_no_longer() -> None:
    root = Folder("", [Folder("orders-0", [Bytes("orders-0/log", b"bytes")])])
    operations = Operations(root, SLOW, invalidate=lambda inode: None)
    inode = look_up(operations, "orders-0/log")
    handle = answer(operations.open(inode, 0, CONTEXT)).fh
    folder = root.children["orders-0"]
    assert isinstance(folder, Folder)
    folder.children.clear()
    for number in range(200):  # push the file's node out of those that are kept
        root.children[str(number)] = Bytes(str(number), b"")
        look_up(operations, str(number))
    entry = answer(operations.getattr(inode, CONTEXT))
    assert (entry.st_size, entry.st_nlink) == (5, 0)
    assert bytes(answer(operations.read(handle, 0, 100))) == b"bytes"
    answer(operations.release(handle))
    assert errno_of(operations.getattr(inode, CONTEXT)) == errno.ENOENT


def test_closing_one_of_two_handles_leaves_the_other(operations: Operations) -> None:
    inode = look_up(operations, "small")
    first, second = (answer(operations.open(inode, 0, CONTEXT)).fh for _ in range(2))
    answer(operations.release(first))
    assert bytes(answer(operations.read(second, 1, 3))) == b"ell"
    assert operations.open_handles == 1
