"""One reader of a mounted directory that a broker writes to: reads for some seconds, then tells what was wrong.

    python -m tests.kafka.live_reader ROOT ROLE SEED SECONDS STATE

STATE is a JSON file that the writers keep fresh: {"topic-partition": [first, one past the last acknowledged]}.
Prints {"reads": N, "failures": [...], "missing": [[partition, offset], ...]} as its last line; whether an offset
may be missing is for the caller to judge, who can ask the broker.
"""

from __future__ import annotations

import errno
import json
import os
import random
import struct
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c

FAILURES_KEPT = 20
MARKER_SIZE = 6  # the value of a record that ends a transaction
GROWING = ("steady-0", "steady-1", "txn-0")
PAUSE = float(os.environ.get("KAFKAFS_LIVE_PAUSE") or 0.002)
"""Seconds between two reads."""
_FRAME = struct.Struct(">qi")


class Reader:
    """What all roles share: where to read, what is known to be there, and the findings."""

    def __init__(self, root: Path, seed: int, state: Path) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.reads = 0
        self.failures: list[str] = []
        self.missing: list[tuple[str, int]] = []
        self._state = state

    def partitions(self) -> list[str]:
        """All that the writers have written to."""
        return sorted(self.known())

    def known(self) -> dict[str, list[int]]:
        """First offset and one past the last acknowledged one, by partition."""
        found: dict[str, list[int]] = json.loads(self._state.read_text(encoding="utf-8"))
        return found

    def offset_of(self, partition: str) -> int:
        """An offset that was acknowledged."""
        first, end = self.known()[partition]
        recent = self.random.random() < 0.3
        return self.random.randrange(max(first, end - 50) if recent else first, end)

    def read(self, path: str) -> bytes | None:
        """A whole file; None when it is not there."""
        self.reads += 1
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """A folder's names; none when it is not there."""
        self.reads += 1
        try:
            return os.listdir(self.root / path)
        except FileNotFoundError:
            return []

    def check(self, right: bool, what: str) -> None:
        """Notes a failure."""
        if not right:
            self.failures.append(what)


def read_values(reader: Reader) -> None:
    """Single values by offset, where nothing is ever deleted and elsewhere."""
    partition = reader.random.choice(reader.partitions())
    offset = reader.offset_of(partition)
    value = reader.read(f"{partition}/offset/{offset}.value")
    if value is None:
        reader.missing.append((partition, offset))
    elif partition != "txn-0" or len(value) != MARKER_SIZE:
        reader.check(is_right(json.loads(value)), f"{partition} at {offset}: {value[:200]!r}")


def read_record_lines(reader: Reader) -> None:
    """Single record lines and small ranges."""
    partition = reader.random.choice(reader.partitions())
    offset = reader.offset_of(partition)
    many = reader.random.random() < 0.3
    name = f"{offset}+20" if many else str(offset)
    text = reader.read(f"{partition}/offset/{name}")
    if text is None:
        reader.missing.append((partition, offset))
    else:
        lines = check_lines(reader, f"{partition}/offset/{name}", text)
        reader.check(many or lines == [offset], f"{partition}/offset/{name} shows {lines}")


def read_streams(reader: Reader) -> None:
    """Whole decoded segments."""
    partition = reader.random.choice(reader.partitions())
    names = reader.names(f"{partition}/records")
    if names:
        path = f"{partition}/records/{reader.random.choice(names)}"
        check_lines(reader, path, reader.read(path) or b"")


def read_committed(reader: Reader) -> None:
    """Decoded segments without aborted transactions: a record that was to be aborted must never show."""
    for name in reader.names("txn-0/committed"):
        path = f"txn-0/committed/{name}"
        text = reader.read(path) or b""
        check_lines(reader, path, text)
        reader.check(b'"doomed":true' not in text, f"{path} shows an aborted record")


def read_segments(reader: Reader) -> None:
    """The files as they are: whole batches with the right checksums, nothing behind them."""
    partition = reader.random.choice(reader.partitions())
    for name in reader.names(f"{partition}/segments"):
        if name.endswith(".log"):
            path = f"{partition}/segments/{name}"
            check_batches(reader, path, reader.read(path) or b"")


def read_periods(reader: Reader) -> None:
    """The last seconds of a partition, cut out of the log, and its record lines."""
    now = time.time_ns() // 1_000_000
    partition = reader.random.choice(GROWING)
    period = f"{partition}/time/{now - reader.random.randrange(1, 20_000)}..{now}"
    for name in reader.names(f"{period}/log"):
        if name.endswith(".log"):
            path = f"{period}/log/{name}"
            check_batches(reader, path, reader.read(path) or b"")
    check_lines(reader, period, reader.read(f"{period}/records.jsonl") or b"")


def walk(reader: Reader) -> None:
    """Every name and its attributes."""

    def note(error: OSError) -> None:
        is_gone = isinstance(error, FileNotFoundError)
        if error.errno == errno.ESTALE:  # it went while it was listed: no silent end
            time.sleep(1.5)  # names are remembered for a second
            is_gone = not os.path.lexists(error.filename)
        reader.check(is_gone, f"listing {error.filename}: {error!r}")

    for folder, folders, files in os.walk(reader.root, onerror=note):
        for name in folders + files:
            reader.reads += 1
            try:
                os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
        if time.monotonic() > END:
            return


def follow_latest(reader: Reader) -> None:
    """`latest` is never before what was acknowledged, and can be read."""
    partition = reader.random.choice(GROWING)
    end = reader.known()[partition][1]
    latest = int(os.path.basename(os.readlink(reader.root / partition / "offset/latest")))
    text = reader.read(f"{partition}/offset/{latest}")
    reader.check(bool(text), f"{partition}/offset/{latest} is latest and not there")
    if time.monotonic() - STARTED > 2:  # acknowledged STATED_AFTER or longer ago, see the writers
        reader.check(latest >= end - 1, f"{partition}: latest is {latest}, acknowledged {end}")


ROLES: list[Callable[[Reader], None]] = [
    read_values, read_record_lines, read_streams, read_committed, read_segments, read_periods, walk, follow_latest,
]  # fmt: skip


def check_lines(reader: Reader, path: str, text: bytes) -> list[int]:
    """Lines are whole, in order, right and without errors: their offsets."""
    reader.check(not text or text.endswith(b"\n"), f"{path} ends within a line")
    offsets: list[int] = []
    for number, line in enumerate(text.splitlines()):
        try:
            row = json.loads(line)
        except ValueError as error:
            where = f"line {number} of {path}, which has {len(text)} bytes"
            reader.failures.append(f"{where}: {error}: {line[:200]!r}")
            continue
        if "error" in row:
            reader.failures.append(f"{path}: {row}")
            continue
        reader.check(not offsets or row["offset"] > offsets[-1], f"{path}: offsets go back")
        offsets.append(row["offset"])
        if "control" not in row and row["value"] is not None:
            reader.check(is_right(row["value"]), f"{path}: {line[:200]!r}")
    return offsets


def check_batches(reader: Reader, path: str, data: bytes) -> None:
    """The bytes are whole batches of magic 2 with the right checksums."""
    at = 0
    while at < len(data):
        size = 12 + _FRAME.unpack_from(data, at)[1] if len(data) - at >= 61 else 0
        if not 61 <= size <= len(data) - at:
            reader.failures.append(f"{path}: a batch is cut off at byte {at} of {len(data)}")
            return
        stated = int.from_bytes(data[at + 17 : at + 21], "big")
        reader.check(
            crc32c.crc32c(data[at + 21 : at + size]) == stated, f"{path}: checksum at {at}"
        )
        at += size


def is_right(value: Any) -> bool:
    """Whether a value is what the writers write: its text and the checksum of it."""
    return isinstance(value, dict) and zlib.crc32(value["text"].encode()) == value["sum"]


STARTED = time.monotonic()
END = float("inf")


def main(arguments: list[str]) -> None:
    """Reads until the time is over or too much is wrong."""
    global END
    root, role, seed, seconds, state = arguments
    END = STARTED + float(seconds)
    reader = Reader(Path(root), int(seed), Path(state))
    action = ROLES[int(role)]
    while time.monotonic() < END and len(reader.failures) < FAILURES_KEPT:
        try:
            action(reader)
        except Exception as error:  # noqa: BLE001
            reader.failures.append(f"{action.__name__}: {error!r}")
        time.sleep(PAUSE)
    found = {"reads": reader.reads, "failures": reader.failures, "missing": reader.missing}
    print(json.dumps({"role": action.__name__, **found}))


if __name__ == "__main__":
    main(sys.argv[1:])
