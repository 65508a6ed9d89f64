"""The files of a segment of several copies: that of one copy if it is whole, else one joined of batches of all.

Whether it is whole is proven when the file is first opened, so that a source costs nothing until records are read.
What is joined has no name: it is in memory or, if it is large, in an unlinked temporary file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from struct import pack_into
from tempfile import TemporaryFile
from threading import RLock
from typing import NamedTuple

from engine.budgets import MiB
from engine.files.source_files import SourceFile
from engine.index.position_hints import PositionHints
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import NoHints, OpenSegments, SegmentFiles
from engine.log.segment.problems import Problems
from engine.record.batch_frame import CURRENT_MAGIC, HEADER, MAGIC_POSITION
from engine.replicas.proof import Filler, Held, LackedRange, held_in
from engine.units import MAX_INT32, Offset, Position

_IN_MEMORY = 32 * MiB
_PIECE = 4 * MiB
_NO_DEVICE = -1
_numbers = count(1)


class _Part(NamedTuple):
    """Bytes of a joined file: a range of a segment's file, or `data`."""

    segment: LogSegment | None
    start: Position
    stop: Position
    data: bytes = b""

    @property
    def size(self) -> int:
        return len(self.data) if self.segment is None else self.stop - self.start


class JoinedFile(SourceFile):
    """A records file joined of several; its identity is that of what is joined."""

    __slots__ = ()

    def __init__(self, fd: int, path: str, number: int) -> None:
        super().__init__(fd, path, os.fstat(fd))
        self.device, self.inode = _NO_DEVICE, number


Fill = Callable[[LackedRange], Sequence[Filler]]
"""Returns the batches of other copies that are in a hole."""


class UnionFiles(SegmentFiles):
    """The files of one segment of a union.

    Args:
        whole: the segment of the copy that has most of it.
        first, stop: the offsets [first, stop) that the union has it for.
        agreed: the offset up to which its copy agrees with the leading one.
        fill: finds what it lacks.
        problems: receives what was filled.
    """

    __slots__ = (
        "_agreed",
        "_fill",
        "_first",
        "_lock",
        "_number",
        "_parts",
        "_stop",
        "good_end",
        "whole",
    )

    def __init__(
        self,
        whole: LogSegment,
        first: Offset,
        stop: Offset,
        agreed: Offset,
        *,
        fill: Fill,
        open_segments: OpenSegments,
        problems: Problems,
    ) -> None:
        files = whole.files
        super().__init__(
            files.root,
            files.folder,
            files.base_offset,
            open_segments=open_segments,
            problems=problems,
            name=files.name,
            keep=files.keep,
            swapped=files.swapped,
        )
        self.whole = whole
        self.good_end: Position = 0
        self._first, self._stop, self._agreed, self._fill = first, stop, agreed, fill
        self._lock = RLock()
        self._parts: list[_Part] | None = None
        self._number = 0

    @property
    def is_joined(self) -> bool:
        """Whether the file is joined of several copies. Proves the segment at the first request; raises OSError."""
        return bool(self._proven())

    @property
    def is_proven(self) -> bool:
        """Whether it is known what the segment has."""
        return self._parts is not None

    @property
    def is_proven_whole(self) -> bool:
        """Whether the segment is known to be that of one copy."""
        return self._parts is not None and not self._parts

    def status(self) -> os.stat_result:
        """Return lstat of the records file, with the size of a joined one. Proves the segment; raises OSError."""
        known = self.whole.files.status()
        parts = self._proven()
        if not parts:
            return known
        fields = list(known)
        fields[stat.ST_SIZE] = sum(part.size for part in parts)
        times = {name: getattr(known, name) for name in dir(known) if name.startswith("st_")}
        return os.stat_result(fields, times | {"st_size": fields[stat.ST_SIZE]})

    def _open_records(self) -> SourceFile:
        return self._joined() if self._proven() else self.whole.files.ensure_open().file

    def _index_hints(self) -> PositionHints:
        return NoHints(self.base_offset) if self._parts else self.whole.files.ensure_open().hints

    def _proven(self) -> list[_Part]:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = self._prove()
        return self._parts

    def _prove(self) -> list[_Part]:
        whole = self.whole
        held = held_in(whole, self._first, self._stop, self._agreed)
        if not self.keep:
            whole.close()
        filled = [(hole, self._fill(hole)) for hole in held.holes]
        self.good_end = held.end
        is_cut = held.end < whole.tail_end
        if not is_cut and not any(found for _, found in filled):
            return []
        parts = _layout(whole, held, filled)
        self.good_end = sum(part.size for part in parts)
        self._number = next(_numbers)
        return parts

    def _joined(self) -> SourceFile:
        assert self._parts is not None
        fd = _new_file(sum(part.size for part in self._parts))
        try:
            for part in self._parts:
                _copy(part, fd)
            return JoinedFile(fd, self.root.display(self.path), self._number)
        except BaseException:
            os.close(fd)
            raise


def _new_file(size: int) -> int:
    """Return the descriptor of a new file without a name; in memory if it is small or there is no other place."""
    if size > _IN_MEMORY:
        with suppress(OSError), TemporaryFile(prefix="kafkafs-") as made:
            return os.dup(made.fileno())
    return os.memfd_create("joined", os.MFD_CLOEXEC)


def _layout(
    whole: LogSegment, held: Held, filled: Sequence[tuple[LackedRange, Sequence[Filler]]]
) -> list[_Part]:
    """Return the parts of the joined file; in place of damage that nobody can fill is a header with a wrong checksum."""
    parts: list[_Part] = []
    position = 0
    for hole, found in filled:
        if not found and not hole.is_damaged:
            continue
        parts.append(_Part(whole, position, hole.start))
        expected = hole.first
        for each in found:
            if hole.is_damaged and expected < each.first:
                parts.append(_lost(expected, each.first))
            parts.append(_Part(each.segment, each.start, each.stop))
            expected = each.next
        if hole.is_damaged and expected < hole.next:
            parts.append(_lost(expected, hole.next))
        position = hole.stop
    parts.append(_Part(whole, position, held.end))
    return [part for part in parts if part.size]


def _lost(first: Offset, following: Offset) -> _Part:
    """Return the header of a batch of lost offsets, whose checksum is wrong: readers meet it as damage."""
    data = bytearray(HEADER.size)
    records = min(following - first, MAX_INT32)
    pack_into(">qii", data, 0, first, HEADER.size - 12, -1)
    data[MAGIC_POSITION] = CURRENT_MAGIC
    pack_into(">I", data, HEADER.position_of("crc"), 0xDEADBEEF)
    pack_into(">i", data, HEADER.position_of("last_offset_delta"), records - 1)
    pack_into(">i", data, HEADER.position_of("record_count"), records)
    return _Part(None, 0, 0, bytes(data))


def _copy(part: _Part, fd: int) -> None:
    if part.segment is None:
        _write(fd, part.data)
        return
    file, position = part.segment.file, part.start
    while position < part.stop:
        data = file.read_at(position, min(_PIECE, part.stop - position))
        if not data:
            raise OSError(f"{file.path} is shorter than it was")
        _write(fd, data)
        position += len(data)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
