"""The open files, and which of them the kernel may cache.

The kernel has one page cache for an inode, and one size. Two readers of a file that was replaced or has grown in
between see different bytes, and must not see each other's. A file in place of one that is open gets an inode of its
own; a second such file, and one that has grown, is read past the page cache.

The bytes of a small file go into the page cache when the file is opened for the first time, so that the kernel need
not ask for them: one request of four for a file that is opened, read and closed. That waits for nothing, because a
page is locked only for a read, and a file that nobody has open is not being read.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pyfuse3
from pyfuse3 import FileInfo, FUSEError

from kafkafs.fuse.inode_table import NO_SIZE, InodeRecord
from kafkafs.tree.node import Content, File

MOST_STORED = 64 * 1024
"""Bytes of a file that are sent when it is opened."""
_MIXED = -1
"""Identity of pages that come from two contents; a hash is never -1."""


class OpenFile(NamedTuple):
    """A file handle. With `is_direct` the kernel does not cache its pages."""

    content: Content
    record: InodeRecord
    is_direct: bool


class OpenFiles:
    """The open files by handle.

    Args:
        invalidate: makes the kernel drop an inode's attributes.
        store: puts the bytes of an inode into the kernel's page cache; None to send no bytes.
    """

    def __init__(
        self,
        invalidate: Callable[[int], None],
        store: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self._invalidate = invalidate
        self._store = store
        self.by_handle: dict[int, OpenFile] = {}

    def add(self, handle: int, record: InodeRecord, node: File, content: Content) -> FileInfo:
        """Add a file that was just opened; return the kernel's orders for its cache.

        Raises FUSEError with ESTALE if the inode belongs to readers of a file that was replaced. The kernel then looks
        the path up again, once, and opens the inode of the new file.
        """
        others = record.contents
        is_other_file = bool(others) and any(other.lineage != content.lineage for other in others)
        if is_other_file and record.inode == node.inode and content.in_memory is None:
            record.is_replaced = True
            content.close()
            self._forget_size(record)
            raise FUSEError(errno.ESTALE)
        size = content.size
        if record.sent_size not in (size, NO_SIZE):
            # With a stale size in the kernel tar would pad and cp truncate. This makes the kernel ask before it
            # reads. Attributes only: a full invalidation waits for reads that only this daemon can answer. Once
            # only: the kernel drops an answer that it asked for before the last invalidation, and a reader who
            # waits for that answer goes on with the stale size.
            self._forget_size(record)
        identity = content.identity
        keep = record.identity is None or record.identity == identity
        # A reader of a replaced file still fills the inode's pages with the old bytes, and a reader from before
        # the file grew fills them with zeros after the old end. So readers of the new content bypass the page
        # cache, and the next open begins with an empty one.
        is_mixed = is_other_file or (bool(others) and any(other.size != size for other in others))
        if record.identity is None and size == record.sent_size and self._store is not None:
            data = content.in_memory
            if data and size <= MOST_STORED:
                self._store(record.inode, data)
        record.identity = _MIXED if is_mixed else identity
        record.contents += (content,)
        if record.attrs is None:
            record.attrs = node.attrs()
        # A read that bypasses the page cache may be short: it returns all bytes before an unreadable one.
        is_direct = is_mixed or content.has_unreadable
        self.by_handle[handle] = OpenFile(content, record, is_direct)
        return FileInfo(handle, is_direct, keep and not is_mixed)

    def _forget_size(self, record: InodeRecord) -> None:
        self._invalidate(record.inode)
        record.sent_size = NO_SIZE

    def remove(self, handle: int) -> Content:
        """Remove a file; return its content, which the caller closes."""
        content, record, _ = self.by_handle.pop(handle)
        if len(record.contents) == 1:
            record.contents = ()
            record.is_replaced = False
            if record.node is None:
                record.attrs = None
        else:
            record.contents = tuple(other for other in record.contents if other is not content)
        return content


def store_bytes(inode: int, data: bytes) -> None:
    """Put all bytes of an inode into the kernel's page cache."""
    with suppress(OSError):  # the kernel then asks for them
        pyfuse3.notify_store(inode, 0, data)


def invalidate_attributes(inode: int) -> None:
    """Make the kernel drop an inode's attributes."""
    try:
        pyfuse3.invalidate_inode(inode, attr_only=True)
    except OSError as error:
        if error.errno != errno.ENOENT:  # ENOENT: the kernel has no attributes of it
            raise
