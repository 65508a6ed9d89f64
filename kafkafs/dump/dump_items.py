"""Items of a dump, in file order: text, complaints and counts.

Several threads or processes make them; `DumpReport.take` writes and counts them in order.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from engine.units import Offset
from kafkafs.dump.findings import Contradiction


class Begun(NamedTuple):
    """The next items are about this file.

    Attributes:
        shown: path as the operator named it, or as it was found.
    """

    shown: str


class Complaint(NamedTuple):
    """A line on standard error.

    Attributes:
        is_finding: whether it is about damage.
    """

    text: str
    is_finding: bool = True


class Contradicted(NamedTuple):
    """A contradiction in the index with an absolute path."""

    path: str
    found: Contradiction


class Followed(NamedTuple):
    """Offsets of some records of a file that follow each other.

    Attributes:
        path: absolute path of the file.
        first, last: the first and the last offset.
        gaps: each offset among them that another one than the next follows, and its successor.
    """

    path: str
    first: Offset
    last: Offset
    gaps: list[tuple[Offset, Offset]]


class Tally(NamedTuple):
    """Counts.

    Attributes:
        findings: number of damaged places.
        unreadable: number of files that could not be read.
        processed: bytes of a file whose items are complete.
    """

    findings: int = 0
    unreadable: int = 0
    processed: int = 0


DumpItem: TypeAlias = bytes | Begun | Complaint | Contradicted | Followed | Tally
"""Bytes are text for standard output."""


def text_line(text: str) -> bytes:
    """Return a line of text for standard output."""
    return text.encode("utf-8", "surrogateescape") + b"\n"
