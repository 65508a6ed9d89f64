"""Whether a hit on a partition's file changes what a broker would do with it: worked out without the checks.

Batches are walked by their lengths alone. Indexes are searched as a broker does, zeros at their ends included, and
the answer counts, not the entry. Text files are split into words.
"""

from __future__ import annotations

import base64
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

_V2 = struct.Struct(">qiibIhiqqqhii")
_OLD = struct.Struct(">qiIbb")
_INDEX = struct.Struct(">ii")
_TIME = struct.Struct(">qi")
_TXN = struct.Struct(">hqqqq")
_MOST = 60
FAR = 1 << 62


class Row(NamedTuple):
    """A batch of a clean file."""

    position: int
    end: int
    base: int
    last: int
    max_timestamp: int
    epoch: int
    producer: int
    flags: int
    magic: int
    count: int


def rows_of(data: bytes) -> list[Row]:
    """The batches of a clean file up to zeros or the end."""
    found, at = [], 0
    while at + 17 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if length <= 0 or end > len(data):
            break
        if data[at + 16] == 2:
            _, _, epoch, _, _, flags, delta, _, largest, producer, _, _, count = _V2.unpack_from(
                data, at
            )
            row = Row(at, end, base, base + delta, largest, epoch, producer, flags, 2, count)
        else:
            time = struct.unpack_from(">q", data, at + 18)[0] if data[at + 16] == 1 else -1
            row = Row(at, end, base, base, time, -1, -1, data[at + 17], data[at + 16], 1)
        found.append(row)
        at = end
    return found


def log_changed(old: bytes, new: bytes) -> bool:
    """Whether any byte of a batch changed, or anything but zeros came behind the last."""
    rows = rows_of(old)
    used = rows[-1].end if rows else 0
    return old[:used] != new[:used] or (any(new[used:]) and new[used:] != old[used:])


class Segment(NamedTuple):
    """A segment's files: what is there of them."""

    base: int
    rows: list[Row]
    index: bytes | None
    times: bytes | None


def _floor(count: int, key: Callable[[int], int], target: int) -> int:
    """The slot that Kafka's search ends in, -1: none."""
    if not count or key(0) > target:
        return -1
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        found = key(middle)
        if found == target:
            return middle
        if found < target:
            low = middle
        else:
            high = middle - 1
    return low


def position_of(segment: Segment, offset: int) -> int:
    """Where a look-up of an offset begins to read."""
    data = segment.index or b""
    slot = _floor(
        len(data) // 8, lambda at: _INDEX.unpack_from(data, at * 8)[0], offset - segment.base
    )
    return 0 if slot < 0 else int(_INDEX.unpack_from(data, slot * 8)[1])


def _read_from(segment: Segment, position: int, fits: Callable[[Row], bool]) -> object:
    """The first batch that fits from a position on; where none begins, what is there is no batch."""
    starts = [row.position for row in segment.rows]
    place = bisect_left(starts, position)
    end = segment.rows[-1].end if segment.rows else 0
    if position != end and (place == len(starts) or starts[place] != position):
        return "garbage"
    return next((row.base for row in segment.rows[place:] if fits(row)), None)


def offset_answers(segment: Segment) -> list[object]:
    """Which batch each look-up finds."""
    found = []
    for offset in sorted({each for row in segment.rows for each in (row.base, row.last)}):

        def fits(row: Row, wanted: int = offset) -> bool:
            return row.last >= wanted

        found.append(_read_from(segment, position_of(segment, offset), fits))
    return found


def _largest(segment: Segment) -> int:
    data = segment.times or b""
    count = len(data) // 12
    return FAR if not count else int(_TIME.unpack_from(data, count * 12 - 12)[0])


def times_to_ask(*states: list[Segment]) -> list[int]:
    """Times that tell the states of some segments apart: some of all, and those near to index entries."""
    rows = [row for segment in states[0] for row in segment.rows]
    times = sorted({row.max_timestamp + more for row in rows for more in (0, 1)})
    step = max(len(times) // _MOST, 1)
    chosen = {*times[::step], *times[-3:]}
    for segment in (each for state in states for each in state):
        data = segment.times or b""
        for at in range(0, min(len(data) // 12 * 12, 1200), 12):
            place = bisect_left(times, int(_TIME.unpack_from(data, at)[0]))
            chosen.update(times[max(place - 2, 0) : place + 3])
    return sorted(chosen)


def time_answers(segments: list[Segment], times: list[int]) -> list[object]:
    """Which batch each look-up by time finds, over all segments."""
    return [_time_answer(segments, time) for time in times]


def _time_answer(segments: list[Segment], time: int) -> object:
    segment = next((each for each in segments if _largest(each) >= time), None)
    if segment is None:
        return None
    data = segment.times or b""
    slot = _floor(len(data) // 12, lambda at: _TIME.unpack_from(data, at * 12)[0], time)
    offset = segment.base
    if slot >= 0:
        offset = segment.base + _TIME.unpack_from(data, slot * 12)[1]

    def fits(row: Row) -> bool:
        return row.max_timestamp >= time and row.last >= segment.base

    return segment.base, _read_from(segment, position_of(segment, offset), fits)


def hidden(indexes: list[bytes], rows: list[Row], aborts: Mapping[int, int]) -> list[object]:
    """Which batches readers of committed records skip, for some stretches that they ask for.

    Args:
        indexes: the transaction indexes, oldest first.
        rows: all batches.
        aborts: by offset, the producer of each ABORT marker.
    """
    entries = [
        [_TXN.unpack_from(data, at) for at in range(0, len(data) // 34 * 34, 34)]
        for data in indexes
    ]
    step = max(len(rows) // 25, 1)
    found: list[object] = []
    for first in rows[::step]:
        found.extend(
            _hidden_between(entries, rows, aborts, first.base, last.last + 1)
            for last in (*rows[::step], rows[-1])
            if last.last >= first.base
        )
    return found


def _hidden_between(
    entries: list[list[tuple[int, ...]]],
    rows: list[Row],
    aborts: Mapping[int, int],
    start: int,
    stop: int,
) -> tuple[int, ...]:
    chosen = []
    for index in entries:
        for _, producer, first, last, stable in index:
            if last >= start and first < stop:
                chosen.append((first, producer))
            if stable >= stop:
                break
        else:
            continue
        break
    waiting = sorted(chosen, reverse=True)
    active: set[int] = set()
    skipped = []
    for row in rows:
        if row.last < start or row.base >= stop:
            continue
        while waiting and waiting[-1][0] <= row.last:
            active.add(waiting.pop()[1])
        if row.base in aborts:
            active.discard(aborts[row.base])
        elif row.producer in active and row.flags & 0x30 == 0x10:
            skipped.append(row.base)
    return tuple(skipped)


def aborts_of(data: bytes, rows: list[Row]) -> dict[int, int]:
    """By offset, the producer of each ABORT marker of a clean file."""
    return {
        row.base: row.producer
        for row in rows
        if row.flags & 0x30 == 0x30 and data[row.position + 68 : row.position + 70] == b"\0\0"
    }


def properties(data: bytes | None) -> dict[str, str] | None:
    """What a properties file says, without its comments; None: it is not there.

    Of an id, the bits that no byte of the UUID has are left out.
    """
    if data is None:
        return None
    stated = stated_properties(data)
    text = stated.get("directory.id", "")
    if len(text) == 22 and text.replace("-", "a").replace("_", "a").isalnum() and text.isascii():
        stated["directory.id"] = base64.urlsafe_b64decode(text + "==").hex()
    return stated


def stated_properties(data: bytes) -> dict[str, str]:
    """The lines with a property; of two with the same key the last counts."""
    lines = (line.strip() for line in data.decode("latin-1").splitlines())
    pairs = (line.partition("=") for line in lines if line.strip("\\") and line[0] not in "#!")
    return {key: value for key, _, value in pairs}


def words(data: bytes | None) -> list[list[str]] | None:
    """A text file's words, line by line; None: it is not there, or no text."""
    if data is None:
        return None
    try:
        return [line.split() for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        return [["no text"]]


def epochs(data: bytes | None, rows: list[Row]) -> object:
    """The epoch of each batch by leader-epoch-checkpoint; a text when it cannot be read."""
    lines = words(data) or []
    if len(lines) < 2 and lines in ([], [["0"]]):
        return [-1 for row in rows for _ in (0, 1) if row.magic == 2]
    try:
        entries = [(int(epoch), int(start)) for epoch, start in lines[2:]]
        if lines and (int(lines[0][0]) or int(lines[1][0]) != len(entries)):
            return "unreadable"
        if min(map(min, entries), default=0) < 0:
            return "unreadable"
    except (ValueError, IndexError):
        return "unreadable"
    return [
        max((epoch for epoch, start in entries if start <= offset), default=-1)
        for row in rows
        for offset in (row.base, row.last)
        if row.magic == 2
    ]


def offsets(data: bytes | None, name: str, number: str) -> object:
    """What an offset checkpoint says of a partition; a text when it cannot be read."""
    lines = words(data) or []
    if len(lines) < 2 and lines in ([], [["0"]]):
        return []
    try:
        entries = [(topic, int(partition), int(offset)) for topic, partition, offset in lines[2:]]
        if lines and (int(lines[0][0]) or int(lines[1][0]) != len(entries)):
            return "unreadable"
    except (ValueError, IndexError):
        return "unreadable"
    return [
        offset for topic, partition, offset in entries if (topic, partition) == (name, int(number))
    ]
