"""Record lines of a segment or of an offset range as one long file: exact size, any position, bounded memory.

A first pass measures the text without keeping it and leaves a mark about every 512 KiB: at which batch a
chunk of text begins. From then on any byte is found by a search among the marks and by decoding one chunk
again. Chunks are in a cache that all streams share. The text is a function of the bytes on disk, of the
options and of what was known about transactions when a chunk was measured (kept with it), so a chunk comes
out the same each time, or the file has changed and the read fails.

A log that grows extends its stream at the end: nothing that was shown changes.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from engine import kernel
from engine.budgets import Budgets
from engine.log.scan import CHUNK, BatchRun, Damage, scan
from engine.units import MAX_INT64
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.error_line import (
    QUIET_KINDS,
    damage_facts,
    error_line,
    problem_facts,
    problem_line,
)
from kafkafs.decode.failures import Cancelled, ChangedFileError

if TYPE_CHECKING:
    from engine.log.log_segment import LogSegment
    from engine.log.log_view import LogView
    from engine.source_files import SourceFile

Fates: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]] | None"

CHUNK_TEXT = 512 * 1024
"""Bytes of text after which a chunk ends."""
GROUP_TEXT = 256 * 1024
"""Bytes of text that one call of the kernel should give."""
LARGE_TEXT = 4 * 1024 * 1024
"""A batch with more text than this is cut into chunks by offset."""
KEPT_TEXT = 1024 * 1024
"""A stream up to this size is rendered when it is opened."""
CHUNKS_AHEAD = 2
JOINED_TEXT = 64 * 1024
"""A last chunk below this size is continued when the stream grows."""
MOST_FACTS = 16
MOST_PINNED = 64

OPEN_FATE = 3

_serials = itertools.count(1)


class StreamPart(NamedTuple):
    """The bytes [start, end) of a segment, whole batches but for a damaged end."""

    segment: LogSegment
    start: int
    end: int


class Chunk(NamedTuple):
    """A piece of the text and where it comes from.

    `next_offset` and `scan_end` are what the scan knew when it measured the chunk, so that it words damage
    the same way again; `fates` has a byte for each of the `rows` batches, if any mattered.
    """

    text_start: int
    text_end: int
    part: int
    start: int
    end: int
    next_offset: int
    from_offset: int
    to_offset: int
    scan_end: int
    rows: int
    fates: bytes | None


_FIELDS = 8  # of a chunk in the array: part to rows


class _Ahead:
    """Threads that decode the next chunk before it is asked for; started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], object]) -> None:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(2, thread_name_prefix="kafkafs-ahead")
            pool = self._pool
        pool.submit(work)


_ahead = _Ahead()


class LineStream:
    """The record lines of some parts of a log, in order; safe from several threads.

    Args:
        view: the log, asked for the fates of transactions.
        options: what of a record is written, and which offsets.
        parts: consecutive byte ranges; the last one may grow, and more may be added, by `grow`.
        shows_torn_tail: report a torn end of the last part (a log at rest) or keep quiet (it is being
            written).

    Attributes:
        damage: facts of the first damaged places, `damage_count` how many there are.
        has_open: some record's transaction was undecided when it was measured.
    """

    def __init__(
        self,
        view: LogView,
        options: kernel.LineOptions,
        parts: list[StreamPart],
        *,
        cache: ChunkCache,
        budgets: Budgets,
        shows_torn_tail: bool,
    ) -> None:
        self.serial = next(_serials)
        self.options = options
        self.parts = parts
        self.damage: list[dict[str, Any]] = []
        self.damage_count = 0
        self.has_open = False
        self._view = view
        self._cache = cache
        self._budgets = budgets
        self._shows_torn_tail = shows_torn_tail
        self._measuring = threading.Lock()
        self._index = threading.Lock()
        # Where the text of each chunk starts, and where the last one ends.
        self._starts = array("q", [0])
        self._chunks = array("q")
        self._fates: dict[int, bytes] = {}
        self._frontier = (0, *self._beginning(0)) if parts else (0, 0, -1)
        self._clean_end = True
        self._last_head = 0, b""
        self._ratio = 4.0
        self._files: dict[int, SourceFile] = {}
        self._identities: dict[int, tuple[int, int]] = {}
        self._pins = 0

    # -- size and growth --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of text measured so far."""
        return self._starts[-1]

    @property
    def is_measured(self) -> bool:
        """Whether the text is known to its end."""
        part, position, _ = self._frontier
        return part >= len(self.parts) - 1 and (not self.parts or position >= self.parts[-1].end)

    @property
    def unmeasured_bytes(self) -> int:
        """Bytes on disk that are not measured yet."""
        part, position, _ = self._frontier
        rest = sum(p.end - p.start for p in self.parts[part + 1 :])
        return rest + (self.parts[part].end - position if part < len(self.parts) else 0)

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk that the text comes from."""
        return sum(part.end - part.start for part in self.parts)

    def measure(self, cancel: Callable[[], bool] | None = None) -> int:
        """Make `size` the exact size of the whole text; the size.

        A small text is also rendered and cached. What was measured stays when the caller gives up.

        Raises:
            Cancelled: `cancel` said so.
            OSError, ChangedFileError: a file cannot be read.
        """
        if not self.is_measured:
            self._take_measuring(cancel)
            try:
                self._measure(cancel)
            finally:
                self._measuring.release()
            if self.size <= KEPT_TEXT:
                self.read(0, self.size)
        return self.size

    def measure_now(self, most_bytes: int) -> bool:
        """As `measure` if no other thread is at it and at most `most_bytes` of disk are to be read."""
        if self.is_measured:
            return True
        if self.unmeasured_bytes > most_bytes or not self._measuring.acquire(blocking=False):
            return False
        try:
            self._measure(None)
        finally:
            self._measuring.release()
        return True

    def grow(self, view: LogView, parts: list[StreamPart]) -> bool:
        """Go on with a newer view whose parts begin with ours; False: they do not, make a new stream."""
        with self._measuring:
            if parts == self.parts:
                self._view = view
                return True
            if not self._is_prefix_of(view, parts):
                return False
            self.parts = parts
            self._view = view
            return True

    def _is_prefix_of(self, view: LogView, parts: list[StreamPart]) -> bool:
        own = self.parts
        if not own:
            return self._restart(parts)
        if len(parts) < len(own):
            return False
        is_rewritten = view.rewrites != self._view.rewrites
        for mine, new in zip(own, parts, strict=False):
            if mine.start != new.start or not self._is_same(mine.segment, new.segment):
                return False
            if new.end != mine.end and (new.end < mine.end or mine is not own[-1]):
                return False
        if is_rewritten and not self._still_ends_as_measured(parts[len(own) - 1]):
            return False
        return parts == own or self._clean_end

    def _still_ends_as_measured(self, part: StreamPart) -> bool:
        """Whether the last batch that was measured is still there, after a log may have been cut."""
        position, head = self._last_head
        try:
            return part.segment.file.read_at(position, len(head)) == head
        except OSError:
            return False

    @staticmethod
    def _is_same(mine: LogSegment, new: LogSegment) -> bool:
        if mine.files is new.files:
            return True
        try:
            return mine.identity == new.identity
        except OSError:
            return False

    def _restart(self, parts: list[StreamPart]) -> bool:
        self.parts = parts
        if parts:
            self._frontier = (0, *self._beginning(0))
        return True

    def _take_measuring(self, cancel: Callable[[], bool] | None) -> None:
        while not self._measuring.acquire(timeout=0.05 if cancel is not None else -1):
            if cancel is not None and cancel():
                raise Cancelled

    # -- measuring --------------------------------------------------------------------------------

    def _measure(self, cancel: Callable[[], bool] | None) -> None:
        part, position, next_offset = self._frontier
        while part < len(self.parts):
            self._measure_part(part, position, next_offset, cancel)
            if part == len(self.parts) - 1:
                return
            part += 1
            position, next_offset = self._beginning(part)
            self._frontier = (part, position, next_offset)

    def _beginning(self, part: int) -> tuple[int, int]:
        """Where a part begins, and the smallest offset that may come; -1 if any may."""
        start = self.parts[part].start
        return start, -1 if start else self.parts[part].segment.base_offset

    def _measure_part(
        self, index: int, position: int, next_offset: int, cancel: Callable[[], bool] | None
    ) -> None:
        part = self.parts[index]
        if position >= part.end:
            return
        file = self._file(index)
        filling = _Filling(self, index, position, next_offset, part.end)
        self._clean_end = True
        for item in self._scan(file, position, part.end, next_offset):
            if cancel is not None and cancel():
                raise Cancelled
            if isinstance(item, Damage):
                self._clean_end = not item.skipped
                if self._is_reported(item, index):
                    filling.size += len(error_line(item))
                    self._note(damage_facts(item))
            else:
                self._clean_end = True
                self._last_head = _head_of_last(item)
                fates = self._view.fates(part.segment, item)
                self._measure_run(item, fates, filling, file.path)
        filling.close(part.end, filling.seen_next_offset)

    def _scan(
        self, file: SourceFile, start: int, end: int, next_offset: int, chunk: int = CHUNK
    ) -> Iterator[BatchRun | Damage]:
        return scan(
            file, start, end, budgets=self._budgets, chunk=chunk,
            next_offset=next_offset if next_offset >= 0 else None,
        )  # fmt: skip

    def _is_reported(self, damage: Damage, part: int) -> bool:
        if damage.kind in QUIET_KINDS:
            return False
        is_last = part == len(self.parts) - 1
        return self._shows_torn_tail or not (is_last and damage.kind == "torn_tail")

    def _note(self, facts: dict[str, Any]) -> None:
        self.damage_count += 1
        if len(self.damage) < MOST_FACTS:
            self.damage.append(facts)

    def _measure_run(self, run: BatchRun, fates: Fates, filling: _Filling, path: str) -> None:
        table = run.table
        count = len(table)
        disk = np.cumsum(table["size"], dtype=np.int64)
        row = 0
        while row < count:
            before = int(disk[row - 1]) if row else 0
            wanted = before + max(int(GROUP_TEXT / self._ratio), 1)
            last = min(max(int(disk.searchsorted(wanted, "right")), row + 1), count)
            result = kernel.lines(
                run.buffer, table, row, last, start_position=run.start_position,
                options=self.options, fates=fates, measure=True,
            )  # fmt: skip
            spent = int(disk[row + result.rows_done - 1]) - before
            self._ratio = max(result.size / max(spent, 1), 0.01)
            if result.size > LARGE_TEXT and last - row > 1:
                continue  # the ratio has grown, so the next try takes fewer batches
            done = row + result.rows_done
            end = int(table["position"][done - 1]) + int(table["size"][done - 1])
            filling.seen_next_offset = int(table["last_offset"][done - 1]) + 1
            extra = 0
            if result.problem is not None:
                at = table[result.problem.row]
                extra = len(problem_line(result.problem, at, path))
                self._note(problem_facts(result.problem, at, path))
            if fates is not None and (fates[row:done] == OPEN_FATE).any():
                self.has_open = True
            if result.size > LARGE_TEXT:
                self._measure_large(run, row, fates, filling, extra)
            else:
                filling.add(
                    result.size + extra, None if fates is None else fates[row:done], done - row
                )
                if filling.size >= CHUNK_TEXT:
                    filling.close(end, filling.seen_next_offset)
            row = done

    def _measure_large(
        self, run: BatchRun, row: int, fates: Fates, filling: _Filling, extra: int
    ) -> None:
        """Cut the text of one batch into chunks by offset."""
        table = run.table
        start = int(table["position"][row])
        end = start + int(table["size"][row])
        following = filling.seen_next_offset
        filling.close(start, filling.next_offset_at_end)
        columns = kernel.decode(
            run.buffer, table, row, row + 1,
            start_position=run.start_position, budgets=self._budgets,
        )  # fmt: skip
        cuts = _cuts(columns.offset, int(len(columns.arena) // (LARGE_TEXT // 4)) + 2)
        del columns
        own = None if fates is None else fates[row : row + 1]
        for low, high in itertools.pairwise([-1, *cuts, MAX_INT64]):
            result = kernel.lines(
                run.buffer, table, row, row + 1, start_position=run.start_position,
                options=self._narrowed(low, high), fates=fates, measure=True,
            )  # fmt: skip
            filling.add(result.size + (extra if high == MAX_INT64 else 0), own, 1)
            filling.close(end, following, from_offset=low, to_offset=high, is_cut=True)
        filling.begin(end, following)

    def _narrowed(self, low: int, high: int) -> kernel.LineOptions:
        options = self.options
        return replace(
            options,
            from_offset=max(low, options.from_offset),
            to_offset=min(high, options.to_offset),
        )

    def _commit(self, chunk: Chunk) -> None:
        """Append a measured chunk, or put it in the place of the last one that it continues."""
        with self._index:
            if chunk.text_start < self._starts[-1]:
                self._starts.pop()
                del self._chunks[-_FIELDS:]
                self._fates.pop(len(self._starts) - 1, None)
            number = len(self._starts) - 1
            if chunk.fates is not None:
                self._fates[number] = chunk.fates
            self._chunks.extend(chunk[2:10])
            self._starts.append(chunk.text_end)

    # -- reading ----------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Text [offset, offset + size) as far as it is measured.

        Raises:
            ChangedFileError: the log was truncated or rewritten since it was measured.
            OSError: a file cannot be read.
        """
        end = min(offset + size, self.size)
        pieces = []
        position = offset
        while position < end:
            chunk = self._chunk_at(position)
            text = self._text_of(chunk)
            pieces.append(text[position - chunk.text_start : end - chunk.text_start])
            position = chunk.text_end
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_now(self, offset: int, size: int) -> bytes | None:
        """As `read` when all of it is in the cache, else None."""
        end = min(offset + size, self.size)
        pieces = []
        position = offset
        while position < end:
            chunk = self._chunk_at(position)
            text = self._cache.peek(self._key(chunk))
            if text is None:
                return None
            pieces.append(text[position - chunk.text_start : end - chunk.text_start])
            position = chunk.text_end
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def prepare(self, position: int, chunks: int) -> int:
        """Have the chunks after the one at a position decoded soon; where that one ends."""
        chunk = self._chunk_at(min(position, self.size - 1))
        until = chunk.text_end
        for _ in range(chunks):
            if chunk.text_end >= self.size:
                break
            chunk = self._chunk_at(chunk.text_end)
            if self._key(chunk) not in self._cache:
                _ahead.submit(lambda chunk=chunk: self._text_of(chunk))  # type: ignore[misc]
        return until

    def chunks(self) -> Iterator[Chunk]:
        """All chunks, in order."""
        position = 0
        while position < self.size:
            chunk = self._chunk_at(position)
            yield chunk
            position = chunk.text_end

    def pin(self) -> None:
        """Keep the files open, so that the text stays readable when the log lets go of them."""
        with self._index:
            self._pins += 1
        for index in range(min(len(self.parts), MOST_PINNED)):
            self._files.setdefault(index, self._open(index))

    def unpin(self) -> None:
        """The end of a `pin`."""
        with self._index:
            self._pins -= 1
            if self._pins == 0:
                self._files = {}

    @property
    def is_pinned(self) -> bool:
        """Whether somebody reads the text."""
        return self._pins > 0

    def _key(self, chunk: Chunk) -> tuple[int, int, int]:
        return self.serial, chunk.text_start, chunk.text_end

    def _chunk_at(self, position: int) -> Chunk:
        with self._index:
            number = bisect_right(self._starts, position) - 1
            at = number * _FIELDS
            part, start, end, expected, low, high, scan_end, rows = self._chunks[at : at + _FIELDS]
            return Chunk(
                self._starts[number], self._starts[number + 1], part, start, end,
                expected, low, high, scan_end, rows, self._fates.get(number),
            )  # fmt: skip

    def _text_of(self, chunk: Chunk) -> bytes:
        return self._cache.get(self._key(chunk), lambda: self._render(chunk))

    def _render(self, chunk: Chunk) -> bytes:
        file = self._file(chunk.part)
        whole = chunk.from_offset < 0 and chunk.to_offset == MAX_INT64
        options = self.options if whole else self._narrowed(chunk.from_offset, chunk.to_offset)
        out: list[bytes] = []
        seen = 0
        read = max(chunk.end - chunk.start, 1)
        for item in self._scan(file, chunk.start, chunk.scan_end, chunk.next_offset, read):
            if isinstance(item, Damage):
                if item.position >= chunk.end:
                    break
                if self._is_reported(item, chunk.part):
                    out.append(error_line(item))
                continue
            run = _before(item, chunk.end)
            fates = None
            if chunk.fates is not None:
                fates = np.frombuffer(chunk.fates, np.uint8)[seen : seen + len(run.table)]
                seen += len(run.table)
                if len(fates) < len(run.table):
                    break  # more batches than were measured: told below
            _render_run(run, options, fates, file.path, chunk.to_offset == MAX_INT64, out)
            if item.end_position >= chunk.end:
                break
        text = b"".join(out)
        if len(text) != chunk.text_end - chunk.text_start:
            raise ChangedFileError(
                "the file has changed since it was opened",
                path=file.path,
                position=chunk.start,
                expected=f"{chunk.text_end - chunk.text_start} bytes of text",
                found=f"{len(text)} bytes",
            )
        return text

    def _file(self, index: int) -> SourceFile:
        return self._files.get(index) or self._open(index)

    def _open(self, index: int) -> SourceFile:
        file = self.parts[index].segment.file
        known = self._identities.setdefault(index, (file.device, file.inode))
        if known != (file.device, file.inode):
            raise ChangedFileError("another file has taken the name of this one", path=file.path)
        return file


class LineReader:
    """One reader's way through a stream: a reader that goes straight on finds the next chunks ready."""

    __slots__ = ("_prepared_to", "_read_to", "stream")

    def __init__(self, stream: LineStream) -> None:
        self.stream = stream
        self._read_to = 0
        self._prepared_to = 0

    def read(self, offset: int, size: int) -> bytes:
        """As LineStream.read."""
        self._prepare(offset, size)
        return self.stream.read(offset, size)

    def read_now(self, offset: int, size: int) -> bytes | None:
        """As LineStream.read_now."""
        text = self.stream.read_now(offset, size)
        if text is not None:
            self._prepare(offset, size)
        return text

    def _prepare(self, offset: int, size: int) -> None:
        stream = self.stream
        end = min(offset + size, stream.size)
        if offset != self._read_to:
            self._prepared_to = 0
        elif offset < end and end > self._prepared_to:
            self._prepared_to = stream.prepare(end, CHUNKS_AHEAD)
        self._read_to = end


class _Filling:
    """The chunk that is being measured."""

    __slots__ = (
        "_fates", "_has_fates", "_index", "_next_offset", "_rows", "_scan_end", "_start",
        "_stream", "_text_start", "seen_next_offset", "size",
    )  # fmt: skip

    def __init__(
        self, stream: LineStream, index: int, position: int, next_offset: int, scan_end: int
    ) -> None:
        self._stream = stream
        self._index = index
        self._scan_end = scan_end
        self._fates: list[bytes] = []
        self.seen_next_offset = next_offset
        self.begin(position, next_offset)
        if stream.size:
            self._continue(stream._chunk_at(stream.size - 1), position)

    def _continue(self, last: Chunk, position: int) -> None:
        """Take up the last chunk again if it is small and ends where this part goes on."""
        is_whole = last.from_offset < 0 and last.to_offset == MAX_INT64
        small = last.text_end - last.text_start < JOINED_TEXT
        if not (is_whole and small and last.part == self._index and last.end == position):
            return
        self._start, self._next_offset = last.start, last.next_offset
        self._text_start, self.size = last.text_start, last.text_end - last.text_start
        self._rows = last.rows
        if last.fates is not None:
            self._fates = [last.fates]
            self._has_fates = True
        else:
            self._fates = [bytes(last.rows)]

    @property
    def next_offset_at_end(self) -> int:
        """What a chunk that starts here and now has to expect."""
        return self.seen_next_offset

    def begin(self, position: int, next_offset: int) -> None:
        """Start an empty chunk."""
        self._start = position
        self._next_offset = next_offset
        self._text_start = self._stream.size
        self._fates = []
        self._has_fates = False
        self._rows = 0
        self.size = 0

    def add(self, size: int, fates: Fates, rows: int) -> None:
        """Count text of some more batches."""
        self.size += size
        self._rows += rows
        if fates is not None:
            self._has_fates = True
        self._fates.append(bytes(rows) if fates is None else fates.tobytes())

    def close(
        self, end: int, next_offset: int, *, from_offset: int = -1, to_offset: int = MAX_INT64,
        is_cut: bool = False,
    ) -> None:  # fmt: skip
        """Hand the chunk over and start the next one at `end`; with `is_cut` at the same place again."""
        stream = self._stream
        if self.size:
            fates = b"".join(self._fates) if self._has_fates else None
            chunk = Chunk(
                self._text_start, self._text_start + self.size, self._index, self._start, end,
                self._next_offset, from_offset, to_offset, self._scan_end, self._rows, fates,
            )  # fmt: skip
            stream._commit(chunk)
        if is_cut:
            self.begin(self._start, self._next_offset)
            return
        stream._frontier = (self._index, end, next_offset)
        self.begin(end, next_offset)


def _head_of_last(run: BatchRun) -> tuple[int, bytes]:
    """The position and the first bytes, checksum included, of a run's last batch."""
    position = int(run.table["position"][-1])
    start = position - run.start_position
    return position, bytes(run.buffer[start : start + 21])


def _before(run: BatchRun, end: int) -> BatchRun:
    """The batches of a run that start before a position."""
    if run.end_position <= end:
        return run
    return run._replace(table=run.table[run.table["position"] < end])


def _render_run(
    run: BatchRun,
    options: kernel.LineOptions,
    fates: Fates,
    path: str,
    with_problems: bool,
    out: list[bytes],
) -> None:
    """Append the text of a run's batches; what keeps a batch from being decoded whole follows its records."""
    row, count = 0, len(run.table)
    while row < count:
        result = kernel.lines(
            run.buffer, run.table, row, count, start_position=run.start_position,
            options=options, fates=fates,
        )  # fmt: skip
        out.append(result.text or b"")
        if result.problem is not None and with_problems:
            out.append(problem_line(result.problem, run.table[result.problem.row], path))
        row += result.rows_done


def _cuts(offsets: np.ndarray[Any, Any], pieces: int) -> list[int]:
    """Offsets that cut records into about equal pieces, ascending, none twice."""
    count = len(offsets)
    picks = {int(offsets[count * i // pieces]) for i in range(1, pieces)} if count else set()
    return sorted(picks)
