"""The request handlers: translate the kernel's requests to the tree.

Every handler is wrapped by `guard`. Handlers run on trio's thread, do cheap work at once and pass the rest to
SlowWork. `listing`, `open_files`, `shared_entry` and `request_errors` hold the state that requests share.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import pyfuse3
import trio
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, RequestContext, StatvfsData

from kafkafs.fuse.guard import refusing, total
from kafkafs.fuse.inode_table import InodeRecord, InodeTable
from kafkafs.fuse.listing import Lister, OpenDirectory
from kafkafs.fuse.open_files import OpenFile, OpenFiles, invalidate_attributes
from kafkafs.fuse.pyfuse3_patches.names_only import make_name_entry
from kafkafs.fuse.request_errors import RequestErrors
from kafkafs.fuse.shared_entry import SharedEntry
from kafkafs.fuse.slow_work import SlowWork
from kafkafs.fuse.source_usage import LONGEST_NAME, SourceUsage, Usage
from kafkafs.fuse.statistics import Statistics
from kafkafs.tree.errors import NotADirectory, NotFound
from kafkafs.tree.node import Attrs, Directory, File, Link, Node

MAX_XATTR_BYTES = 64 * 1024
GIVE_WAY_SECONDS = 0.00005
"""Pause without the GIL for a waiting thread, which otherwise gets it only once per switch interval."""
_DOTS = frozenset((b".", b".."))
_WRITING = os.O_ACCMODE | os.O_TRUNC | os.O_CREAT


class Operations(pyfuse3.Operations):
    """The request handlers over one tree.

    Attributes:
        statistics, numbers, errors: counters, those of each handler, and the answers to errors (for `guard`).
        table: the inodes that the kernel knows.
        initialised: set when the kernel has initialised the mount.
        gives_way: whether requests let other threads run, because these cannot keep up.
        lists_names_only: whether large folders are listed without attributes.
    """

    def __init__(
        self,
        root: Directory,
        slow: SlowWork,
        *,
        usage: Callable[[], Usage] = lambda: Usage(0, 0, 0, 0, 0),
        ttl: float | None = None,
        negative_ttl: float = 0.0,
        plus_entries: int = 512,
        invalidate: Callable[[int], None] = invalidate_attributes,
        store: Callable[[int, bytes], None] | None = None,
    ) -> None:
        """Create the handlers.

        Args:
            slow: worker threads, started before the first request.
            usage: measures the source's file systems for statfs; may be slow.
            ttl, negative_ttl: see SharedEntry.
            plus_entries: number of entries of a folder that are listed with attributes.
            invalidate: makes the kernel drop an inode's attributes.
            store: puts the bytes of an inode into the kernel's page cache; None to send them on request only.
        """
        super().__init__()
        self.statistics = Statistics()
        self.numbers = self.statistics.operations
        self.table = InodeTable(root)
        self.initialised = trio.Event()
        self.gives_way = False
        self._slow = slow
        self._usage = SourceUsage(usage, slow)
        self._entry = SharedEntry(ttl=ttl, negative_ttl=negative_ttl)
        self._handles = itertools.count(1)
        self._files = OpenFiles(invalidate, store)
        self._directories: dict[int, OpenDirectory] = {}
        self.errors = RequestErrors(
            self.statistics, self.table, self._files.by_handle, self._directories
        )
        name_entry = make_name_entry(pyfuse3)
        self.lists_names_only = name_entry is not None
        self._lister = Lister(
            self.table,
            fill=self._entry.fill,
            failed=self.errors.note_entry,
            name_entry=name_entry,
            plus_entries=plus_entries,
            look_ups=lambda: self.numbers["lookup"].requests,
        )

    @property
    def open_handles(self) -> int:
        """Number of open files and folders."""
        return len(self._files.by_handle) + len(self._directories)

    @property
    def known_inodes(self) -> int:
        """Number of inodes that the kernel holds."""
        return len(self.table)

    @property
    def busy_threads(self) -> int:
        """Number of busy worker threads."""
        return self._slow.busy

    def init(self) -> None:
        """Note that the kernel has initialised the mount, which answers from now on."""
        self.initialised.set()

    # -- names and attributes --------------------------------------------------------------------------

    def _record(self, inode: int) -> InodeRecord:
        record = self.table.get(inode)
        if record is None:
            raise FUSEError(errno.ESTALE)
        return record

    def _directory(self, record: InodeRecord) -> Directory:
        node = self.table.node(record)
        if not isinstance(node, Directory):
            raise NotADirectory(record.path)
        return node

    @total
    def lookup(
        self, parent_inode: int, name: bytes, ctx: RequestContext
    ) -> EntryAttributes | Coroutine[Any, Any, EntryAttributes]:
        """Look up a name in a folder. A missing one may be an entry without an inode, which the kernel caches."""
        parent = self._record(parent_inode)
        if name in _DOTS:
            record = parent if name == b"." else self._record(parent.parent)
            attrs = self.table.node(record).attrs()
            record.lookups += 1
            return self._entry.fill(record, attrs)
        directory = parent.node
        if not isinstance(directory, Directory):
            directory = self._directory(parent)
        text = name.decode("utf-8", "surrogateescape")
        if directory.slow:
            return self._lookup_in_thread(parent_inode, directory, text, ctx.pid)
        try:
            node = directory.lookup(text)
            attrs = node.attrs()
        except NotFound:
            return self._missing(name)
        record = self.table.remember(node.path, attrs.inode, parent_inode, node)
        return self._entry.fill(record, attrs)

    def _missing(self, name: bytes) -> EntryAttributes:
        if len(name) > LONGEST_NAME:  # the kernel lets names of up to 1,024 bytes through
            raise FUSEError(errno.ENAMETOOLONG)
        return self._entry.fill_missing()

    async def _lookup_in_thread(
        self, parent_inode: int, directory: Directory, name: str, pid: int
    ) -> EntryAttributes:
        try:
            node, attrs = await self._slow.run(_look_up, directory, name, pid=pid)
        except NotFound:
            return self._missing(os.fsencode(name))
        record = self.table.remember(node.path, attrs.inode, parent_inode, node)
        return self._entry.fill(record, attrs)

    @total
    def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        """Note that the kernel has dropped inodes."""
        self.table.forget(inode_list)

    @total
    def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        """Return the attributes of an inode."""
        record = self._record(inode)
        try:
            attrs = self.table.node(record).attrs()
        except NotFound:
            if record.attrs is None or not record.contents:
                raise
            # Deleted but still open: readable to its end, as in any file system.
            size = record.contents[-1].size
            attrs = record.attrs._replace(size=size, exact=True, nlink=0)
        return self._entry.fill(record, attrs)

    @total
    def readlink(self, inode: int, ctx: RequestContext) -> bytes | Coroutine[Any, Any, bytes]:
        """Return the target of a link."""
        node = self.table.node(self._record(inode))
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        if node.slow:
            return self._readlink_in_thread(node, ctx.pid)
        return os.fsencode(node.target)

    async def _readlink_in_thread(self, node: Link, pid: int) -> bytes:
        return os.fsencode(await self._slow.open(node.find, pid))

    # -- files -----------------------------------------------------------------------------------------

    @total
    def open(
        self, inode: int, flags: int, ctx: RequestContext
    ) -> FileInfo | Coroutine[Any, Any, FileInfo]:
        """Open a file for reading. From now on the kernel knows its exact size."""
        if flags & _WRITING:
            raise FUSEError(errno.EROFS)
        record = self._record(inode)
        node = record.node
        if not isinstance(node, File):
            node = self.table.node(record)
        if not isinstance(node, File):
            raise FUSEError(errno.EISDIR if isinstance(node, Directory) else errno.ELOOP)
        if node.slow:
            return self._open_in_thread(record, node, ctx.pid)
        return self._files.add(next(self._handles), record, node, node.open())

    async def _open_in_thread(self, record: InodeRecord, node: File, pid: int) -> FileInfo:
        content = await self._slow.open(node.open, pid)
        return self._files.add(next(self._handles), record, node, content)

    @total
    def read(self, fh: int, off: int, size: int) -> memoryview | Coroutine[Any, Any, memoryview]:
        """Read bytes of an open file."""
        file = self._files.by_handle[fh]
        if (data := file.content.read_now(off, size)) is None:
            return self._read_in_thread(file, off, size)
        self.statistics.reads_at_once += 1
        return self._sendable(data, size)

    async def _read_in_thread(self, file: OpenFile, off: int, size: int) -> memoryview:
        content = file.content
        while await self._slow.wait(partial(content.notify, off, size)):
            if (data := content.read_now(off, size)) is not None:
                self.statistics.reads_at_once += 1
                return self._sendable(data, size)
        # Through the page cache a short read means end of file; an error makes the kernel retry page by page.
        read = file.content.read_up_to_unreadable if file.is_direct else file.content.read
        data = await self._slow.run(read, off, size)
        self.statistics.reads_in_threads += 1
        return self._sendable(data, size)

    def _sendable(self, data: bytes | memoryview, size: int) -> memoryview:
        """Return at most `size` bytes in a type that pyfuse3 can send; a wrong type raises here."""
        view = memoryview(data)[:size]
        self.statistics.bytes_read += len(view)
        return view

    @total
    def flush(self, fh: int) -> None:
        """Answer ENOSYS once; then the kernel stops sending flush, which saves a request per close."""
        raise FUSEError(errno.ENOSYS)

    @total
    def release(self, fh: int) -> None:
        """Close a file."""
        content = self._files.remove(fh)
        if self.gives_way:
            time.sleep(GIVE_WAY_SECONDS)
        content.close()

    @total
    def fsync(self, fh: int, datasync: bool) -> None:
        """Do nothing: there is nothing to write."""

    # -- folders ---------------------------------------------------------------------------------------

    @total
    def opendir(self, inode: int, ctx: RequestContext) -> int:
        """Open a folder for listing."""
        record = self._record(inode)
        directory = self._directory(record)
        handle = next(self._handles)
        self._directories[handle] = OpenDirectory(record, directory)
        return handle

    @total
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Return a page of a listing, from the entry after `start_id`."""
        listing = self._directories[fh]
        if listing.directory.slow:
            entries = listing.seek(start_id)
            if listing.pending is None:
                listing.pending = await self._slow.run(next, entries, None)
        self._lister.page(listing, start_id, token)

    @total
    def releasedir(self, fh: int) -> None:
        """Close a folder."""
        self._directories.pop(fh)

    @total
    def fsyncdir(self, fh: int, datasync: bool) -> None:
        """Do nothing: there is nothing to write."""

    # -- extended attributes and the whole -------------------------------------------------------------

    @total
    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        """Return an extended attribute. Names outside user.* are unsupported: `ls -l` then asks only once."""
        if not name.startswith(b"user."):
            raise FUSEError(errno.EOPNOTSUPP)
        values = await self._xattrs(inode)
        value = values.get(name.decode("utf-8", "surrogateescape"))
        if value is None:
            raise FUSEError(errno.ENODATA)
        if len(value) > MAX_XATTR_BYTES:
            raise FUSEError(errno.E2BIG)
        return bytes(value)

    @total
    async def listxattr(self, inode: int, ctx: RequestContext) -> Sequence[bytes]:
        """Return the names of the extended attributes."""
        names = sorted(await self._xattrs(inode))
        return [name.encode("utf-8", "surrogateescape") for name in names]

    async def _xattrs(self, inode: int) -> dict[str, bytes]:
        node = self.table.node(self._record(inode))
        if isinstance(node, File) and not node.slow:
            return node.xattrs()
        values: dict[str, bytes] = await self._slow.run(node.xattrs)
        return values

    @total
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        """Return the numbers of the file systems that hold the source."""
        return await self._usage.statvfs()

    @total
    def access(self, inode: int, mode: int, ctx: RequestContext) -> bool:
        """Check access; not called, because the mount has default_permissions."""
        if mode & os.W_OK:
            raise FUSEError(errno.EROFS)
        return True


def _look_up(directory: Directory, name: str) -> tuple[Node, Attrs]:
    node = directory.lookup(name)
    return node, node.attrs()


MUTATING = (
    "setattr",
    "mknod",
    "mkdir",
    "unlink",
    "rmdir",
    "symlink",
    "rename",
    "link",
    "write",
    "create",
    "setxattr",
    "removexattr",
)
"""Operations that the kernel refuses itself on a mount with `ro`; refused here as well."""
for _name in MUTATING:
    setattr(Operations, _name, refusing(_name))
