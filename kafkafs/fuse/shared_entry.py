"""Attributes in the form of pyfuse3: one entry, filled again for every answer.

No handler waits between filling the entry and returning it: pyfuse3 copies it before another task runs.
"""

from __future__ import annotations

import errno

from pyfuse3 import EntryAttributes, FUSEError

from kafkafs.fuse.inode_table import NO_SIZE, InodeRecord
from kafkafs.tree.node import FILE_TYPES, Attrs

BLOCK_SIZE = 128 * 1024
"""st_blksize: the size that tools use for their reads."""


class SharedEntry:
    """The entry of all answers about names and attributes.

    Args:
        ttl: cache seconds for all attributes and names, instead of the tree's values.
        negative_ttl: cache seconds for missing names; 0 if the kernel must ask each time.
    """

    def __init__(self, *, ttl: float | None, negative_ttl: float) -> None:
        self._entry = EntryAttributes()
        self._entry.st_blksize = BLOCK_SIZE
        self._same: tuple[object, ...] | None = None  # what the entry has already
        self._ttl = ttl
        self._negative_ttl = negative_ttl

    def fill(self, record: InodeRecord, attrs: Attrs) -> EntryAttributes:
        """Return the entry with attributes, and note in the record which size the kernel gets."""
        size = record.size(attrs) if record.contents else attrs.size
        if record.sent_size != size:
            record.sent_size = size if record.sent_size == NO_SIZE else None
        if record.node is not None:
            record.attrs = attrs
        entry = self._entry
        entry.st_ino = record.inode
        entry.st_size = size
        entry.st_blocks = (size + 511) >> 9
        entry.st_mtime_ns = entry.st_ctime_ns = entry.st_atime_ns = attrs.mtime_ns
        same = attrs.kind, attrs.mode, attrs.nlink, attrs.uid, attrs.gid, attrs.ttl
        if same != self._same:
            self._same = same
            entry.st_mode = FILE_TYPES[attrs.kind] | attrs.mode
            entry.st_nlink = attrs.nlink
            entry.st_uid = attrs.uid
            entry.st_gid = attrs.gid
            entry.attr_timeout = entry.entry_timeout = attrs.ttl if self._ttl is None else self._ttl
        return entry

    def fill_missing(self) -> EntryAttributes:
        """Return the entry of a missing name, for the kernel to cache. Raises FUSEError if it may not cache one."""
        if not self._negative_ttl:
            raise FUSEError(errno.ENOENT)
        entry = self._entry
        entry.st_ino = 0
        self._same = None
        entry.entry_timeout = self._negative_ttl
        return entry
