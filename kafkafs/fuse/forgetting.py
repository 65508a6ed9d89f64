"""Asks the kernel to forget inodes, so that neither it nor the daemon keeps one for every name ever seen.

Two ways. Linux 6.18 takes a list of inode numbers (FUSE_NOTIFY_PRUNE), drops the unused ones and answers with a
`forget` for each. pyfuse3 and libfuse do not support it, so the message is built here:

    u32 length, s32 code 9, u64 0 (struct fuse_out_header)
    u32 count, u32 0, u64 0 (struct fuse_notify_prune_out), count × u64

Older kernels take one name at a time (FUSE_NOTIFY_INVAL_ENTRY). That also drops a name in use, which would leave a
process in a folder without a name, so folders are not sent.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from kafkafs.fuse.inode_table import InodeRecord

_HEADER = struct.Struct("=IiQIIQ")
_NOTIFY_PRUNE = 9
AT_ONCE = 256
"""Inodes per message; the kernel allows 512."""


def prune_message(inodes: Sequence[int]) -> bytes:
    """Return the message that asks the kernel to drop inodes."""
    size = _HEADER.size + 8 * len(inodes)
    header = _HEADER.pack(size, _NOTIFY_PRUNE, 0, len(inodes), 0, 0)
    return header + struct.pack(f"={len(inodes)}Q", *inodes)


class Forgetting:
    """Asks the kernel to forget inodes. Runs in a worker thread: it may wait for answers of the request loop.

    Attributes:
        by_number: whether the kernel takes inode numbers; found out at the first use.
    """

    def __init__(self, fd: int | None, invalidate_entry: Callable[[int, bytes], None]) -> None:
        """Take `fd`, the session's /dev/fuse descriptor; None if unknown."""
        self._fd = fd
        self._invalidate_entry = invalidate_entry
        self.by_number = fd is not None

    def ask(self, records: Sequence[InodeRecord], stop: Callable[[], bool]) -> None:
        """Ask the kernel to drop all `records`, until `stop` returns True. Inodes in use stay; that is no error."""
        for start in range(0, len(records), AT_ONCE):
            if stop():
                return
            some = records[start : start + AT_ONCE]
            if not (self.by_number and self._prune([record.inode for record in some])):
                self._invalidate(some, stop)

    def _prune(self, inodes: Sequence[int]) -> bool:
        assert self._fd is not None
        try:
            os.write(self._fd, prune_message(inodes))
        except OSError:
            self.by_number = False  # a kernel before 6.18
        return self.by_number

    def _invalidate(self, records: Sequence[InodeRecord], stop: Callable[[], bool]) -> None:
        for record in records:
            if stop():
                return
            if record.is_folder:
                continue
            name = record.path.rpartition("/")[2].encode("utf-8", "surrogateescape")
            with suppress(OSError):  # already dropped by the kernel
                self._invalidate_entry(record.parent, name)
