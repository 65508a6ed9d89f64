"""Zeros at the end of files and between their data: holes are passed over, not read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import numpy as np

from engine.budgets import MiB
from engine.units import Position

_FIRST_READ = 4 * 1024
_LARGEST_READ = 1 * MiB
_ZEROS = bytes(_LARGEST_READ)


def first_data(
    fd: int, read_at: Callable[[Position, int], bytes], position: Position, end: Position
) -> Position:
    """Where the first byte that is not zero lies in [position, end); `end` if there is none.

    Args:
        fd: the file's descriptor, below 0 for what has none.
        read_at: reads so many bytes from a position.
        position, end: where to look.
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
        size = min(4 * size, _LARGEST_READ)  # a hole may begin right behind: ask for it soon
    return end


def behind_hole(fd: int, position: Position, end: Position) -> Position:
    """Where the next data lies, as far as the file system tells; a position that is in no hole."""
    if fd < 0:
        return position
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else position
