"""Skip zeros at the end of files and between data, without a read of the file's holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from engine.arrays import np
from engine.budgets import MiB
from engine.units import Position

_FIRST_READ = 4 * 1024
_LARGEST_READ = 1 * MiB
_ZEROS = bytes(_LARGEST_READ)


def first_data(
    fd: int, read_at: Callable[[Position, int], bytes], position: Position, end: Position
) -> Position:
    """Return the position of the first byte in [position, end) that is not zero; `end` without one.

    Args:
        fd: descriptor of the file, below 0 for none.
        read_at: reads a number of bytes from a position.
        position, end: positions in the file.
    """
    size = _FIRST_READ
    while position < end:
        position = min(behind_hole(fd, position, end), end)
        data = read_at(position, min(size, end - position))
        if not data:
            return end
        if not _ZEROS.startswith(data):
            return position + int(np.argmax(np.frombuffer(data, np.uint8) != 0))
        position += len(data)
        size = min(4 * size, _LARGEST_READ)  # a hole may follow soon
    return end


def behind_hole(fd: int, position: Position, end: Position) -> Position:
    """Return the position of the next data by the file system; a position outside of holes unchanged."""
    if fd < 0:
        return position
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else position
