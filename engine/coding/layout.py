"""Fixed-size structures, declared once as named tuples, packed and unpacked by the standard struct module.

All of Kafka's fixed structures are big-endian and unpadded; the rows of the kernel's tables are native. A field's width is the struct letter in its
annotation; its position follows from the fields before it, so a byte position is never written by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from engine.arrays import np

Int8: TypeAlias = Annotated[int, "b"]
Int16: TypeAlias = Annotated[int, "h"]
Int32: TypeAlias = Annotated[int, "i"]
Int64: TypeAlias = Annotated[int, "q"]
UInt8: TypeAlias = Annotated[int, "B"]
UInt16: TypeAlias = Annotated[int, "H"]
UInt32: TypeAlias = Annotated[int, "I"]
Buffer: TypeAlias = bytes | bytearray | memoryview

T = TypeVar("T", bound=NamedTuple)

_WIDTHS: Final = {
    "Int8": Int8,
    "Int16": Int16,
    "Int32": Int32,
    "Int64": Int64,
    "UInt8": UInt8,
    "UInt16": UInt16,
    "UInt32": UInt32,
}


def _letter(annotation: Any) -> str:  # noqa: ANN401
    """Return the struct letter of a field's annotation, which may be its name alone."""
    # Not with typing.get_type_hints, which compiles each name: that took a tenth of a short command.
    width = _WIDTHS.get(getattr(annotation, "__forward_arg__", annotation), annotation)
    letter: str = width.__metadata__[0]
    return letter


class Layout(Generic[T]):
    """Byte layout of a named tuple with fields that are annotated with their widths.

    Args:
        shape: the named tuple.
        order: byte order as in struct, ">" big-endian or "=" native.

    >>> class Entry(NamedTuple):
    ...     relative_offset: Int32
    ...     position: Int32
    >>> ENTRY = Layout(Entry)
    >>> ENTRY.size, ENTRY.position_of("position")
    (8, 4)
    >>> ENTRY.unpack(bytes([0, 0, 0, 33, 0, 0, 16, 62]))
    Entry(relative_offset=33, position=4158)
    """

    __slots__ = ("_dtype", "_letters", "_make", "_order", "_positions", "plain", "size")

    def __init__(self, shape: type[T], order: str = ">") -> None:
        self._letters: dict[str, str] = {
            name: _letter(shape.__annotations__[name]) for name in shape._fields
        }
        self._order = order
        self.plain = struct.Struct(order + "".join(self._letters.values()))
        """Struct that packs and unpacks the fields as a plain tuple."""
        # `shape._make` without its check of the number of fields, which the struct ensures.
        self._make: Any = partial(tuple.__new__, shape)
        self._positions: dict[str, int] = {}
        place = 0
        for name, letter in self._letters.items():
            self._positions[name] = place
            place += struct.calcsize(">" + letter)
        self.size = self.plain.size
        """Bytes of the structure."""
        self._dtype: np.dtype[np.void] | None = None

    @property
    def dtype(self) -> np.dtype[np.void]:
        """numpy dtype of the structure, unpadded."""
        known = self._dtype
        if known is None:
            letters = self._letters.items()
            known = self._dtype = np.dtype(
                [(name, np.dtype(self._order + letter)) for name, letter in letters]
            )
        return known

    def position_of(self, field: str) -> int:
        """Return the position of a field, in bytes from the start of the structure."""
        return self._positions[field]

    def field_struct(self, field: str) -> struct.Struct:
        """Return a struct that reads or writes one field alone."""
        return struct.Struct(self._order + self._letters[field])

    def end_of(self, field: str) -> int:
        """Return the end of a field, in bytes from the start of the structure."""
        return self._positions[field] + struct.calcsize(">" + self._letters[field])

    def up_to(self, field: str) -> struct.Struct:
        """Return a struct of the first fields, up to and including this one."""
        names = list(self._letters)
        return self.subset(*names[: names.index(field) + 1])

    def subset(self, *fields: str) -> struct.Struct:
        """Return a struct of some fields, in their order; the bytes between them are skipped.

        >>> class Entry(NamedTuple):
        ...     timestamp: Int64
        ...     producer_epoch: Int16
        ...     sequence: Int32
        >>> Layout(Entry).subset("timestamp", "sequence").format
        '>q2xi'
        """
        text, place = self._order, 0
        for name, letter in self._letters.items():
            if name in fields:
                skipped = self._positions[name] - place
                text += (f"{skipped}x" if skipped else "") + letter
                place = self.end_of(name)
        return struct.Struct(text)

    def unpack(self, buffer: Buffer, position: int = 0) -> T:
        """Return the structure at a position. Raises struct.error when the buffer ends inside it."""
        made: T = self._make(self.plain.unpack_from(buffer, position))
        return made

    def pack(self, value: T) -> bytes:
        """Return the bytes of a structure. Raises struct.error when a value does not fit its field."""
        return self.plain.pack(*value)

    def iter_unpack(self, buffer: Buffer) -> Iterator[T]:
        """Yield the structures of a buffer; the buffer's size must be a multiple of the structure's."""
        return map(self._make, self.plain.iter_unpack(buffer))
