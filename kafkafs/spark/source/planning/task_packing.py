"""Which pieces of work a task takes: a task costs Spark something itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class TaskPiece(Protocol):
    """What has a size in bytes."""

    @property
    def size(self) -> int:
        """In bytes."""


Some = TypeVar("Some", bound=TaskPiece)


def packed(pieces: Iterable[Some], most: int, opening: int) -> list[tuple[Some, ...]]:
    """Pieces put together, in their order, to tasks of at most so many bytes; the tasks are in that order too.

    Args:
        pieces: a larger one has a task of its own.
        most: bytes in a task.
        opening: what a piece costs besides its bytes, in bytes.
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


def largest_first(tasks: Iterable[tuple[Some, ...]]) -> list[tuple[Some, ...]]:
    """The tasks, those with most bytes in front: they are done sooner where their order says nothing."""
    return sorted(tasks, key=lambda task: -sum(piece.size for piece in task))
