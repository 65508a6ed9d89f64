"""Items of a dump of files other than logs: entries, notes and faults, in file order."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class ShownEntry(NamedTuple):
    """One entry of a file.

    Attributes:
        text: line of the entry in a text dump.
        fields: fields of the entry in JSON, also those that the line omits.
    """

    text: str
    fields: dict[str, Any]


class Note(NamedTuple):
    """A line about the whole file, such as that it is empty."""

    text: str


class Mismatch(Enum):
    """Kind of a contradiction between two files; the value is the kind in JSON."""

    OFFSET_INDEX = "index_mismatch"
    TIMESTAMP = "timestamp_mismatch"
    TIMESTAMP_ORDER = "timestamp_order"
    OFFSET_NOT_FOUND = "offset_not_found"


class Contradiction(NamedTuple):
    """An index entry that the log, or the entry before it, contradicts.

    Attributes:
        position: position of the entry in its file.
        stated, found: offset or timestamp of the entry, and the one that contradicts it.
    """

    what: Mismatch
    position: int
    stated: int
    found: int


class Fault(NamedTuple):
    """Any other fault of a file.

    Attributes:
        kind: kind in JSON, in snake case.
        reason: one sentence, Kafka's own if Kafka has one.
        position: position in the file; None for a fault of the whole file.
    """

    kind: str
    reason: str
    position: int | None = None
    expected: object = None
    found: object = None


Found = ShownEntry | Note | Contradiction | Fault
