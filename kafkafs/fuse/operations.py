"""The request handlers: translate the kernel's requests to the tree, and its errors to errno values.

Every handler is wrapped by `guard`. Handlers run on trio's thread, do cheap work at once and pass the rest to
SlowWork. No handler waits between filling `self._entry` and returning it: pyfuse3 copies it before another task
runs.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import pyfuse3
import trio
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, RequestContext, StatvfsData

from engine.errors import DamagedFileError, UnreadableError
from kafkafs.fuse.daemon_log import LimitedLog
from kafkafs.fuse.errnos import SILENT, errno_of
from kafkafs.fuse.guard import refusing, total
from kafkafs.fuse.inode_table import NO_SIZE, InodeRecord, InodeTable
from kafkafs.fuse.listing import FILE_TYPES, Lister, OpenDirectory
from kafkafs.fuse.pyfuse3_patches.names_only import make_name_entry
from kafkafs.fuse.slow_work import SlowWork
from kafkafs.fuse.statistics import Statistics
from kafkafs.tree.errors import Cancelled, NotADirectory, NotFound
from kafkafs.tree.node import Attrs, Content, Directory, File, Link

BLOCK_SIZE = 128 * 1024
"""st_blksize: the size that tools use for their reads."""
MAX_XATTR_BYTES = 64 * 1024
GIVE_WAY_SECONDS = 0.00005
"""Pause without the GIL for a waiting thread, which otherwise gets it only once per switch interval."""
_BY_HANDLE = frozenset({"read", "flush", "release", "fsync", "readdir", "releasedir", "fsyncdir"})
_MIXED = -1
"""Identity of pages that come from two contents; a hash is never -1."""
_WRITING = os.O_ACCMODE | os.O_TRUNC | os.O_CREAT


class _OpenFile(NamedTuple):
    """A file handle. With `is_direct` the kernel does not cache its pages."""

    content: Content
    record: InodeRecord
    is_direct: bool


class Operations(pyfuse3.Operations):
    """The request handlers over one tree."""

    def __init__(
        self,
        root: Directory,
        *,
        statistics: Statistics | None = None,
        usage: Callable[[], tuple[int, int]] | None = None,
        ttl: float | None = None,
        negative_ttl: float = 0.0,
        plus_entries: int = 512,
        read_timeout: float = 30.0,
        names_only: bool = True,
        invalidate: Callable[[int], None] | None = None,
    ) -> None:
        """Create the handlers; `attach` provides worker threads before the first request.

        Args:
            usage: returns (bytes, files) of the source for statfs; may be slow.
            ttl: cache seconds for all attributes and names, instead of the tree's values.
            negative_ttl: cache seconds for missing names, unless the tree gives a value.
            invalidate: makes the kernel drop an inode's attributes.
        """
        super().__init__()
        self.statistics = statistics or Statistics()
        self.numbers = self.statistics.operations
        self.table = InodeTable(root)
        self.log = LimitedLog()
        self.initialised = trio.Event()
        self.gives_way = False
        self._usage = usage
        self._usage_known: tuple[int, int] = (0, 0)
        self._usage_until = 0.0
        self._ttl = ttl
        self._negative_ttl = negative_ttl
        self._read_timeout = read_timeout
        name_entry = make_name_entry(pyfuse3) if names_only else None
        self.lists_names_only = name_entry is not None
        self._lister = Lister(
            self.table,
            fill=self._fill,
            failed=self._entry_failed,
            name_entry=name_entry,
            plus_entries=plus_entries,
        )
        self._invalidate = invalidate or _invalidate_attributes
        self._entry = EntryAttributes()
        self._slow: SlowWork | None = None
        self._files: dict[int, _OpenFile] = {}
        self._directories: dict[int, OpenDirectory] = {}
        self._last_handle = 0

    @property
    def open_handles(self) -> int:
        """Number of open files and folders."""
        return len(self._files) + len(self._directories)

    @property
    def known_inodes(self) -> int:
        """Number of inodes that the kernel holds."""
        return len(self.table)

    @property
    def busy_threads(self) -> int:
        """Number of busy worker threads."""
        return self._slow.busy if self._slow else 0

    def attach(self, slow: SlowWork) -> None:
        """Set the worker threads."""
        self._slow = slow

    @property
    def slow(self) -> SlowWork:
        """The worker threads."""
        assert self._slow is not None, "attach() comes before the first request"
        return self._slow

    def init(self) -> None:
        """Note that the kernel has initialised the mount, which answers from now on."""
        self.initialised.set()

    # -- errors ----------------------------------------------------------------------------------------

    def answer_to(self, error: BaseException, operation: str, args: Sequence[Any]) -> int:
        """Return the errno for an exception raised by a handler; log it unless it is expected."""
        number = errno_of(error)
        path = self._path_of(operation, args)
        if number is None:
            self.statistics.unexpected_errors += 1
            message = f"{operation} {path}: unexpected {type(error).__name__}: {error}"
            about = f"{operation} {type(error).__name__}"
            self.log.write(logging.ERROR, message, about=about, error=error)
            return errno.EIO
        if isinstance(error, Cancelled):
            self.statistics.interrupted_calls += 1
        if isinstance(error, DamagedFileError | UnreadableError):
            self.statistics.damage_answers += 1
        if operation == "readdir" and number == errno.ENOENT:
            # glibc takes ENOENT for the end of the listing: a silent gap, which rsync --delete would copy.
            number = errno.ESTALE
        if number not in SILENT:
            self.log.write(logging.WARNING, f"{operation} {path}: {error}")
        return number

    def _path_of(self, operation: str, args: Sequence[Any]) -> str:
        """Return the path of a request, as far as its first arguments show."""
        number = args[0] if args and isinstance(args[0], int) else -1
        if operation in _BY_HANDLE:
            handle = self._files.get(number) or self._directories.get(number)
            record = handle.record if handle else None
        else:
            record = self.table.get(number)
        path = record.path if record else "?"
        if operation == "lookup":
            path += "/" + args[1].decode("utf-8", "backslashreplace")
        return path or "/"

    def _entry_failed(self, error: BaseException, folder: InodeRecord, name: str) -> None:
        """Log the unexpected error of a listed entry that cannot be looked up."""
        self.answer_to(error, "lookup", (folder.inode, name.encode(errors="backslashreplace")))

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

    def _fill(self, record: InodeRecord, attrs: Attrs) -> EntryAttributes:
        """Fill the shared entry with attributes, and note in the record which size the kernel gets."""
        size = attrs.size
        if not attrs.exact and record.contents:
            # The file is open, so its size is known even if the node has lost it.
            size = record.contents[-1].size
        if record.sent_size != size:
            record.sent_size = size if record.sent_size == NO_SIZE else None
        if record.node is not None:
            record.attrs = attrs
        entry = self._entry
        entry.st_ino = record.inode
        entry.st_mode = FILE_TYPES[attrs.kind] | attrs.mode
        entry.st_nlink = attrs.nlink
        entry.st_uid = attrs.uid
        entry.st_gid = attrs.gid
        entry.st_size = size
        entry.st_blocks = (size + 511) >> 9
        entry.st_blksize = BLOCK_SIZE
        entry.st_mtime_ns = entry.st_ctime_ns = entry.st_atime_ns = attrs.mtime_ns
        entry.attr_timeout = entry.entry_timeout = attrs.ttl if self._ttl is None else self._ttl
        return entry

    def _negative(self, missing: NotFound) -> EntryAttributes:
        """Answer for a missing name, which the kernel may cache for the tree's ttl."""
        ttl = getattr(missing, "ttl", self._negative_ttl)
        if not ttl:
            raise FUSEError(errno.ENOENT)
        entry = self._entry
        entry.st_ino = 0
        entry.entry_timeout = ttl
        return entry

    @total
    def lookup(
        self, parent_inode: int, name: bytes, ctx: RequestContext
    ) -> EntryAttributes | Coroutine[Any, Any, EntryAttributes]:
        """Look up a name in a folder. A missing one may be an entry without an inode, which the kernel caches."""
        parent = self._record(parent_inode)
        if name == b"." or name == b"..":
            record = parent if name == b"." else self._record(parent.parent)
            attrs = self.table.node(record).attrs()
            record.lookups += 1
            return self._fill(record, attrs)
        directory = self._directory(parent)
        text = name.decode("utf-8", "surrogateescape")
        if getattr(directory, "slow", False):
            return self._lookup_aside(parent_inode, directory, text)
        try:
            node = directory.lookup(text)
            attrs = node.attrs()
        except NotFound as missing:
            return self._negative(missing)
        record = self.table.remember(node.path, attrs.inode, parent_inode, node)
        return self._fill(record, attrs)

    async def _lookup_aside(
        self, parent_inode: int, directory: Directory, name: str
    ) -> EntryAttributes:
        try:
            node, attrs = await self._aside(_look_up, directory, name)
        except NotFound as missing:
            return self._negative(missing)
        record = self.table.remember(node.path, attrs.inode, parent_inode, node)
        return self._fill(record, attrs)

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
        return self._fill(record, attrs)

    @total
    def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        """Return the target of a link."""
        node = self.table.node(self._record(inode))
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        return os.fsencode(node.target)

    # -- files -----------------------------------------------------------------------------------------

    @total
    def open(
        self, inode: int, flags: int, ctx: RequestContext
    ) -> FileInfo | Coroutine[Any, Any, FileInfo]:
        """Open a file for reading. From now on the kernel knows its exact size."""
        if flags & _WRITING:
            raise FUSEError(errno.EROFS)
        record = self._record(inode)
        node = self.table.node(record)
        if not isinstance(node, File):
            raise FUSEError(errno.EISDIR if isinstance(node, Directory) else errno.ELOOP)
        if node.slow:
            return self._open_aside(record, node, ctx.pid)
        return self._opened(record, node, node.open())

    async def _open_aside(self, record: InodeRecord, node: File, pid: int) -> FileInfo:
        return self._opened(record, node, await self.slow.open(node.open, pid))

    def _opened(self, record: InodeRecord, node: File, content: Content) -> FileInfo:
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
        handle = self._new_handle()
        # A read that bypasses the page cache may be short: it returns all bytes before an unreadable one.
        file = self._files[handle] = _OpenFile(content, record, is_mixed or content.has_gaps)
        return FileInfo(handle, file.is_direct, keep and not is_mixed)

    @total
    def read(self, fh: int, off: int, size: int) -> memoryview | Coroutine[Any, Any, memoryview]:
        """Read bytes of an open file."""
        file = self._files[fh]
        if (data := file.content.read_now(off, size)) is None:
            return self._read_aside(file, off, size)
        self.statistics.reads_at_once += 1
        return self._sendable(data, size)

    async def _read_aside(self, file: _OpenFile, off: int, size: int) -> memoryview:
        # Through the page cache a short read means end of file; an error makes the kernel retry page by page.
        read = file.content.read_up_to_gap if file.is_direct else file.content.read
        data = await self.slow.read(read, off, size, seconds=self._read_timeout)
        self.statistics.reads_in_threads += 1
        return self._sendable(data, size)

    def _sendable(self, data: bytes, size: int) -> memoryview:
        """Return at most `size` bytes in a type that pyfuse3 can send; a wrong type raises here."""
        view = memoryview(data)
        if len(view) > size:
            view = view[:size]
        self.statistics.bytes_read += len(view)
        return view

    @total
    def flush(self, fh: int) -> None:
        """Answer ENOSYS once; then the kernel stops sending flush, which saves a request per close."""
        raise FUSEError(errno.ENOSYS)

    @total
    def release(self, fh: int) -> None:
        """Close a file."""
        handle = self._files.pop(fh)
        record = handle.record
        if len(record.contents) == 1:
            record.contents = ()
            if record.node is None:
                record.attrs = None
        else:
            left = [content for content in record.contents if content is not handle.content]
            record.contents = tuple(left)
        if self.gives_way:
            time.sleep(GIVE_WAY_SECONDS)
        handle.content.close()

    @total
    def fsync(self, fh: int, datasync: bool) -> None:
        """Do nothing: there is nothing to write."""

    # -- folders ---------------------------------------------------------------------------------------

    @total
    def opendir(self, inode: int, ctx: RequestContext) -> int:
        """Open a folder for listing."""
        record = self._record(inode)
        directory = self._directory(record)
        handle = self._new_handle()
        self._directories[handle] = OpenDirectory(record, directory)
        return handle

    @total
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Return a page of a listing, from the entry after `start_id`."""
        listing = self._directories[fh]
        if getattr(listing.directory, "slow", False):
            entries = listing.seek(start_id)
            if listing.pending is None:
                listing.pending = await self._aside(next, entries, None)
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
        values: dict[str, bytes] = await self._aside(node.xattrs)
        return values

    @total
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        """Return the size of the source, with nothing free; refreshed after 30 seconds."""
        now = time.monotonic()
        if self._usage is not None and now >= self._usage_until:
            self._usage_until = now + 30.0
            self._usage_known = await self._aside(self._usage)
        size, files = self._usage_known
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = 4096
        answer.f_blocks = -(-size // 4096)
        answer.f_bfree = answer.f_bavail = 0
        answer.f_files = files
        answer.f_ffree = answer.f_favail = 0
        answer.f_namemax = 255
        return answer

    @total
    def access(self, inode: int, mode: int, ctx: RequestContext) -> bool:
        """Check access; not called, because the mount has default_permissions."""
        if mode & os.W_OK:
            raise FUSEError(errno.EROFS)
        return True

    # -- small things ----------------------------------------------------------------------------------

    async def _aside(self, function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        """Run function(*args) in a worker thread."""
        return await self.slow.read(function, *args, seconds=self._read_timeout)

    def _new_handle(self) -> int:
        self._last_handle += 1
        return self._last_handle


def _look_up(directory: Directory, name: str) -> tuple[Any, Attrs]:
    node = directory.lookup(name)
    return node, node.attrs()


def _invalidate_attributes(inode: int) -> None:
    try:
        pyfuse3.invalidate_inode(inode, attr_only=True)
    except OSError as error:
        if error.errno != errno.ENOENT:  # ENOENT: the kernel has no attributes of it
            raise


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
