"""Base of a segment's indexes: entries of fixed size, relative to a base offset."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

from engine.closable import Closable
from engine.coding.layout import Buffer
from engine.errors import CorruptIndexError
from engine.files.source_files import SourceFile
from engine.index.slots import Found, Slots, SlotSource, slots_of
from engine.units import Offset, Slot

Entry = TypeVar("Entry")


class AbstractIndex(Closable, Sequence[Entry], Generic[Entry]):
    """A sequence of entries, read from the source on each access.

    Args:
        source: the index's bytes, its open file, or a function that opens its file for each look-up.
        base_offset: base offset of the segment; entries are relative to it.
        path: path for error messages, if the source is not a file.

    A look-up in a file raises OSError (FileNotFoundError if it cannot be opened) and, on a closed
    index, ValueError. Entries are hints: prove them against the log.
    """

    entry_size: int

    def __init__(self, source: SlotSource, base_offset: Offset, *, path: str | None = None) -> None:
        self.base_offset = base_offset
        self.path = source.path if isinstance(source, SourceFile) else path
        self._open_slots: Slots | None = slots_of(source, self.entry_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, base_offset={self.base_offset})"

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._open_slots is None

    def close(self) -> None:
        """Release the source; later look-ups raise ValueError."""
        self._open_slots = None

    @property
    def byte_size(self) -> int:
        """Current length of the file, with zero padding."""
        return self._slots.byte_size

    def __len__(self) -> int:
        return len(self._slots)

    def entry_at(self, slot: Slot) -> Entry:
        """Return the entry in a slot. Raises IndexError for a slot that the index does not have."""
        found = self._slots.at(slot)
        if found is None:
            raise IndexError(f"no slot {slot} in {self!r}")
        return self._entry(found)

    @overload
    def __getitem__(self, slot: int) -> Entry: ...
    @overload
    def __getitem__(self, slot: slice) -> list[Entry]: ...
    def __getitem__(self, slot: int | slice) -> Entry | list[Entry]:
        if isinstance(slot, slice):
            return [self.entry_at(each) for each in range(*slot.indices(len(self)))]
        return self.entry_at(slot if slot >= 0 else len(self) + slot)

    def __iter__(self) -> Iterator[Entry]:
        for chunk in self._slots.chunks():
            for position in range(0, len(chunk), self.entry_size):
                yield self._parse(chunk, position)

    @abstractmethod
    def check(self) -> None:
        """Raise CorruptIndexError if a quick look shows that the index contradicts itself."""

    @abstractmethod
    def _parse(self, buffer: Buffer, position: int) -> Entry:
        """Return the entry at `position` of a buffer."""

    @property
    def _slots(self) -> Slots:
        slots = self._open_slots
        if slots is None:
            raise ValueError(f"{self!r} is closed")
        return slots

    def _entry(self, found: Found) -> Entry:
        return self._parse(found[1], found[2])

    def _check_length(self) -> None:
        size = self.byte_size
        if size % self.entry_size:
            raise self._corrupt(
                "the index does not hold whole entries",
                expected=f"a multiple of {self.entry_size} bytes",
                found=f"{size} bytes",
            )

    def _corrupt(
        self, reason: str, slot: Slot | None = None, expected: object = None, found: object = None
    ) -> CorruptIndexError:
        position = None if slot is None else slot * self.entry_size
        return CorruptIndexError(
            reason, path=self.path, position=position, expected=expected, found=found
        )
