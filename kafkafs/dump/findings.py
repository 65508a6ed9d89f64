"""What the files other than logs hold, one thing after the other: entries, and what is wrong with them."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class ShownEntry(NamedTuple):
    """One entry of a file.

    Attributes:
        text: its line in a dump.
        fields: the same for JSON, with what the line leaves out.
    """

    text: str
    fields: dict[str, Any]


class Note(NamedTuple):
    """A line of a dump that is about the file, such as that it is empty."""

    text: str


class Mismatch(Enum):
    """Where two files contradict each other; the value is the kind in JSON."""

    OFFSET_INDEX = "index_mismatch"
    TIMESTAMP = "timestamp_mismatch"
    TIMESTAMP_ORDER = "timestamp_order"
    OFFSET_NOT_FOUND = "offset_not_found"


class Contradiction(NamedTuple):
    """An index entry that the log, or the entry before it, contradicts.

    Attributes:
        position: of the entry in its file.
        stated, found: what the entry says, and what contradicts it.
    """

    what: Mismatch
    position: int
    stated: int
    found: int


class Fault(NamedTuple):
    """Anything else that is wrong with a file.

    Attributes:
        kind: in snake case.
        reason: one sentence; Kafka's own where it has one.
        position: where in the file, None for the file as a whole.
    """

    kind: str
    reason: str
    position: int | None = None
    expected: object = None
    found: object = None


Found = ShownEntry | Note | Contradiction | Fault
