"""A log of who read what: JSON lines, one for each stretch of a partition that a client read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from struct import unpack_from
from threading import Lock
from time import monotonic
from typing import Any

from engine.clock import SYSTEM_CLOCK
from engine.record.batch_frame import CURRENT_MAGIC, HEADER, MAGIC_POSITION
from engine.units import Offset
from kafkafs.serve.file_slice import FileSlice, Piece
from kafkafs.serve.rare_lines import RareLines

_SECONDS = 60.0
"""Time after which a stretch that a client goes on reading is a line."""
_MOST_OPEN = 100_000
"""Stretches that clients are reading; with more, all become lines."""
_FRAME = 12
"""Bytes of a batch before those that its length counts."""
_DELTA = HEADER.position_of("last_offset_delta")


class AuditError(Exception):
    """The file cannot be used."""


@dataclass(slots=True)
class _Stretch:
    """Offsets [first, end) of a partition that a client was sent, since a time on the monotonic clock."""

    first: Offset
    end: Offset
    size: int
    since: float
    who: dict[str, Any]


class Audit:
    """The open stretches of all clients, and the file; safe from several threads.

    The file is opened for each line or lines, so it may be moved away at any time.

    Args:
        path: the file; lines are appended.
        sources: absolute paths of the source.

    Raises:
        AuditError: the file is in the source, or cannot be written.
    """

    def __init__(self, path: str, sources: Iterable[str]) -> None:
        self._path = os.path.realpath(path)
        for source in sources:
            if Path(self._path).is_relative_to(os.path.realpath(source)):
                raise AuditError(f"{path} is inside the source {source}: choose another file")
        self._open: dict[str, dict[tuple[str, int], _Stretch]] = {}
        self._count = 0
        self._lock = Lock()
        self._rare = RareLines()
        try:
            self._append(b"")
        except OSError as error:
            raise AuditError(f"{path}: {error.strerror or error}") from None

    def sent(
        self, who: dict[str, Any], place: tuple[str, int], offset: Offset, pieces: Sequence[Piece]
    ) -> None:
        """Take batches that a client is sent.

        Args:
            who: the client: its address and port as "client", its user and client id.
            place: topic and partition.
            offset: the offset that it asked for.
            pieces: the bytes. Raises OSError.
        """
        end, size = _end_of(pieces, offset)
        if not size:
            return
        now, lines = monotonic(), list[bytes]()
        with self._lock:
            places = self._open.setdefault(who["client"], {})
            known = places.get(place)
            goes_on = known is not None and known.first <= offset <= known.end
            if known is not None and (not goes_on or now - known.since >= _SECONDS):
                lines.append(_line(places.pop(place), place))
                self._count -= 1
                known = None
            if known is None:
                known = places[place] = _Stretch(offset, end, 0, now, who)
                self._count += 1
            known.end = max(known.end, end)
            known.size += size
            if self._count > _MOST_OPEN:
                lines += self._all_lines()
        self._write(lines)

    def ended(self, client: str) -> None:
        """Write what a client read, whose connection has ended."""
        with self._lock:
            places = self._open.pop(client, {})
            self._count -= len(places)
        self._write([_line(stretch, place) for place, stretch in places.items()])

    def _all_lines(self) -> Iterator[bytes]:
        for places in self._open.values():
            for place, stretch in places.items():
                yield _line(stretch, place)
        self._open.clear()
        self._count = 0

    def _write(self, lines: Sequence[bytes]) -> None:
        if lines:
            try:
                self._append(b"".join(lines))
            except OSError as error:
                self._rare.warn(
                    error.errno, f"{self._path}: what clients read is not logged: {error.strerror}"
                )

    def _append(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o600)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)


def _line(stretch: _Stretch, place: tuple[str, int]) -> bytes:
    now = SYSTEM_CLOCK.now_ms() / 1000
    times = {"since": now - (monotonic() - stretch.since), "time": now}
    facts: dict[str, Any] = {
        name: datetime.fromtimestamp(each, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        for name, each in times.items()
    }
    facts |= stretch.who | {"topic": place[0], "partition": place[1]}
    facts |= {"from": stretch.first, "to": stretch.end, "bytes": stretch.size}
    return json.dumps(facts).encode() + b"\n"


def _end_of(pieces: Sequence[Piece], offset: Offset) -> tuple[Offset, int]:
    """Return one past the last offset of the whole batches in an answer, and its bytes. Raises OSError."""
    size, end = 0, offset
    for piece in pieces:
        if isinstance(piece, FileSlice):
            data = bytes(piece.file.read_at(piece.position, piece.size))
        else:
            data = bytes(piece)
        size += len(data)
        position = 0
        while position + HEADER.size <= len(data):
            base, length = unpack_from(">qi", data, position)
            following = position + _FRAME + length
            if length < 0 or following > len(data):
                break
            is_new = data[position + MAGIC_POSITION] >= CURRENT_MAGIC
            last = base + (unpack_from(">i", data, position + _DELTA)[0] if is_new else 0)
            end, position = max(end, last + 1), following
    return end, size
