"""Find and remember the bytes that a device cannot read, and read around them.

A failing disk takes seconds for each read that fails. So the ends of an unreadable stretch are
searched once, with few reads, and remembered by device and inode while the process runs. A read
that touches a remembered stretch raises at once and does not ask the device again.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right, insort
from collections.abc import Iterator
from threading import Lock
from time import sleep
from typing import NamedTuple, Protocol

from engine.errors import STORE_FAILURES, UnreadableError

MEDIA_ERRORS = frozenset(
    {
        errno.EIO,
        errno.ENODATA,
        errno.EREMOTEIO,
        errno.EBADMSG,
        errno.EUCLEAN,
        errno.EILSEQ,
        errno.ETIMEDOUT,
        *STORE_FAILURES,
    }
)
"""Errnos of drivers, file systems and stores for a bad medium or a bad checksum of the file system."""

FILLER = b"\xff"
BLOCK = 512
PAGE = 4096
_LARGEST_READ = 1 << 20
_PATIENCE = 256
"""Failed reads of one device in a row after which the rest of a file is given up without further reads."""
_MOST_PASSING = 20
"""Most failures of a file that do not recur, after which further ones are errors."""
_PAUSES = (0.02, 0.1)
"""Seconds before each further try of a block that failed."""
_MOST_TRIES = 16
"""Failed reads of one device in a row after which a failing block is not tried again."""
_STRETCHES_A_STEP = 256
"""After this many stretches in one file, the first step behind the next one is twice as large."""
_MOST_DOUBLINGS = 14


class Stretch(NamedTuple):
    """Bytes [position, position + length) of a file that cannot be read, the errno of the attempt, and its cause if
    that tells more.
    """

    position: int
    length: int
    errno: int
    cause: str = ""

    @property
    def end(self) -> int:
        """First byte after the stretch."""
        return self.position + self.length

    @property
    def reason(self) -> str:
        """Sentence with position and length of the stretch."""
        return UnreadableError.sentence(*self)


class Stretches:
    """Stretches of one file, in order and without overlaps; readers need no lock."""

    __slots__ = ("_sorted",)

    def __init__(self) -> None:
        self._sorted: tuple[Stretch, ...] = ()

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, stretch: Stretch) -> None:
        """Add a stretch unless it is there."""
        if stretch not in self._sorted:
            stretches = list(self._sorted)
            insort(stretches, stretch)
            self._sorted = tuple(stretches)

    def first_in(self, position: int, end: int) -> Stretch | None:
        """Return the first stretch that touches [position, end)."""
        stretches = self._sorted
        place = bisect_right(stretches, position, key=lambda each: each.end)
        found = stretches[place] if place < len(stretches) else None
        return found if found is not None and found.position < end else None

    def last_before(self, position: int) -> Stretch | None:
        """Return the last stretch that ends at or before a position."""
        place = bisect_right(self._sorted, position, key=lambda each: each.end)
        return self._sorted[place - 1] if place else None

    def all_in(self, position: int, end: int) -> tuple[Stretch, ...]:
        """Return all stretches that touch [position, end)."""
        stretches = self._sorted
        first = bisect_right(stretches, position, key=lambda each: each.end)
        last = first
        while last < len(stretches) and stretches[last].position < end:
            last += 1
        return stretches[first:last]


class UnreadableFile:
    """Known unreadable stretches of one file; safe from several threads.

    Attributes:
        ctime_ns: ctime of the file at its first failed read.
        stretches: the stretches found so far.
    """

    __slots__ = ("_device", "_lock", "_passing", "ctime_ns", "stretches")

    def __init__(self, device: _Device, ctime_ns: int) -> None:
        self._device = device
        self._lock = Lock()
        self._passing = 0
        self.ctime_ns = ctime_ns
        self.stretches = Stretches()

    def find(self, fd: int, size: int, position: int, end: int, number: int) -> Stretch | None:
        """Return the first unreadable stretch of [position, end), after a read failed with errno `number`.

        `size` is that of the file.

        None when the device can read all of it now.
        """
        with self._lock:
            found = self.stretches.first_in(position, end)
            if found is None:
                found = _Search(fd, size, self.stretches, self._device, number).run(position, end)
                if found is not None:
                    self.stretches.add(found)
            return found

    def is_worth_another_try(self) -> bool:
        """Return whether to retry a read that failed without an unreadable stretch; limited per file."""
        self._passing += 1
        return self._passing < _MOST_PASSING


class _Device:
    """Number of reads of a device that failed in a row."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = 0


class _Search:
    """Search for the ends of one unreadable stretch."""

    def __init__(self, fd: int, size: int, known: Stretches, device: _Device, number: int) -> None:
        self._fd = fd
        self._size = size
        self._known = known
        self._device = device
        self._errno = number

    def run(self, position: int, end: int) -> Stretch | None:
        size = self._size
        end = min(end, size)
        if position >= end:
            return None
        first = self._first_failing(position, end)
        if first is None:
            return None
        start = self._near_edge(first)
        after = self._known.first_in(first, size)
        stop = self._far_edge(first, size if after is None else after.position)
        return Stretch(start, stop - start, self._errno)

    def _read(self, position: int, size: int) -> int:
        """Return the number of bytes read; -1 when the read fails."""
        try:
            got = len(os.pread(self._fd, size, position))
        except OSError as error:
            if error.errno not in MEDIA_ERRORS:
                raise
            self._errno = error.errno or self._errno
            self._device.failures += 1
            return -1
        self._device.failures = 0
        return got

    def _read_at_last(self, block: int) -> int:
        """Read a failing block a few times more; return as `_read` does."""
        for pause in _PAUSES:
            if self._device.failures >= _MOST_TRIES:
                break
            sleep(pause)
            got = self._read(block, BLOCK)
            if got >= 0:
                return got
        return -1

    def _can_read(self, block: int) -> bool:
        return self._read(block, BLOCK) >= 0

    def _first_failing(self, position: int, end: int) -> int | None:
        """Return the start of the first unreadable block from `position` on; None without one."""
        low, high, size = position - position % BLOCK, end, BLOCK
        while low < end:
            got = self._read(low, size)
            if got < 0 and size == BLOCK:
                got = self._read_at_last(low)
                if got < 0:
                    return low - low % BLOCK
            if got < 0:  # some block of [low, high) fails, and all before `low` can be read
                high = low + size
            elif got < size:  # a short read: the failing block comes next, or the file ends here
                low, high, size = low + got, end, BLOCK
                if not got:
                    return None
                continue
            else:
                low += got
                high = end if low >= high else high
            size = max(min((high - low) // 2, _LARGEST_READ) // BLOCK * BLOCK, BLOCK)
        return None

    def _near_edge(self, first: int) -> int:
        """Return the start of the stretch of a failing block; the bytes before the block were not read yet."""
        before = self._known.last_before(first)
        limit = 0 if before is None else before.end
        page = first - first % PAGE
        bad, probe, step = first, page, BLOCK
        if probe == first:
            probe, step = page - BLOCK, PAGE
        while probe > limit:
            if self._device.failures >= _PATIENCE:
                return bad
            if self._can_read(probe):
                return self._edge(bad, probe)
            bad, probe, step = probe, page - step, max(2 * step, PAGE)
        return self._edge(bad, limit) if limit < bad and self._can_read(limit) else limit

    def _far_edge(self, first: int, limit: int) -> int:
        """Return the end of the stretch: growing steps to a readable block, then a binary search."""
        if self._device.failures >= _PATIENCE:
            return limit
        step = PAGE << min(len(self._known) // _STRETCHES_A_STEP, _MOST_DOUBLINGS)
        bad, probe = first, first - first % PAGE + step
        while probe < limit and not self._can_read(probe):
            bad, probe = probe, probe + step
            step *= 2
        if probe < limit:
            return self._edge(bad, probe)
        last = (limit - 1) // BLOCK * BLOCK
        return self._edge(bad, last) if last > bad and self._can_read(last) else limit

    def _edge(self, bad: int, good: int) -> int:
        """Return the border between a failing block and a readable one on either side, by binary search."""
        while abs(good - bad) > BLOCK:
            middle = (bad + good) // 2 // BLOCK * BLOCK
            if self._can_read(middle):
                good = middle
            else:
                bad = middle
        return max(bad, good)


class UnreadableFiles:
    """Unreadable stretches of all files with failed reads; safe from several threads.

    When a file's ctime differs, its stretches are forgotten: it may be another file with the same
    inode, or the bad blocks may have been rewritten.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._devices: dict[int, _Device] = {}
        self._files: dict[tuple[int, int], UnreadableFile] = {}

    def known(self, status: os.stat_result) -> UnreadableFile | None:
        """Return the known stretches of a file; None when no read of it has failed."""
        found = self._files.get((status.st_dev, status.st_ino)) if self._files else None
        return found if found is not None and found.ctime_ns == status.st_ctime_ns else None

    def of(self, status: os.stat_result) -> UnreadableFile:
        """Return the known stretches of a file with a failed read, a new object for the first."""
        with self._lock:
            found = self.known(status)
            if found is None:
                device = self._devices.setdefault(status.st_dev, _Device())
                found = UnreadableFile(device, status.st_ctime_ns)
                self._files[status.st_dev, status.st_ino] = found
            return found

    @property
    def are_met(self) -> bool:
        """Whether any file has an unreadable stretch."""
        return any(len(file.stretches) for file in self._files.values())

    def forget(self) -> None:
        """Forget everything: the next reads ask the devices again."""
        with self._lock:
            self._devices, self._files = {}, {}


UNREADABLE_FILES = UnreadableFiles()
"""The stretches that this process knows."""


class ReadsAt(Protocol):
    """Protocol of SourceFile's positioned read."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`. Raises UnreadableError."""


def readable_parts(file: ReadsAt, position: int, size: int) -> Iterator[bytes | Stretch]:
    """Yield the bytes [position, position + size) of a file in order: readable bytes and unreadable stretches.

    The parts are adjacent. A stretch is yielded whole, so the first may begin before `position` and
    the last may end after the range. Ends at the end of the file.
    """
    stop = end = position + size
    while position < end:
        try:
            data = file.read_at(position, stop - position)
        except UnreadableError as error:
            if error.position > position:
                stop = error.position
                continue
            bad = stretch_of(error)
            yield bad
            position, stop = bad.end, end
            continue
        if data:
            yield data
        position += len(data)
        if position < stop:
            return
        stop = end


def stretch_of(error: UnreadableError) -> Stretch:
    """Return the stretch that an error names."""
    return Stretch(error.position, error.length, error.errno or errno.EIO, error.cause)


class FilledFile:
    """A file with filler in place of unreadable stretches; no batch begins with the filler.

    Attributes:
        file: the file itself.
        met: stretches that reads have touched so far.
    """

    __slots__ = ("file", "met")

    def __init__(self, file: ReadsAt) -> None:
        self.file = file
        self.met = Stretches()

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        if not len(self.met):
            try:
                return self.file.read_at(position, size)
            except UnreadableError:
                pass
        parts: list[bytes] = []
        at, end = position, position + size
        for part in readable_parts(self.file, position, size):
            if isinstance(part, Stretch):
                self.met.add(part)
                part = FILLER * (min(part.end, end) - at)
            parts.append(part)
            at += len(part)
        return b"".join(parts)
