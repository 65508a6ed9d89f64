"""The open files of segments, and hints for the position of an offset.

A log may have more segments than a process has descriptors, so only those in use stay open. Segments that were
not used since the last round are closed first (CLOCK); a look-up costs one attribute write for that.
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from engine import kernel
from engine.coding.layout import Buffer
from engine.columns.batch_table import BatchRows
from engine.errors import CorruptRecordError, LimitExceededError
from engine.files.file_names import SAME_NAMES, SEGMENT_KINDS, log_file_name, offset_index_name
from engine.files.source_files import SourceFile, SourceRoot
from engine.files.unopened_file import UnopenedFile, known_status
from engine.files.unreadable import MEDIA_ERRORS
from engine.index.offset_index import ENTRY, OffsetIndex
from engine.index.position_hints import PositionHints, SmallIndexHints
from engine.index.slots import WARM_BYTES
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import Problems
from engine.units import MAX_INT32, Offset, OffsetPosition, Position

if TYPE_CHECKING:
    from engine.kernel.python import Location

SMALL_INDEX = 64 * 1024
"""An offset index up to this size is kept whole while its segment is open."""
INDEX_INTERVAL = 4096
"""Bytes between the positions that `WalkedHints` keeps."""
_MOST_PAGES = SMALL_INDEX // WARM_BYTES
"""Pages of a larger index that are kept."""
_LOOK_UP_SPAN = 1024 * 1024
"""Bytes after an index entry in which a look-up normally ends."""
_NOT_OPENED = MEDIA_ERRORS | {errno.EACCES, errno.EPERM}
_TRY_AGAIN_AFTER = 1.0
_ENTRY_AT = ENTRY.plain.unpack_from

Found = TypeVar("Found")


class _Page(NamedTuple):
    """Entries of an index in a row.

    Attributes:
        first, last: offsets of the first entry and of the last one. Offsets below `last` have their hint here.
        data: bytes of the entries.
        hints: the same entries as hints.
    """

    first: Offset
    last: Offset
    data: Buffer
    hints: SmallIndexHints


class IndexHints(PositionHints):
    """Hints of a larger offset index, which is read page by page. The pages that were read last are kept."""

    __slots__ = ("_base_offset", "_index", "_on_error", "_pages")

    def __init__(self, index: OffsetIndex, on_error: Callable[[OSError], None]) -> None:
        self._base_offset = index.base_offset
        self._index = index
        self._on_error = on_error
        self._pages: tuple[_Page, ...] = ()

    def floor(self, offset: Offset) -> OffsetPosition:
        entry = self._found(self._index.lookup, offset)
        if entry is None or entry.position < 0:
            return OffsetPosition(self._base_offset, 0)
        return entry

    def position(self, offset: Offset) -> Position:
        data = self._found(self._index.entries_around, offset)
        if data is None:
            return 0
        for page in self._pages:
            if page.data is data:
                return page.hints.position(offset)
        return self._keep(data).position(offset)

    def known_position(self, offset: Offset) -> Position | None:
        for page in self._pages:
            if page.first <= offset < page.last:
                return page.hints.position(offset)
        return None

    def _keep(self, data: Buffer) -> SmallIndexHints:
        """Keep entries instead of the oldest, and instead of those for the same offsets."""
        hints = SmallIndexHints(data, self._base_offset)
        first, last = hints.first_offset, hints.last_offset
        others = [page for page in self._pages if page.last <= first or last <= page.first]
        self._pages = (_Page(first, last, data, hints), *others[: _MOST_PAGES - 1])
        return hints

    def _found(self, look_up: Callable[[Offset], Found], offset: Offset) -> Found | None:
        try:
            return look_up(offset)
        except FileNotFoundError:  # the segment was deleted, or is about to be replaced
            return None
        except OSError as error:
            self._on_error(error)
            return None


class NoHints(PositionHints):
    """No index: every search starts at the start of the segment."""

    __slots__ = ("_start",)

    def __init__(self, base_offset: Offset) -> None:
        self._start = OffsetPosition(base_offset, 0)

    def floor(self, offset: Offset) -> OffsetPosition:
        return self._start

    def position(self, offset: Offset) -> Position:
        return 0

    def known_position(self, offset: Offset) -> Position | None:
        return 0


class WalkedHints(PositionHints):
    """Positions of batches in the active segment that were read, after those of its index.

    Safe for one thread that appends and several that read: a position is added before its offset.
    """

    __slots__ = ("_behind", "_offsets", "_positions")

    def __init__(self, behind: PositionHints) -> None:
        self._behind = behind
        self._offsets = array("q")
        self._positions = array("q")

    def append(self, base_offset: Offset, position: Position) -> None:
        """Keep the position of a batch, if it is far enough from the one before."""
        if self._positions and position - self._positions[-1] < INDEX_INTERVAL:
            return
        if self._offsets and base_offset <= self._offsets[-1]:
            return
        self._positions.append(position)
        self._offsets.append(base_offset)

    def extend(self, headers: BatchRows) -> None:
        """Keep the positions of batches in a row; the first of each 4 KiB of the file is enough."""
        row = 0
        while row < len(headers):
            header = headers[row]
            self.append(header.base_offset, header.position)
            following = (header.position // INDEX_INTERVAL + 1) * INDEX_INTERVAL
            row = bisect_left(
                range(len(headers)), following, row + 1, key=lambda row: headers[row].position
            )

    def floor(self, offset: Offset) -> OffsetPosition:
        place = bisect_right(self._offsets, offset) - 1
        if place < 0:
            return self._behind.floor(offset)
        return OffsetPosition(self._offsets[place], self._positions[place])

    def position(self, offset: Offset) -> Position:
        place = bisect_right(self._offsets, offset) - 1
        return self._behind.position(offset) if place < 0 else self._positions[place]

    def known_position(self, offset: Offset) -> Position | None:
        place = bisect_right(self._offsets, offset) - 1
        return self._behind.known_position(offset) if place < 0 else self._positions[place]


class UnreadHints(PositionHints):
    """Hints of an index that is read when one is asked for: a small segment is read without."""

    __slots__ = ("_hints", "_read")

    def __init__(self, read: Callable[[], PositionHints]) -> None:
        self._read = read
        self._hints: PositionHints | None = None

    def floor(self, offset: Offset) -> OffsetPosition:
        return self._known().floor(offset)

    def position(self, offset: Offset) -> Position:
        return self._known().position(offset)

    def known_position(self, offset: Offset) -> Position | None:
        return None if self._hints is None else self._hints.known_position(offset)

    def _known(self) -> PositionHints:
        if self._hints is None:
            self._hints = self._read()
        return self._hints


class OpenSegment:
    """The open records file of a segment, and its hints.

    Attributes:
        file: the records file.
        hints: positions of batches.
        size: size of the file when it was opened.
        in_order, sound: `orders.disordered` when no batch was known to be out of place, for a look-up and for a scan.
        was_used: whether the segment was used since the last round of `OpenSegments`.
    """

    __slots__ = ("file", "hints", "in_order", "size", "sound", "was_used")

    def __init__(self, file: SourceFile, hints: PositionHints) -> None:
        self.file = file
        self.hints = hints
        self.size = file.opened_as.st_size
        self.in_order = self.sound = -1
        self.was_used = False

    @property
    def fd(self) -> int:
        """Descriptor for calls that may read any byte of the records file; -1 if none leads to its bytes."""
        return self.file.fd

    def can_be_read(self, start: Position, end: Position) -> bool:
        """Return whether a look-up from `start` touches no unreadable stretch; asked for a file that has some."""
        return self.file.unreadable_in(start, min(start + _LOOK_UP_SPAN, end)) is None

    def locate(
        self, start: Position, end: Position, offset: Offset, scratch: bytearray, largest: int
    ) -> Location | None:
        """Locate a batch as `kernel.locate` does; return None also for wrong frames and unreadable bytes."""
        if self.file.descriptor < 0 or (self.file.unreadable and not self.can_be_read(start, end)):
            return None
        fd, reach, size = self.file.descriptor, start, None
        while reach < end:
            try:
                reach = self.file.reach(start, end, size)
                found = kernel.locate(fd, start, reach, offset, scratch, largest=largest)
                if found is not None:
                    return found
            except (CorruptRecordError, LimitExceededError):
                pass
            except OSError as error:
                if error.errno not in MEDIA_ERRORS:
                    raise
                return None
            size = 4 * (reach - start)  # a part is not all only for a stored file
        return None


class SegmentFiles:
    """The files of a segment; opened at the first use, perhaps closed between uses.

    Args:
        root, folder: the source and the folder in it.
        base_offset: base offset of the segment.
        open_segments: decides which segments stay open.
        problems: receives problems of the files.
        name: name of the records file, when it is not that of the base offset.
        keep: never close the files.
        swapped: names of complete ``.swap`` files, by the names that a start gives them.

    Opening raises FileNotFoundError, other OSError, SourceRefusedError.
    """

    __slots__ = (
        "base_offset",
        "folder",
        "keep",
        "name",
        "open_segments",
        "opened",
        "problems",
        "root",
        "swapped",
        "walked",
    )

    def __init__(
        self,
        root: SourceRoot,
        folder: str,
        base_offset: Offset,
        *,
        open_segments: OpenSegments,
        problems: Problems,
        name: str | None = None,
        keep: bool = False,
        swapped: Mapping[str, str] = SAME_NAMES,
    ) -> None:
        self.root = root
        self.folder = folder
        self.base_offset = base_offset
        self.open_segments = open_segments
        self.problems = problems
        self.name = name
        self.keep = keep
        self.swapped = swapped
        self.opened: OpenSegment | None = None
        self.walked: WalkedHints | None = None

    def relative(self, name: str) -> str:
        """Return the path in the source of a name in the log."""
        if self.swapped:
            name = self.swapped.get(name, name)
        return self.root.real(f"{self.folder}/{name}" if self.folder else name)

    @property
    def path(self) -> str:
        """Path of the records file."""
        return self.relative(self.name or log_file_name(self.base_offset))

    @property
    def index_path(self) -> str:
        """Path of the offset index."""
        return self.relative(offset_index_name(self.base_offset))

    def has_names_of(self, swapped: Mapping[str, str]) -> bool:
        """Return whether the files of the segment have the names of another listing, too."""
        known = self.swapped
        if known is swapped or not (known or swapped):
            return True
        digits = log_file_name(self.base_offset)[:20]
        names = [digits + kind.value for kind in SEGMENT_KINDS]
        return all(known.get(name) == swapped.get(name) for name in names)

    def was_renamed(self, error: OSError) -> bool:
        """Return whether the file may be gone under its ``.swap`` name only: then the other one counts from now on.

        A running broker gives it that name a moment later.
        """
        if not self.swapped or not isinstance(error, FileNotFoundError):
            return False
        self.swapped = SAME_NAMES
        return True

    def ensure_open(self) -> OpenSegment:
        """Return the open files; open them if needed."""
        opened = self.opened
        if opened is None or _may_open_now(opened.file):
            file = self._open_records()
            opened = OpenSegment(file, self.walked or self._index_hints())
            if opened.size > MAX_INT32:
                self.problems.add(
                    "too_large", self.path, "larger than Kafka can open", found=opened.size
                )
            self.opened = opened
            if not self.keep:
                self.open_segments.admit(self)
        else:
            opened.was_used = True
        return opened

    def _open_records(self) -> SourceFile:
        try:
            return self.root.open_fresh(self.path, is_listed=self.name is None)
        except OSError as error:
            if self.was_renamed(error):
                return self._open_records()
            if error.errno not in _NOT_OPENED:
                raise
            file = UnopenedFile(self.root.display(self.path), self.status(), error.errno)
            self.problems.add_error(DamageKind.UNREADABLE, self.path, file.error)
            return file

    def status(self) -> os.stat_result:
        """Return lstat of the records file, or what is known of it. Raises as `known_status` does."""
        return known_status(self.root, self.path, getattr(self.opened, "file", None))

    def let_go(self) -> None:
        """Close the files once no thread reads them; the next use opens them again."""
        self.opened = None

    def remember_places(self) -> None:
        """Keep positions of batches from now on; for the active segment, before it is opened."""
        self.walked = WalkedHints(
            self._index_hints() if self.keep else UnreadHints(self._index_hints)
        )

    def _index_hints(self) -> PositionHints:
        path = self.index_path
        try:
            file = self.root.open_fresh(path)
            size = file.opened_as.st_size
            data = file.read_at(0, size) if size <= SMALL_INDEX else None
        except FileNotFoundError:
            return NoHints(self.base_offset)  # a broker creates an index at the first append to it
        except OSError as error:
            self._note_index(error)
            return NoHints(self.base_offset)
        if size % ENTRY.size:
            self.problems.add(
                "offset_index", path, "the index does not hold whole entries", found=size
            )
            return NoHints(self.base_offset)
        if data is not None:
            return SmallIndexHints(data, self.base_offset)
        source = file if self.keep else lambda: self.root.open(path)
        return IndexHints(OffsetIndex(source, self.base_offset, path=file.path), self._note_index)

    def _note_index(self, error: OSError) -> None:
        self.problems.add_error("offset_index", self.index_path, error)


def _may_open_now(file: SourceFile) -> bool:
    """Return whether to try again to open a file that could not be opened."""
    return isinstance(file, UnopenedFile) and monotonic() - file.since > _TRY_AGAIN_AFTER


class OpenSegments:
    """The segments with open files, up to a limit; safe from several threads."""

    __slots__ = ("_lock", "_most", "_segments")

    def __init__(self, most: int = 256) -> None:
        self._most = max(most, 1)
        self._segments: deque[SegmentFiles] = deque()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._segments)

    def let_all_go(self) -> None:
        """Close the files of all segments that no thread is reading."""
        with self._lock:
            dropped, self._segments = self._segments, deque()
        for segment in dropped:
            segment.let_go()

    def admit(self, segment: SegmentFiles) -> None:
        """Add a segment that was just opened, and close others above the limit."""
        with self._lock:
            self._segments.append(segment)
            chances = 2 * len(self._segments)
            while len(self._segments) > self._most and chances:
                chances -= 1
                oldest = self._segments.popleft()
                opened = oldest.opened
                if opened is None:
                    continue
                if opened.was_used:
                    opened.was_used = False
                    self._segments.append(oldest)
                else:
                    oldest.let_go()
