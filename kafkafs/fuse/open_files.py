"""The open files, and which of them the kernel may cache.

The kernel has one page cache for an inode, and one size. Two readers of a file that was replaced or has grown in
between see different bytes, and must not see each other's.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

import pyfuse3
from pyfuse3 import FileInfo

from kafkafs.fuse.inode_table import NO_SIZE, InodeRecord
from kafkafs.tree.node import Content, File

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
    """

    def __init__(self, invalidate: Callable[[int], None]) -> None:
        self._invalidate = invalidate
        self.by_handle: dict[int, OpenFile] = {}

    def add(self, handle: int, record: InodeRecord, node: File, content: Content) -> FileInfo:
        """Add a file that was just opened; return the kernel's orders for its cache."""
        if content.size != record.sent_size:
            # With a stale size in the kernel tar would pad and cp truncate. This makes the kernel ask before it
            # reads. Attributes only: a full invalidation waits for reads that only this daemon can answer.
            self._invalidate(record.inode)
            record.sent_size = NO_SIZE
        identity = content.identity
        keep = record.identity is None or record.identity == identity
        # A reader of a replaced file still fills the inode's pages with the old bytes, and a reader from before
        # the file grew fills them with zeros after the old end. So readers of the new content bypass the page
        # cache, and the next open begins with an empty one.
        is_mixed = any(
            other.lineage != content.lineage or other.size != content.size
            for other in record.contents
        )
        record.identity = _MIXED if is_mixed else identity
        record.contents += (content,)
        if record.attrs is None:
            record.attrs = node.attrs()
        # A read that bypasses the page cache may be short: it returns all bytes before an unreadable one.
        is_direct = is_mixed or content.has_unreadable
        self.by_handle[handle] = OpenFile(content, record, is_direct)
        return FileInfo(handle, is_direct, keep and not is_mixed)

    def remove(self, handle: int) -> Content:
        """Remove a file; return its content, which the caller closes."""
        content, record, _ = self.by_handle.pop(handle)
        if len(record.contents) == 1:
            record.contents = ()
            if record.node is None:
                record.attrs = None
        else:
            record.contents = tuple(other for other in record.contents if other is not content)
        return content


def invalidate_attributes(inode: int) -> None:
    """Make the kernel drop an inode's attributes."""
    try:
        pyfuse3.invalidate_inode(inode, attr_only=True)
    except OSError as error:
        if error.errno != errno.ENOENT:  # ENOENT: the kernel has no attributes of it
            raise
