"""Packing of work into tasks: each task has a cost of its own in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class TaskPiece(Protocol):
    """A piece of work with a size in bytes."""

    @property
    def size(self) -> int:
        """Size in bytes."""


Some = TypeVar("Some", bound=TaskPiece)


def packed(pieces: Iterable[Some], most: int, opening: int) -> list[tuple[Some, ...]]:
    """Pack pieces into tasks of at most `most` bytes; keep their order.

    Args:
        pieces: pieces of work; one above `most` has a task of its own.
        most: bytes of a task.
        opening: cost of opening a piece, in bytes.
    """
    tasks: list[list[Some]] = []
    room = 0
    for piece in pieces:
        weight = piece.size + opening
        if not tasks or weight > room:
            tasks.append([])
            room = most
        tasks[-1].append(piece)
        room -= weight
    return [tuple(task) for task in tasks]
