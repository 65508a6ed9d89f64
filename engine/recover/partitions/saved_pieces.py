"""Pieces of a log that can be sent to another process: they name their file instead of having it open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from engine.log.partition_log import PartitionLog
from engine.log.segment.resync import ScannedFile
from engine.rebuild.assembly.pieces import Piece, RecordsFile
from engine.units import Offset


class FileOfCopy(NamedTuple):
    """A records file: the number of its copy of the partition, its path for messages, its base offset."""

    copy: int
    path: str
    base_offset: Offset


class SavedPiece(NamedTuple):
    """A piece without its file; `file` is None for bytes that are in the piece itself."""

    file: FileOfCopy | None
    piece: Piece


def saved(pieces: Iterable[Piece]) -> list[SavedPiece]:
    """Return pieces that can be sent."""
    found = []
    for piece in pieces:
        origin = piece.origin
        file = None if origin is None else FileOfCopy(origin.copy, origin.path, origin.base_offset)
        found.append(SavedPiece(file, piece._replace(origin=None)))
    return found


class CopyFiles:
    """The records files of a partition's copies.

    Args:
        copies: the copies, in the order that the pieces count them.
    """

    def __init__(self, copies: Sequence[PartitionLog]) -> None:
        self._copies = copies
        self._files: dict[FileOfCopy, RecordsFile] = {}

    def restored(self, pieces: Iterable[SavedPiece]) -> list[Piece]:
        """Return the pieces with their files."""
        return [
            each.piece if each.file is None else each.piece._replace(origin=self._file(each.file))
            for each in pieces
        ]

    def _file(self, file: FileOfCopy) -> RecordsFile:
        known = self._files.get(file)
        if known is None:
            opened = partial(_opened, self._copies[file.copy], file)
            known = self._files[file] = RecordsFile(file.path, file.base_offset, opened, file.copy)
        return known


def _opened(log: PartitionLog, file: FileOfCopy) -> ScannedFile:
    view = log.view()
    segment = view.segment_for(file.base_offset)
    if segment is not None and segment.files.root.display(segment.path) == file.path:
        return segment.file
    return log.root.open(view.log.relative(os.path.basename(file.path)))
