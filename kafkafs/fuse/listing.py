"""Directory listings in pages: small folders with attributes, large ones as names only.

An entry with attributes saves the look-up that `ls -l` would send for it, but costs the kernel a kilobyte. So the
first entries of a folder get attributes, as far as these are available quickly, and the others do not.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator

import pyfuse3
from pyfuse3 import EntryAttributes, ReaddirToken

from kafkafs.fuse.errnos import errno_of
from kafkafs.fuse.inode_table import InodeRecord, InodeTable
from kafkafs.fuse.pyfuse3_patches.names_only import NameEntry
from kafkafs.tree.node import FILE_TYPES, Attrs, Directory, Entry

PLUS_SECONDS = 0.005
"""Maximum time per page for collecting attributes; the remaining entries are names only."""


class OpenDirectory:
    """An open folder with the state of its listing, so that the next page can continue.

    Attributes:
        cookie: cookie of the last returned entry; `pending` comes next, then `entries`.
        plus: number of entries returned with attributes.
    """

    __slots__ = ("cookie", "directory", "entries", "pending", "plus", "record")

    def __init__(self, record: InodeRecord, directory: Directory) -> None:
        self.record = record
        self.directory = directory
        self.entries: Iterator[Entry] | None = None
        self.pending: Entry | None = None
        self.cookie = 0
        self.plus = 0

    def seek(self, start_id: int) -> Iterator[Entry]:
        """Return the entries after a cookie; reuses the running listing if it is at that cookie."""
        after = start_id if start_id > 2 else 0
        if self.entries is None or self.cookie != after:
            self.entries, self.pending = self.directory.entries(after), None
            self.cookie = after
            if after == 0:
                self.plus = 0
        return self.entries

    def restart(self) -> None:
        """Drop the running listing, after an error in it."""
        self.entries = self.pending = None


class Lister:
    """Fills the replies to readdir requests. `name_entry` is None if entries without attributes are unsupported."""

    def __init__(
        self,
        table: InodeTable,
        *,
        fill: Callable[[InodeRecord, Attrs], EntryAttributes],
        failed: Callable[[BaseException, InodeRecord, str], object],
        name_entry: NameEntry | None,
        plus_entries: int,
    ) -> None:
        self._table = table
        self._fill = fill
        self._failed = failed
        self._name_entry = name_entry
        self._plus_entries = plus_entries
        self._plain = EntryAttributes()

    def page(self, listing: OpenDirectory, start_id: int, token: ReaddirToken) -> None:
        """Add the entries after `start_id` that fit into one reply.

        An error after the first entry ends the page; the next request runs into it again and reports it.
        """
        if start_id <= 1 and not self._dots(listing.record, start_id, token):
            return
        entries = listing.seek(start_id)
        plus_until = time.perf_counter() + PLUS_SECONDS
        replied = False
        try:
            entry = listing.pending or next(entries, None)
            while entry is not None:
                if not self._reply(listing, entry, token, plus_until):
                    break
                replied = True
                listing.cookie = entry.cookie
                entry = next(entries, None)
        except BaseException:
            listing.restart()
            if replied:
                return
            raise
        listing.pending = entry

    def _reply(
        self, listing: OpenDirectory, entry: Entry, token: ReaddirToken, plus_until: float
    ) -> bool:
        """Add an entry to the reply. Return False if it does not fit."""
        if self._name_entry is None:
            return self._reply_plus(listing, entry, token)
        slow = listing.directory.slow
        if not slow and listing.plus < self._plus_entries and time.perf_counter() < plus_until:
            listing.plus += 1
            return self._reply_plus(listing, entry, token)
        return self._reply_name(entry, token)

    def _dots(self, record: InodeRecord, start_id: int, token: ReaddirToken) -> bool:
        """Add `.` and `..`, which do not count as look-ups. Return False if the reply is full."""
        names = ((b".", record.inode), (b"..", record.parent))
        for cookie, (name, inode) in enumerate(names, start=1):
            if cookie > start_id:
                entry = self._type_entry(inode, stat.S_IFDIR)
                if not pyfuse3.readdir_reply(token, name, entry, cookie):
                    return False
        return True

    def _type_entry(self, inode: int, mode: int) -> EntryAttributes:
        """Return an entry for a name only."""
        if self._name_entry is not None:
            return self._name_entry(inode, mode)
        entry = self._plain
        entry.st_ino, entry.st_mode = inode, mode
        entry.attr_timeout = entry.entry_timeout = 0
        return entry

    def _reply_name(self, entry: Entry, token: ReaddirToken) -> bool:
        name = entry.name.encode("utf-8", "surrogateescape")
        attributes = self._type_entry(entry.inode, FILE_TYPES[entry.kind])
        return bool(pyfuse3.readdir_reply(token, name, attributes, entry.cookie))

    def _reply_plus(self, listing: OpenDirectory, entry: Entry, token: ReaddirToken) -> bool:
        """Add an entry with attributes, which counts as a look-up; without attributes if they cannot be read."""
        name = entry.name.encode("utf-8", "surrogateescape")
        record = None
        try:
            node = listing.directory.lookup(entry.name)
            attrs = node.attrs()
            # Do not keep a file's node: a listing alone opens nothing.
            kept = node if isinstance(node, Directory) else None
            record = self._table.remember(node.path, attrs.inode, listing.record.inode, kept)
            attributes = self._fill(record, attrs)
        except BaseException as error:  # noqa: BLE001  one broken entry must not hide the others
            if record is not None:
                self._table.forget(((record.inode, 1),))
            if errno_of(error) is None:
                self._failed(error, listing.record, entry.name)
            if self._name_entry is None:
                return True  # skipped: without `name_entry` a reply needs attributes
            return self._reply_name(entry, token)
        if pyfuse3.readdir_reply(token, name, attributes, entry.cookie):
            return True
        self._table.forget(((record.inode, 1),))
        return False
