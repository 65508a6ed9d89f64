"""Bounds on schemas and on the values that are decoded with one; all bytes may be hostile."""

from __future__ import annotations

from collections.abc import Iterable

from engine.lines.json_text import JSON_DEPTH
from engine.topics.decoded_record import LARGEST_VALUE
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.store import MOST_REFERENCES

MOST_DEPTH = JSON_DEPTH
"""Deepest nesting of a schema and of a value."""
MOST_BYTES = LARGEST_VALUE
"""Most bytes of a key or value that is decoded."""
MOST_COST = 64 * 1024 * 1024
"""Most bytes of JSON text of a value, roughly: what its bytes do not pay for, as the names of fields, counts."""
CONTAINER_COST = 64
"""Cost of an array or object: as an object it takes more memory than its text."""
ITEM_COST = 4
_MOST_NOTES = 3
"""Most notes on the parts of a value."""
MOST_SCHEMA_BYTES = 4 * 1024 * 1024
"""Most bytes of the text of a schema together with its references."""


def check_schema_size(texts: Iterable[str]) -> None:
    """Check the texts of a schema and its references. Raises UndecodableError."""
    sizes = [len(text) for text in texts]
    if len(sizes) - 1 > MOST_REFERENCES:
        raise UndecodableError(
            f"the schema has {len(sizes) - 1} references, the limit is {MOST_REFERENCES}"
        )
    if sum(sizes) > MOST_SCHEMA_BYTES:
        raise UndecodableError(
            f"the schema has {sum(sizes)} characters, the limit is {MOST_SCHEMA_BYTES}"
        )


def check_size(size: int) -> None:
    """Check the size of a key or value. Raises UndecodableError."""
    if size > MOST_BYTES:
        raise UndecodableError(f"{size} bytes are not decoded, the limit is {MOST_BYTES}")


class Purse(list[int]):
    """What is left of a value's cost, as its only item, and what is odd about parts of the value.

    Attributes:
        notes: why parts are not shown as their type says, each once.
    """

    def __init__(self) -> None:
        super().__init__([MOST_COST])
        self.notes: list[str] = []

    def note(self, reason: str) -> None:
        """Note why a part is not shown as its type says."""
        if len(self.notes) < _MOST_NOTES and reason not in self.notes:
            self.notes.append(reason)


def pay(purse: list[int], cost: int, at: int) -> None:
    """Take a cost out of a value's purse. Raises UndecodableError when the purse is empty."""
    purse[0] -= cost
    if purse[0] < 0:
        raise UndecodableError(f"the value takes more than {MOST_COST} bytes of JSON", at)
