"""Directory listings in pages: small folders with attributes, large ones as names only.

An entry with attributes saves the look-up that `ls -l` would send for it, but costs the kernel a kilobyte. So the
first entries of a folder get attributes, as far as these are available quickly. The others get them while names of
the folder are looked up as they are listed: each run of pages with attributes is twice as long as the one before, and
follows a page of names alone that shows whether they are still wanted.
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
_LONGEST_RUN = 64
"""Pages with attributes after which names alone are tried."""
_FEW = 32
"""Names alone that are tried."""


class OpenDirectory:
    """An open folder with the state of its listing, so that the next page can continue.

    Attributes:
        cookie: cookie of the last returned entry; `pending` comes next, then `entries`.
        plus: number of entries returned with attributes.
        demand: whether the entries after the first ones are looked up.
    """

    __slots__ = ("cookie", "demand", "directory", "entries", "pending", "plus", "record")

    def __init__(self, record: InodeRecord, directory: Directory) -> None:
        self.record = record
        self.directory = directory
        self.entries: Iterator[Entry] | None = None
        self.pending: Entry | None = None
        self.cookie = 0
        self.plus = 0
        self.demand = Demand()

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


class Demand:
    """Whether the entries of a listing are looked up, judged by the look-ups after a page of names."""

    __slots__ = ("_before", "_left", "_names", "_run")

    def __init__(self) -> None:
        self._left = self._run = self._names = self._before = 0

    def begins_page(self, look_ups: int) -> bool:
        """Return whether the next page gets attributes, by the number of look-ups so far."""
        if self._left:
            self._left -= 1
        elif self._names and 2 * (look_ups - self._before) >= self._names:
            self._run = min(max(2 * self._run, 1), _LONGEST_RUN)
            self._left = self._run - 1
        else:
            if self._names:
                self._run = 0
            self._names, self._before = 0, look_ups
            return False
        self._names = 0
        return True

    def ends_page(self, is_wanted: bool, until: float) -> bool:
        """Return whether to end a page that has an entry: for other requests, or to see if the names are looked up."""
        return (
            time.perf_counter() >= until if is_wanted else bool(self._run and self._names >= _FEW)
        )

    def add_name(self) -> None:
        """Count an entry without attributes."""
        self._names += 1


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
        look_ups: Callable[[], int],
    ) -> None:
        self._table = table
        self._fill = fill
        self._failed = failed
        self._name_entry = name_entry
        self._plus_entries = plus_entries
        self._look_ups = look_ups
        self._plain = EntryAttributes()

    def page(self, listing: OpenDirectory, start_id: int, token: ReaddirToken) -> None:
        """Add the entries after `start_id` that fit into one reply.

        An error after the first entry ends the page; the next request runs into it again and reports it.
        """
        if start_id <= 1 and not self._dots(listing.record, start_id, token):
            return
        entries = listing.seek(start_id)
        plus_until = time.perf_counter() + PLUS_SECONDS
        demand = listing.demand
        is_wanted = demand.begins_page(self._look_ups())
        replied = False
        try:
            entry = listing.pending or next(entries, None)
            while entry is not None:
                if replied and demand.ends_page(is_wanted, plus_until):
                    break
                if not self._reply(listing, entry, token, is_wanted, plus_until):
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
        self,
        listing: OpenDirectory,
        entry: Entry,
        token: ReaddirToken,
        is_wanted: bool,
        plus_until: float,
    ) -> bool:
        """Add an entry to the reply. Return False if it does not fit."""
        if self._name_entry is None:
            return self._reply_plus(listing, entry, token)
        slow = listing.directory.slow
        is_first = listing.plus < self._plus_entries and time.perf_counter() < plus_until
        if not slow and (is_wanted or is_first):
            listing.plus += 1
            return self._reply_plus(listing, entry, token)
        if not self._reply_name(entry, token):
            return False
        listing.demand.add_name()
        return True

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
