"""Small logs with something wrong in the middle."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from engine.coding.compression import CompressionType
from tests.builders import NONE, Rec, batch, write_segment

START = 1_700_000_000_000
"""Milliseconds: the timestamp of the record at offset 0; each offset is one second later."""


def records(first: int, *texts: str) -> list[Rec]:
    """Records from an offset on."""
    return [
        Rec(text.encode(), b"k", START + 1000 * (first + number))
        for number, text in enumerate(texts)
    ]


def good(name: str, base_offset: int, codec: CompressionType = NONE) -> bytes:
    """A batch of three records: name0, name1, name2."""
    texts = [f"{name}{number}" for number in range(3)]
    return batch(records(base_offset, *texts), base_offset, codec)


BEFORE = [good("a", 0), good("b", 3)]
"""Offsets 0 to 5; the damage follows, at 6 to 8."""
AFTER = [good("c", 9), good("d", 12)]
"""Offsets 9 to 14."""
AT = sum(map(len, BEFORE))
"""Where the damage is in the file."""
VICTIM = good("x", 6)
GOOD_VALUES = ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2", "d0", "d1", "d2"]
ALL_VALUES = [*GOOD_VALUES[:6], "x0", "x1", "x2", *GOOD_VALUES[6:]]


def log_dir(
    folder: Path, batches: Sequence[bytes], base_offset: int = 0, *, name: str = "t-0"
) -> Path:
    """A log dir with a partition of one segment, indexed as the batches' own headers say."""
    write_segment(folder / name, batches, base_offset, index_interval=0)
    return folder


def around(folder: Path, bad: bytes) -> Path:
    """A log dir with bytes between good batches; the indexes know nothing of them."""
    log_dir(folder, [*BEFORE, VICTIM, *AFTER])
    log = folder / "t-0" / f"{0:020}.log"
    log.write_bytes(b"".join([*BEFORE, bad, *AFTER]))
    (log.with_suffix(".index")).unlink()
    (log.with_suffix(".timeindex")).unlink()
    return folder


def behind(folder: Path, tail: bytes) -> Path:
    """A log dir with bytes after the last good batch."""
    log_dir(folder, BEFORE)
    with (folder / "t-0" / f"{0:020}.log").open("ab") as log:
        log.write(tail)
    return folder


def int32(value: int) -> bytes:
    """Big-endian, 4 bytes."""
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    """Big-endian, 8 bytes."""
    return struct.pack(">q", value)
