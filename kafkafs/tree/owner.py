"""Owner, group and permission bits of source folders, and the attributes of nodes derived from them."""

from __future__ import annotations

import os
from typing import NamedTuple

from kafkafs.tree.node import MAX_MTIME_NS, Attrs, Kind, inode_number


class Owner(NamedTuple):
    """Owner, group, modes and time of a source folder, for the nodes below it. Grants no more than the source."""

    uid: int
    gid: int
    directory_mode: int
    file_mode: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Owner:
        """Take them from a folder's stat."""
        mode = status.st_mode
        mtime = min(max(status.st_mtime_ns, 0), MAX_MTIME_NS)
        return cls(status.st_uid, status.st_gid, mode & 0o555, mode & 0o444, mtime)

    def directory(self, path: str, ttl: float) -> Attrs:
        """Return the attributes of a folder."""
        mode, inode = self.directory_mode, inode_number(path)
        # One link means that the folders in it are not counted. Two would mean that there are none, and programs that
        # count links would not look for them.
        return Attrs(
            Kind.DIRECTORY, mode, 0, self.mtime_ns, inode, 1, self.uid, self.gid, True, ttl
        )

    def link(self, path: str, target: str, mtime_ns: int, ttl: float) -> Attrs:
        """Return the attributes of a link."""
        size = len(target.encode("utf-8", "surrogateescape"))
        return Attrs(
            Kind.LINK, 0o777, size, mtime_ns, inode_number(path), 1, self.uid, self.gid, True, ttl
        )

    def file(self, path: str, size: int, mtime_ns: int, ttl: float, *, exact: bool = True) -> Attrs:
        """Return the attributes of a file."""
        return Attrs(
            Kind.FILE,
            self.file_mode,
            size,
            mtime_ns,
            inode_number(path),
            1,
            self.uid,
            self.gid,
            exact,
            ttl,
        )
