"""The adapter between the kernel's requests and the tree: inode numbers and attributes in, errno values out.

Every handler is total, see `guard`. Handlers run on trio's thread, do what is cheap at once and give the
rest to SlowWork. Between taking `self._entry` and returning it no handler waits: pyfuse3 copies it before
another task runs.
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
from kafkafs.fuse.inode_table import NOTHING_TOLD, InodeRecord, InodeTable
from kafkafs.fuse.listing import FILE_TYPES, Lister, OpenDirectory
from kafkafs.fuse.pyfuse3_patches.names_only import make_name_entry
from kafkafs.fuse.slow_work import SlowWork
from kafkafs.fuse.statistics import Statistics
from kafkafs.tree.errors import Cancelled, NotADirectory, NotFound
from kafkafs.tree.node import Attrs, Content, Directory, File, Link

BLOCK_SIZE = 128 * 1024
"""st_blksize: what tools that ask for it read at once."""
MAX_XATTR_BYTES = 64 * 1024
GIVE_WAY_SECONDS = 0.00005
"""A pause without the GIL for a thread that else would get it once in a switch interval."""
_BY_HANDLE = frozenset({"read", "flush", "release", "fsync", "readdir", "releasedir", "fsyncdir"})
_MIXED = -1
"""The identity of pages that stem from two files; a hash is never -1."""
_WRITING = os.O_ACCMODE | os.O_TRUNC | os.O_CREAT


class _OpenFile(NamedTuple):
    """A file handle; `is_direct`: the kernel keeps no pages of it."""

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
        """Make the handlers; `attach` gives them their threads before the first request.

        Args:
            usage: (bytes, files) of the source for statfs; may take long.
            ttl: seconds for all attributes and names, instead of what the tree says.
            negative_ttl: seconds for names that are not there, where the tree says nothing of it.
            invalidate: makes the kernel forget an inode's attributes.
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
        """Open files and folders."""
        return len(self._files) + len(self._directories)

    @property
    def known_inodes(self) -> int:
        """Inodes that the kernel holds."""
        return len(self.table)

    @property
    def busy_threads(self) -> int:
        """Worker threads at work."""
        return self._slow.busy if self._slow else 0

    def attach(self, slow: SlowWork) -> None:
        """Give the handlers their worker threads."""
        self._slow = slow

    @property
    def slow(self) -> SlowWork:
        """The worker threads."""
        assert self._slow is not None, "attach() comes before the first request"
        return self._slow

    def init(self) -> None:
        """The kernel has said hello: the mount answers from here on."""
        self.initialised.set()

    # -- errors ----------------------------------------------------------------------------------------

    def answer_to(self, error: BaseException, operation: str, args: Sequence[Any]) -> int:
        """The errno for an error that a handler met; written to the log where it is news."""
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
        """The path that a request is about, as far as its first arguments tell."""
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
        """A listed entry that cannot be looked up, and not for a reason that anyone foresaw."""
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
        """The shared entry with these attributes; what the kernel is told is noted in the record."""
        size = attrs.size
        if not attrs.exact and record.contents:
            # Opened, so the size is known, whatever the node has meanwhile forgotten.
            size = record.contents[-1].size
        if record.told_size != size:
            record.told_size = size if record.told_size == NOTHING_TOLD else None
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
        """The answer «not there», kept by the kernel as long as the tree is sure of it."""
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
        """A name in a folder; an absent one may be an entry without inode, which the kernel keeps."""
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
        """The kernel has dropped inodes."""
        self.table.forget(inode_list)

    @total
    def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        """Attributes of an inode."""
        record = self._record(inode)
        try:
            attrs = self.table.node(record).attrs()
        except NotFound:
            if record.attrs is None or not record.contents:
                raise
            # Deleted, and still open: it can be read to its end, as anywhere.
            size = record.contents[-1].size
            attrs = record.attrs._replace(size=size, exact=True, nlink=0)
        return self._fill(record, attrs)

    @total
    def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        """A link's target."""
        node = self.table.node(self._record(inode))
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        return os.fsencode(node.target)

    # -- files -----------------------------------------------------------------------------------------

    @total
    def open(
        self, inode: int, flags: int, ctx: RequestContext
    ) -> FileInfo | Coroutine[Any, Any, FileInfo]:
        """Open a file to read; from here on the kernel knows its exact size."""
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
        if content.size != record.told_size:
            # With the stale size in the kernel tar would pad and cp cut; this makes it ask before it
            # reads. Attributes only: a full invalidation waits for reads that only we can answer.
            self._invalidate(record.inode)
            record.told_size = NOTHING_TOLD
        identity = content.identity
        keep = record.identity is None or record.identity == identity
        # Who reads a file that was replaced meanwhile goes on filling the inode's pages with the old bytes,
        # and who reads one as it was before it grew with zeros behind its old end: readers of the new one
        # pass the page cache by, and the next to open it begins with an empty one.
        is_mixed = any(
            other.lineage != content.lineage or other.size != content.size
            for other in record.contents
        )
        record.identity = _MIXED if is_mixed else identity
        record.contents += (content,)
        if record.attrs is None:
            record.attrs = node.attrs()
        handle = self._new_handle()
        # Past the page cache a read may end early: a reader gets all bytes before one that cannot be read.
        file = self._files[handle] = _OpenFile(content, record, is_mixed or content.has_gaps)
        return FileInfo(handle, file.is_direct, keep and not is_mixed)

    @total
    def read(self, fh: int, off: int, size: int) -> memoryview | Coroutine[Any, Any, memoryview]:
        """Bytes of an open file."""
        file = self._files[fh]
        if (data := file.content.read_now(off, size)) is None:
            return self._read_aside(file, off, size)
        self.statistics.reads_at_once += 1
        return self._sendable(data, size)

    async def _read_aside(self, file: _OpenFile, off: int, size: int) -> memoryview:
        # In the page cache a short read is a file's end; an error makes the kernel ask page by page.
        read = file.content.read_up_to_gap if file.is_direct else file.content.read
        data = await self.slow.read(read, off, size, seconds=self._read_timeout)
        self.statistics.reads_in_threads += 1
        return self._sendable(data, size)

    def _sendable(self, data: bytes, size: int) -> memoryview:
        """No more than was asked for, in a shape that pyfuse3 can send: it raises here, not there."""
        view = memoryview(data)
        if len(view) > size:
            view = view[:size]
        self.statistics.bytes_read += len(view)
        return view

    @total
    def flush(self, fh: int) -> None:
        """Answered once, then the kernel leaves it out: a request less for each close."""
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
        """Nothing is ever unwritten."""

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
        """A page of a listing, from the entry behind `start_id` on."""
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
        """Nothing is ever unwritten."""

    # -- extended attributes and the whole -------------------------------------------------------------

    @total
    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        """An extended attribute. Others than user.* are «not supported»: `ls -l` asks once, not per file."""
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
        """The names of the extended attributes."""
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
        """The size of the source, nothing free; asked again after half a minute."""
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

    def forget_usage(self) -> None:
        """Make the next statfs ask the source again."""
        self._usage_until = 0.0

    @total
    def access(self, inode: int, mode: int, ctx: RequestContext) -> bool:
        """Never asked, as the mount has default_permissions."""
        if mode & os.W_OK:
            raise FUSEError(errno.EROFS)
        return True

    # -- small things ----------------------------------------------------------------------------------

    async def _aside(self, function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        """function(*args) in a worker thread."""
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
        if error.errno != errno.ENOENT:  # the kernel has no attributes of it: just as well
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
"""The kernel refuses these itself on a mount with `ro`; here they are refused once more."""
for _name in MUTATING:
    setattr(Operations, _name, refusing(_name))
