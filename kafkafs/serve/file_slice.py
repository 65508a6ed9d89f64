"""Bytes of an answer that lie in a source file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from engine.coding.layout import Buffer
from engine.files.source_files import SourceFile
from engine.units import Position


class FileSlice(NamedTuple):
    """Consecutive bytes of an open file."""

    file: SourceFile
    position: Position
    size: int


Piece: TypeAlias = "FileSlice | Buffer"
"""A part of an answer."""


def size_of(pieces: Sequence[Piece]) -> int:
    """Return the bytes of pieces together."""
    size = 0
    for piece in pieces:
        size += piece.size if isinstance(piece, FileSlice) else len(piece)
    return size


class ShortFileError(OSError):
    """A source file became shorter while a part of it was sent; the answer cannot be completed."""

    @classmethod
    def of(cls, piece: FileSlice, position: Position) -> ShortFileError:
        """Return the error for a file that ends at a position within a piece."""
        end = piece.position + piece.size
        return cls(f"{piece.file.path} ends at {position}, before {end}")
