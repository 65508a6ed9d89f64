"""Segments moved to other offsets: base offsets of batches and index entries are changed in their files."""

from __future__ import annotations

import numpy as np

from engine.disk.disk import Disk
from engine.errors import CorruptRecordError
from engine.record.batch_frame import HEADER, LOG_OVERHEAD
from engine.units import Offset, Position

_CHUNK = 4 * 1024 * 1024
_HEAD = HEADER.up_to("length")
_OFFSET = HEADER.field_struct("base_offset")


def move_index_entries(path: str, entry: np.dtype[np.void], by: int, disk: Disk) -> None:
    """Add `by` to the relative offsets of an index, for a base offset lower by that much, and sync the file.

    Raises:
        OSError: the disk fails.
    """
    with disk.open(path) as file:
        entries = np.frombuffer(bytearray(file.read_at(0, file.size())), entry)
        entries["relative_offset"] += by
        file.write_at(0, entries.tobytes())
        file.sync()


def move_batches(path: str, by: int, disk: Disk) -> None:
    """Add `by` to the base offset of every batch of magic 2 in a file, and sync the file.

    Raises:
        CorruptRecordError: the file does not end with a batch.
        OSError: the disk fails; some batches may have been moved.
    """
    with disk.open(path) as file:
        size, position = file.size(), 0
        while position < size:
            chunk = bytearray(min(_CHUNK, size - position))
            file.read_into(chunk, position)
            moved = _move(chunk, by)
            if not moved:
                # A batch larger than the chunk: only its head is needed.
                base, length = _head(path, chunk, position)
                file.write_at(position, _OFFSET.pack(base + by))
                position += LOG_OVERHEAD + length
                continue
            file.write_at(position, memoryview(chunk)[:moved])
            position += moved
        if position != size:
            raise CorruptRecordError("the last batch is not whole", path=path, position=size)
        file.sync()


def _head(path: str, chunk: bytearray, position: Position) -> tuple[Offset, int]:
    if len(chunk) < _HEAD.size:
        raise CorruptRecordError("the last batch is not whole", path=path, position=position)
    base, length = _HEAD.unpack_from(chunk)
    if length <= 0:
        raise CorruptRecordError("a batch of no length", path=path, position=position)
    return base, length


def _move(chunk: bytearray, by: int) -> int:
    """Move the whole batches in a chunk; return their bytes."""
    position = 0
    while len(chunk) - position >= _HEAD.size:
        base, length = _HEAD.unpack_from(chunk, position)
        end = position + LOG_OVERHEAD + length
        if length <= 0 or end > len(chunk):
            break
        _OFFSET.pack_into(chunk, position, base + by)
        position = end
    return position
